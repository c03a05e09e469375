// SPDX-License-Identifier: Apache-2.0
// Join and group-by written to be obviously right: sort both sides by the text of their keys, walk, compare.
import { DataType } from "apache-arrow";
import { nullCell, type CellTable } from "./cells.js";

export const joinTypes = ["inner", "left", "right", "full", "semi", "anti"] as const;
export type JoinType = (typeof joinTypes)[number];

/** Row numbers; -1 where a side has no partner. */
export type Pair = readonly [left: number, right: number];

/** -0 equals 0 in keys; every other text is its own class. */
const keyPart = (cell: string): string => (cell === "-0" ? "0" : cell);

/** One text per row, or null when a key part is NULL and NULL equals nothing. */
export function keyTexts(columns: readonly (readonly string[])[], rows: number, nullEquality: boolean) {
    return Array.from({ length: rows }, (_, row) => {
        const parts = columns.map((cells) => keyPart(cells[row]!));
        if (!nullEquality && parts.includes(nullCell)) return null;
        return JSON.stringify(parts);
    });
}

interface Run {
    readonly key: string;
    readonly rows: readonly number[];
}

/** Rows grouped by key, keys ascending, rows ascending inside a key. */
function sortedRuns(keys: readonly (string | null)[]): Run[] {
    const order = keys.flatMap((key, row) => (key === null ? [] : [{ key, row }]));
    order.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.row - b.row));
    const runs: { key: string; rows: number[] }[] = [];
    for (const { key, row } of order) {
        const last = runs.at(-1);
        if (last?.key === key) last.rows.push(row);
        else runs.push({ key, rows: [row] });
    }
    return runs;
}

/** Pairs of row numbers, in no particular order. */
export function referenceJoin(
    left: readonly (string | null)[],
    right: readonly (string | null)[],
    type: JoinType
): Pair[] {
    const [leftRuns, rightRuns] = [sortedRuns(left), sortedRuns(right)];
    const matches: Pair[] = [];
    const leftMatched = new Set<number>();
    const rightMatched = new Set<number>();
    for (let l = 0, r = 0; l < leftRuns.length && r < rightRuns.length;) {
        const [a, b] = [leftRuns[l]!, rightRuns[r]!];
        if (a.key < b.key) ++l;
        else if (a.key > b.key) ++r;
        else {
            for (const leftRow of a.rows) for (const rightRow of b.rows) matches.push([leftRow, rightRow]);
            a.rows.forEach((row) => leftMatched.add(row));
            b.rows.forEach((row) => rightMatched.add(row));
            ++l;
            ++r;
        }
    }
    const leftOnly = (matched: boolean): Pair[] =>
        left.flatMap((_, row): Pair[] => (leftMatched.has(row) === matched ? [[row, -1]] : []));
    const rightOnly = right.flatMap((_, row): Pair[] => (rightMatched.has(row) ? [] : [[-1, row]]));
    switch (type) {
        case "semi":
            return leftOnly(true);
        case "anti":
            return leftOnly(false);
        case "inner":
            return matches;
        case "left":
            return [...matches, ...leftOnly(false)];
        case "right":
            return [...matches, ...rightOnly];
        case "full":
            return [...matches, ...leftOnly(false), ...rightOnly];
    }
}

export const aggregateNames = ["sum", "min", "max", "mean", "first", "any", "count", "countDistinct"] as const;
export type AggregateName = (typeof aggregateNames)[number];

export interface Aggregate {
    readonly alias: string;
    readonly kind: AggregateName;
    /** "*" for the number of rows. */
    readonly column: string;
}

