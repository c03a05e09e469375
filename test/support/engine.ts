// SPDX-License-Identifier: Apache-2.0
// The engine under test, driven through the public API of the built package.
import { DataType } from "apache-arrow";
import type { RuntimeOptions } from "spillway";
import { cellTable, nullCell, type CellTable } from "./cells.js";
import type { GroupCase, JoinCase } from "./cases.js";
import { useGpu } from "./gpu.js";
import { keyTexts, referenceGroupBy, referenceJoin, type ReferenceGroup } from "./reference.js";
import { knobs } from "./knobs.js";

/**
 * Whole-suite modes: the same cases under other machines, budgets and algorithms. Relations of so few rows get one
 * worker each, whatever `threads` says; `workers` is what makes threads meet.
 */
export const suiteModes: Record<string, RuntimeOptions> = {
    default: {},
    "forced spill": { debug: { forceSpill: true, packSpilled: false, pageBytes: 4096, workers: 2 } },
    "forced spill, packed": { debug: { forceSpill: true, packSpilled: true, pageBytes: 4096, workers: 2 } },
    "hash always 0": { debug: { hashMask: 0n, workers: 2, morselRows: 50 } },
    "hash of two bits": knobs({ hashMask: 0x8000000000000001n, radixBits: 3 }),
    "tiny pages and morsels": knobs({ pageBytes: 1024, morselRows: 37, radixBits: 4, workers: 4 }),
    "one thread": { threads: 1 },
    "more threads than cores": { threads: 7, debug: { morselRows: 50, workers: 7 } },
    "tiny budget": { memory: { host: "24MiB" } },
    "one partition": knobs({ radixBits: 0, secondRadixBits: 0 }),
    "many partitions, second pass": {
        ...knobs({ algorithm: "radix", radixBits: 7, secondRadixBits: 4, workers: 2, morselRows: 50 })
    },
    "radix, linear probing": { debug: { algorithm: "radix", scheme: "linearProbing" } },
    "radix, bucket chaining": { debug: { algorithm: "radix", scheme: "bucketChaining" } },
    "radix, perfect": { debug: { algorithm: "radix", scheme: "perfect" } },
    streaming: { debug: { algorithm: "streaming", workers: 4, morselRows: 50 } },
    "chunks of a build side": {
        ...knobs({ algorithm: "radix", buildChunkBytes: 4096, probeSplitRows: 64, radixBits: 2, workers: 4 })
    },
    "spilled chunks": {
        debug: { forceSpill: true, pageBytes: 1024, buildChunkBytes: 4096, probeSplitRows: 64, workers: 4 }
    },
    pipelines: { debug: { algorithm: "pipeline", workers: 4, morselRows: 50 } },
    "texts in the rows": { debug: { inlineTexts: true, workers: 2, morselRows: 50 } },
    "texts in the rows, spilled": { debug: { inlineTexts: true, forceSpill: true, pageBytes: 4096, workers: 2 } },
    "texts in the rows, one hash": { debug: { inlineTexts: true, hashMask: 0n, workers: 2 } },
    "texts in the rows, streaming": {
        debug: { inlineTexts: true, algorithm: "streaming", workers: 3, morselRows: 50 }
    },
    "texts in the rows, pipelines": {
        debug: { inlineTexts: true, algorithm: "pipeline", workers: 3, morselRows: 50 }
    },
    "array joins": { debug: { algorithm: "array", workers: 3, morselRows: 50 } },
    "GPU where it can": { device: "auto", memory: { device: "64MiB" }, debug: { gpu: true, workers: 3 } }
};

useGpu();

interface ExpectedColumn {
    readonly name: string;
    /** Cell of a pair of row numbers. */
    readonly cell: (left: number, right: number) => string;
}

function cellsOf(table: CellTable, name: string): readonly string[] {
    return table.cells[table.names.indexOf(name)]!;
}

/**
 * Result columns: all of the left, then those of the right that are no shared key, "_right" behind clashing names.
 * A shared key is the left one's value, or the right one's where there is no left row; -0 and 0 are one key.
 */
function expectedColumns({ on, type }: JoinCase, left: CellTable, right: CellTable): ExpectedColumn[] {
    const shared = new Set(on.filter(([l, r]) => l === r).map(([name]) => name));
    const at = (cells: readonly string[], row: number) => (row < 0 ? nullCell : absentUnion(cells[row]!));
    const columns = left.names.map((name): ExpectedColumn => {
        const own = cellsOf(left, name);
        if (!shared.has(name)) return { name, cell: (l) => at(own, l) };
        const other = cellsOf(right, name);
        return { name, cell: (l, r) => keyCell(l < 0 ? at(other, r) : at(own, l)) };
    });
    if (type === "semi" || type === "anti") return columns;
    const rest = right.names.filter((name) => !shared.has(name));
    return [
        ...columns,
        ...rest.map((name): ExpectedColumn => {
            const own = cellsOf(right, name);
            return { name: left.names.includes(name) ? `${name}_right` : name, cell: (_, r) => at(own, r) };
        })
    ];
}

