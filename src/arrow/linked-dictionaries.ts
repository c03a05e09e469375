// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, DictionaryLayout, DictionaryLinkPart, SourceLayout } from "../model/column-type.js";
import { visitNodes } from "./column-type-of.js";

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

class LinkedLayout {
    readonly #dictionaries: DictionaryLayout[];
    readonly #imported = new Map<DictionaryLayout, number>();

    public constructor(private readonly layout: SourceLayout) {
        this.#dictionaries = [...layout.dictionaries];
        layout.dictionaries.forEach((dictionary, i) => this.#imported.set(dictionary, i));
    }

    /** Index of a dictionary in memory in this source. */
    #import(dictionary: DictionaryLayout): number {
        const known = this.#imported.get(dictionary);
        if (known !== undefined) return known;
        this.#dictionaries.push(dictionary);
        this.#imported.set(dictionary, this.#dictionaries.length - 1);
        return this.#dictionaries.length - 1;
    }

    /** The dictionaries of a column, in the order in which its batches use them first. */
    #part({ layout, column }: LinkedColumn): DictionaryLinkPart {
        const node = dictionaryPosition(layout.columns, column);
        const used = new Set(layout.batches.map((batch) => batch.dictionaries[node] as number));
        const dictionaries = Array.from(used, (index) => this.#import(layout.dictionaries[index] as DictionaryLayout));
        return { files: layout.files, node: layout.files === null ? 0 : node, dictionaries };
    }

    public finish(links: ReadonlyMap<number, readonly LinkedColumn[]>): SourceLayout {
        const own = [...links].map(([column, members]) => ({
            node: dictionaryPosition(this.layout.columns, column),
            parts: members.map((member) => this.#part(member))
        }));
        return { ...this.layout, dictionaries: this.#dictionaries, links: [...this.layout.links, ...own] };
    }
}

/**
 * The same source with codes that agree with those of other sources: the engine unifies a column's dictionaries in the
 * order of their first use, and goes through those of all linked columns first, in one order. `links`: for each column
 * its group, in the same order for every member.
 */
export function linkDictionaries(
    layout: SourceLayout,
    links: ReadonlyMap<number, readonly LinkedColumn[]>
): SourceLayout {
    return new LinkedLayout(layout).finish(links);
}
