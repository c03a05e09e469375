// SPDX-License-Identifier: Apache-2.0
import type { BatchLayout, ColumnType, DictionaryLayout, SourceLayout } from "../model/column-type.js";
import { bufferCount, visitNodes } from "./column-type-of.js";

/** A top-level dictionary column of a source. */
export interface LinkedColumn {
    readonly layout: SourceLayout;
    readonly column: number;
}

/** Position of a column's own dictionary among all dictionary nodes of a batch. */
function dictionaryPosition(columns: readonly ColumnType[], column: number): number {
    let position = 0;
    visitNodes(columns.slice(0, column), (type) => {
        if (type.layout === "dictionary") position++;
    });
    return position;
}

/** Dictionaries of a column in the order in which its batches use them first. */
function dictionariesOf({ layout, column }: LinkedColumn): number[] {
    const position = dictionaryPosition(layout.columns, column);
    return [...new Set(layout.batches.map((batch) => batch.dictionaries[position] ?? 0))];
}

class LinkedLayout {
    readonly #paths: string[];
    readonly #stamps: string[];
    readonly #dictionaries: DictionaryLayout[];
    readonly #imported = new Map<DictionaryLayout, number>();
    readonly #pathOffsets = new Map<SourceLayout, number>();

    public constructor(private readonly layout: SourceLayout) {
        this.#paths = [...layout.paths];
        this.#stamps = [...layout.stamps];
        this.#dictionaries = [...layout.dictionaries];
        layout.dictionaries.forEach((dictionary, i) => this.#imported.set(dictionary, i));
    }

    /** Index of a dictionary of `from` in this source. Its batches stay in their own files. */
    #import(from: SourceLayout, index: number): number {
        const dictionary = from.dictionaries[index] as DictionaryLayout;
        const known = this.#imported.get(dictionary);
        if (known !== undefined) return known;
        const offset = this.#pathOffsets.get(from) ?? this.#paths.length;
        if (!this.#pathOffsets.has(from)) {
            this.#paths.push(...from.paths);
            this.#stamps.push(...from.stamps);
        }
        this.#pathOffsets.set(from, offset);
        const batches = dictionary.batches.map((batch) => ({
            ...batch,
            file: batch.file < 0 ? -1 : batch.file + offset
        }));
        this.#dictionaries.push({ valueType: dictionary.valueType, batches });
        this.#imported.set(dictionary, this.#dictionaries.length - 1);
        return this.#dictionaries.length - 1;
    }

    /** For each dictionary node of a batch the dictionaries that its codes run through, in order. */
    #orders(links: ReadonlyMap<number, readonly LinkedColumn[]>): number[][] {
        const orders: number[][] = [];
        this.layout.columns.forEach((column, i) => {
            visitNodes([column], (type) => {
                if (type.layout !== "dictionary") return;
                const position = orders.length;
                const members = type === column ? links.get(i) : undefined;
                const order = members?.flatMap((member) =>
                    dictionariesOf(member).map((index) => this.#import(member.layout, index))
                );
                const own = this.layout.batches[0]?.dictionaries[position];
                orders.push(order === undefined ? [own ?? this.#emptyDictionary(type)] : [...new Set(order)]);
            });
        });
        return orders.map((order) => (order.length > 0 ? order : [0]));
    }

    #emptyDictionary(type: ColumnType): number {
        this.#dictionaries.push({ valueType: type.children[0] as ColumnType, batches: [] });
        return this.#dictionaries.length - 1;
    }

    #emptyBatch(dictionaries: number[]): BatchLayout {
        let nodes = 0;
        let buffers = 0;
        const variadicCounts: number[] = [];
        visitNodes(this.layout.columns, (type) => {
            nodes++;
            buffers += bufferCount(type.layout);
            if (type.layout === "view") variadicCounts.push(0);
        });
        const memory = new Array<null>(buffers).fill(null);
        const empty = new Float64Array(0);
        return {
            file: -1,
            rows: 0,
            nodes: new Float64Array(nodes * 3),
            buffers: empty,
            memory,
            variadicCounts,
            dictionaries
        };
    }

    public finish(links: ReadonlyMap<number, readonly LinkedColumn[]>): SourceLayout {
        const orders = this.#orders(links);
        const longest = Math.max(0, ...orders.map((order) => order.length));
        const carriers = Array.from({ length: longest }, (_, i) =>
            this.#emptyBatch(orders.map((order) => order[Math.min(i, order.length - 1)] ?? 0))
        );
        return {
            columns: this.layout.columns,
            paths: this.#paths,
            stamps: this.#stamps,
            batches: [...carriers, ...this.layout.batches],
            dictionaries: this.#dictionaries
        };
    }
}

/**
 * The same source with codes that agree with those of other sources: the engine unifies a column's dictionaries in the
 * order of their first use, so batches without rows in front make it go through the dictionaries of all linked columns
 * in one order. `links`: for each column its group, in the same order for every member.
 */
export function linkDictionaries(
    layout: SourceLayout,
    links: ReadonlyMap<number, readonly LinkedColumn[]>
): SourceLayout {
    return new LinkedLayout(layout).finish(links);
}
