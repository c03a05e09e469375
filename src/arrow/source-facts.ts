// SPDX-License-Identifier: Apache-2.0
import type { BatchLayout, ColumnType, DictionaryLayout, SourceLayout } from "../model/column-type.js";
import type { OpenedFileBatches } from "../model/files.js";
import { checkedSum } from "../model/sizes.js";
import { bufferCount, visitNodes } from "./column-type-of.js";

/** Sizes of a relation, from its batch headers alone. */
export interface SourceFacts {
    rows: number;
    columnBytes: number[];
    dictionaryBytes: number[];
    /** Entries of the dictionaries of each column. */
    dictionaryRows: number[];
    largestBatchRows: number;
}

/** Facts of a relation of files. */
export function fileFacts(opened: OpenedFileBatches): SourceFacts {
    const { rows, largestBatchRows } = opened;
    return {
        rows,
        columnBytes: Array.from(opened.columnBytes),
        dictionaryBytes: Array.from(opened.dictionaryBytes),
        dictionaryRows: Array.from(opened.dictionaryRows),
        largestBatchRows
    };
}

function bufferBytes(batch: BatchLayout, index: number): number {
    return batch.memory[index]?.byteLength ?? 0;
}

function bufferTotal(batch: BatchLayout): number {
    return batch.memory.reduce((bytes, buffer) => bytes + (buffer?.byteLength ?? 0), 0);
}

function dictionaryTotal(dictionary: DictionaryLayout): number {
    return dictionary.batches.reduce((sum, batch) => sum + bufferTotal(batch), 0);
}

function dictionaryRows(dictionary: DictionaryLayout): number {
    return dictionary.batches.reduce((sum, batch) => sum + batch.rows, 0);
}

/** Those of batches in memory. A slice of a big table counts what its views cover. */
export function sourceFacts(layout: SourceLayout): SourceFacts {
    const facts: SourceFacts = {
        rows: 0,
        columnBytes: layout.columns.map(() => 0),
        dictionaryBytes: layout.columns.map(() => 0),
        dictionaryRows: layout.columns.map(() => 0),
        largestBatchRows: 0
    };
    const counted = new Set<number>();
    for (const batch of layout.batches) {
        facts.rows = checkedSum(facts.rows, batch.rows, "rows");
        facts.largestBatchRows = Math.max(facts.largestBatchRows, batch.rows);
        let buffer = 0;
        let view = 0;
        let dictionary = 0;
        layout.columns.forEach((column, i) => {
            visitNodes([column], (type) => {
                const variadic = type.layout === "view" ? (batch.variadicCounts[view++] ?? 0) : 0;
                const end = buffer + bufferCount(type.layout) + variadic;
                for (; buffer < end; buffer++)
                    facts.columnBytes[i] = (facts.columnBytes[i] ?? 0) + bufferBytes(batch, buffer);
                if (type.layout !== "dictionary") return;
                const index = batch.dictionaries[dictionary++] as number;
                if (counted.has(index)) return;
                counted.add(index);
                const entries = layout.dictionaries[index] as DictionaryLayout;
                facts.dictionaryBytes[i] = (facts.dictionaryBytes[i] ?? 0) + dictionaryTotal(entries);
                facts.dictionaryRows[i] = (facts.dictionaryRows[i] ?? 0) + dictionaryRows(entries);
            });
        });
    }
    return facts;
}

function dictionaryHasNulls(dictionary: DictionaryLayout): boolean {
    return dictionary.batches.some((batch) => batch.nodes[1] !== 0);
}

/** The columns with `nullable` true only for nodes (in pre-order) that have NULLs. */
export function withNullability(columns: readonly ColumnType[], hasNulls: ArrayLike<number | boolean>): ColumnType[] {
    let node = 0;
    const narrow = (type: ColumnType): ColumnType => {
        const nullable = Boolean(hasNulls[node++]);
        if (type.layout === "dictionary") return { ...type, nullable };
        return { ...type, nullable, children: type.children.map(narrow) };
    };
    return columns.map(narrow);
}

/**
 * The columns of batches in memory with `nullable` true only where some batch holds a NULL: rows are then narrower and
 * NULL checks vanish. A NULL inside a dictionary makes rows NULL too.
 */
export function narrowNullability(layout: SourceLayout): ColumnType[] {
    const hasNulls: boolean[] = [];
    for (const batch of layout.batches) {
        let node = 0;
        let dictionary = 0;
        visitNodes(layout.columns, (type) => {
            let nulls = type.layout === "null" || batch.nodes[node * 3 + 1] !== 0;
            if (type.layout === "dictionary") {
                const index = batch.dictionaries[dictionary++] as number;
                nulls ||= dictionaryHasNulls(layout.dictionaries[index] as DictionaryLayout);
            }
            if (nulls) hasNulls[node] = true;
            node++;
        });
    }
    return withNullability(layout.columns, hasNulls);
}