const keyCell = (cell: string): string => (cell === "-0" ? "0" : cell);

export interface ExpectedRows {
    readonly names: readonly string[];
    readonly rows: readonly string[];
}

export function expectedJoin(joinCase: JoinCase): ExpectedRows {
    const [left, right] = [cellTable(joinCase.left), cellTable(joinCase.right)];
    const keys = (table: CellTable, side: 0 | 1) =>
        keyTexts(
            joinCase.on.map((names) => cellsOf(table, names[side])),
            table.rows,
            joinCase.nullEquality
        );
    const pairs = referenceJoin(keys(left, 0), keys(right, 1), joinCase.type);
    const columns = expectedColumns(joinCase, left, right);
    return {
        names: columns.map((column) => column.name),
        rows: pairs.map(([l, r]) => columns.map((column) => column.cell(l, r)).join(" | "))
    };
}

/** Rows of a result as text, shared keys with -0 as 0. */
export function joinedRows(table: CellTable, joinCase: JoinCase): string[] {
    const shared = new Set(joinCase.on.filter(([l, r]) => l === r).map(([name]) => name));
    const texts = table.names.map((name, column) => {
        const cells = table.cells[column]!;
        return shared.has(name) ? cells.map(keyCell) : cells.map(absentUnion);
    });
    return Array.from({ length: table.rows }, (_, row) => texts.map((cells) => cells[row]!).join(" | "));
}

/** A union has no NULL of its own: a row without a partner holds the NULL of one of its children, whichever it is. */
function absentUnion(cell: string): string {
    return /^(?:<\d+:)+NULL>+$/.test(cell) ? nullCell : cell;
}

const int64Max = 2n ** 63n - 1n;
const int64Min = -(2n ** 63n);
const uint64Max = 2n ** 64n - 1n;

/** Would an integer sum of some group leave the 64 bits of its result type? */
export function sumOverflows(groupCase: GroupCase, groups: readonly ReferenceGroup[]): boolean {
    return groupCase.aggregates.some(({ kind, column }, index) => {
        if (kind !== "sum") return false;
        const type = String(groupCase.table.schema.fields.find((field) => field.name === column)!.type);
        if (!/^(Int|Uint|Duration)/.test(type)) return false;
        const [low, high] = type.startsWith("Uint") ? [0n, uint64Max] : [int64Min, int64Max];
        return groups.some((group) => {
            const sum = group.aggregates[index] as string;
            return sum !== nullCell && (BigInt(sum) < low || BigInt(sum) > high);
        });
    });
}

export function expectedGroups(groupCase: GroupCase): ReferenceGroup[] {
    return referenceGroupBy(cellTable(groupCase.table), groupCase.keys, groupCase.aggregates);
}

function closeTo(actual: string, expected: string): boolean {
    const [a, b] = [Number(actual), Number(expected)];
    return Object.is(a, b) || a === b || Math.abs(a - b) <= 1e-12 * Math.abs(b);
}

/** Throws with the first group that differs. */
export function expectSameGroups(actual: CellTable, expected: readonly ReferenceGroup[], groupCase: GroupCase): void {
    const { keys, aggregates, table, text } = groupCase;
    // Sums of floats depend on the order of rows; all other means are rounded once.
    const isClose = aggregates.map(({ kind, column }) => {
        const field = table.schema.fields.find(({ name }) => name === column);
        return kind === "mean" && field !== undefined && DataType.isFloat(field.type);
    });
    const names = [...keys, ...aggregates.map(({ alias }) => alias)];
    if (String(actual.names) !== String(names))
        throw new Error(`${text}: columns ${String(actual.names)}, not ${String(names)}`);
    const byKey = new Map(expected.map((group) => [group.key, group]));
    if (actual.rows !== expected.length) throw new Error(`${text}: ${actual.rows} groups, expected ${expected.length}`);
    for (let row = 0; row < actual.rows; ++row) {
        const cells = actual.cells.map((column) => column[row]!);
        const key = JSON.stringify(cells.slice(0, keys.length).map(keyCell));
        const group = byKey.get(key);
        if (group === undefined) throw new Error(`${text}: group ${key} is unknown or came twice`);
        byKey.delete(key);
        aggregates.forEach(({ alias, kind }, index) => {
            const [cell, wanted] = [cells[keys.length + index]!, group.aggregates[index]!];
            const candidates = typeof wanted === "string" ? [wanted] : wanted;
            const right = candidates.some((candidate) =>
                isClose[index] === true ? closeTo(cell, candidate) : keyCell(cell) === keyCell(candidate)
            );
            if (!right)
                throw new Error(`${text}: group ${key}: ${kind} ${alias} is ${cell}, expected ${String(wanted)}`);
        });
    }
}