/** Texts that order as the values do; NULLs must be left out before. */
function compareCells(type: DataType): (a: string, b: string) => number {
    if (DataType.isFloat(type)) {
        // As in SQL engines that sort NaN: above infinity.
        const rank = (text: string) => (text === "NaN" ? [1, 0] : [0, Number(text)]);
        return (a, b) => {
            const [[aNaN, aValue], [bNaN, bValue]] = [rank(a), rank(b)];
            return aNaN! - bNaN! || (aValue! < bValue! ? -1 : aValue! > bValue! ? 1 : 0);
        };
    }
    if (DataType.isUtf8(type) || DataType.isLargeUtf8(type) || DataType.isUtf8View(type)) {
        const bytes = (text: string) => Buffer.from(JSON.parse(text) as string);
        return (a, b) => Buffer.compare(bytes(a), bytes(b));
    }
    if (DataType.isDictionary(type)) return compareCells(type.dictionary as DataType);
    const binary = DataType.isBinary(type) || DataType.isLargeBinary(type) || DataType.isBinaryView(type);
    if (binary || DataType.isFixedSizeBinary(type)) {
        return (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    }
    if (DataType.isBool(type)) return (a, b) => Number(a === "true") - Number(b === "true");
    return (a, b) => (BigInt(a) < BigInt(b) ? -1 : BigInt(a) > BigInt(b) ? 1 : 0);
}

function sumOf(type: DataType, cells: readonly string[]): string {
    if (cells.length === 0) return nullCell;
    if (DataType.isFloat(type)) return String(cells.reduce((sum, cell) => sum + Number(cell), 0) + 0);
    return cells.reduce((sum, cell) => sum + BigInt(cell), 0n).toString();
}

/** The double nearest to a quotient of whole numbers, ties to even: enough bits, and one for all that is less. */
export function nearestQuotient(dividend: bigint, divisor: bigint): number {
    if (dividend < 0n) return -nearestQuotient(-dividend, divisor);
    const bits = (value: bigint): number => value.toString(2).length;
    const shift = Math.max(0, 64 + bits(divisor) - bits(dividend));
    const shifted = dividend << BigInt(shift);
    const quotient = shifted / divisor;
    const sticky = shifted % divisor === 0n ? 0n : 1n;
    // Number() rounds to nearest even, and powers of two change no digit.
    return Number((quotient << 1n) | sticky) / 2 ** (shift + 1);
}

function meanOf(type: DataType, cells: readonly string[]): string {
    if (cells.length === 0) return nullCell;
    if (DataType.isFloat(type)) return String(Number(sumOf(type, cells)) / cells.length + 0);
    const unit = (digits: number): bigint => 10n ** BigInt(Math.max(0, digits));
    const scale = DataType.isDecimal(type) ? type.scale : 0;
    const sum = BigInt(sumOf(type, cells)) * unit(-scale);
    return String(nearestQuotient(sum, BigInt(cells.length) * unit(scale)));
}

/** The expected text, or the set of texts that are right (any, float extremes of -0 and 0). */
function aggregate({ kind, column }: Aggregate, table: CellTable, rows: readonly number[]): string | readonly string[] {
    if (column === "*") return String(rows.length);
    const index = table.names.indexOf(column);
    const type = table.types[index]!;
    const all = rows.map((row) => table.cells[index]![row]!);
    const cells = all.filter((cell) => cell !== nullCell);
    const compare = compareCells(type);
    switch (kind) {
        case "sum":
            return sumOf(type, cells);
        case "mean":
            return meanOf(type, cells);
        case "min":
            return cells.reduce((best, cell) => (best === nullCell || compare(cell, best) < 0 ? cell : best), nullCell);
        case "max":
            return cells.reduce((best, cell) => (best === nullCell || compare(cell, best) > 0 ? cell : best), nullCell);
        case "first":
            return all[0] ?? nullCell;
        case "any":
            return cells.length === 0 ? nullCell : cells;
        case "count":
            return String(cells.length);
        case "countDistinct":
            return String(new Set(cells.map(keyPart)).size);
    }
}

export interface ReferenceGroup {
    /** Text of the whole key, unique per group. */
    readonly key: string;
    readonly keys: readonly string[];
    readonly aggregates: readonly (string | readonly string[])[];
}

/** NULL is a key like any other; no keys make one group, also of no rows. */
export function referenceGroupBy(
    table: CellTable,
    keys: readonly string[],
    aggregates: readonly Aggregate[]
): ReferenceGroup[] {
    const columns = keys.map((name) => table.cells[table.names.indexOf(name)]!);
    const runs = sortedRuns(keyTexts(columns, table.rows, true));
    if (keys.length === 0 && runs.length === 0) runs.push({ key: "[]", rows: [] });
    return runs.map(({ key, rows }) => ({
        key,
        keys: columns.map((cells) => keyPart(cells[rows[0]!]!)),
        aggregates: aggregates.map((item) => aggregate(item, table, rows))
    }));
}
