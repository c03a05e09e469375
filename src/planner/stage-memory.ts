// SPDX-License-Identifier: Apache-2.0
import { isNested, isVariable, type ColumnType } from "../model/column-type.js";
import { clamp, powerOfTwoAtMost } from "../model/sizes.js";
import type { PipelineDescription } from "../plan/plan.js";
import { arrowRowBytes, type ValueWidth } from "./estimates.js";
import type { PlanLimits } from "./limits.js";
import { openPageBytes } from "./partitioning.js";
import type { Policy } from "./policy.js";

// native/executor/cpu/morsel_reader.hpp: a reader never holds more unless one row is larger.
const pieceBytesMax = 4 * 1024 * 1024;
// native/cpu/row/row_encoder.cpp: rows that are encoded at a time, fewer where they have more bytes than this.
const encodedRowsMax = 1024;
const encodedBytesMax = 256 * 1024;
// Fewer rows than the least are enough if they have this many bytes: a row of 100 KB is as much work as 1,000 others.
const fewRowsBytes = 1024 * 1024;

/** The least rows to take at a time, of rows so wide. `bytes`: what is wanted at a time. */
function leastRows(least: number, bytes: number, bytesPerRow: number): number {
    return Math.min(least, Math.max(1, Math.floor(Math.max(4 * bytes, fewRowsBytes) / bytesPerRow)));
}

/** Columns that a pass reads: keys, then carried ones, each once. */
export function columnsRead(keys: readonly { column: number }[], carry: readonly number[]): number[] {
    return [...new Set([...keys.map((key) => key.column), ...carry])].filter((column) => column >= 0);
}

/** Columns that a pipeline reads of its input, each once. */
export function pipelineColumnsRead({ joins, outputs }: Pick<PipelineDescription, "joins" | "outputs">): number[] {
    const all = [...joins.flatMap(({ keyColumns }) => keyColumns), ...outputs];
    return [...new Set(all.filter(({ join }) => join < 0).map(({ column }) => column))];
}

/** Mean bytes that readers copy of a row in memory, where all else is read in its place. */
export function copiedRowBytes(types: readonly ColumnType[], widths: readonly ValueWidth[]): number {
    return types.reduce((sum, type, i) => sum + structureRowBytes(type, widths[i] as ValueWidth), 0);
}

export interface ReadMemory {
    morselRows: number;
    /** Buffers of all workers, and of these what encodes rows. */
    bytes: number;
    encodingBytes: number;
}

/**
 * Memory in which a worker encodes rows of a morsel. Nested values are encoded whole, byte strings stay in their
 * columns until a row is placed: what is planned for these is a reserve for rows longer than the mean.
 */
function encodingBytes(types: readonly (ColumnType | undefined)[], row: ValueWidth, morselRows: number): number {
    const nested = types.some((type) => type !== undefined && isNested(type));
    const rowBytes = row.fixed + 16 * types.length;
    const encodedRows = clamp(Math.floor(encodedBytesMax / rowBytes), 1, encodedRowsMax);
    const heap = Math.min(encodedRows, morselRows) * row.heap;
    return encodedRows * rowBytes + (nested ? heap : Math.min(heap, fewRowsBytes));
}

/**
 * What readers copy of a row in memory before they check it (native/transfer/source.hpp): offsets, views, indices,
 * which are unified as well, and validity. Of nested values all, which is more than their structure.
 */
function structureRowBytes(type: ColumnType, width: ValueWidth): number {
    const validity = type.nullable ? 1 / 8 : 0;
    switch (type.layout) {
        case "binary":
            return validity + type.byteWidth;
        case "view":
            return validity + 16;
        case "dictionary":
            return validity + type.byteWidth + 4;
        default:
            return isNested(type) ? width.fixed + width.heap : validity;
    }
}

/** Rows per morsel, and the readers' and encoders' memory. `row`: an encoded one. */
export function readMemory(
    types: readonly ColumnType[],
    widths: readonly ValueWidth[],
    read: readonly number[],
    row: ValueWidth,
    inMemory: boolean,
    limits: PlanLimits,
    policy: Policy
): ReadMemory {
    const readWidths = read.map((column) => widths[column] ?? { fixed: 8, heap: 0 });
    const bytesPerRow = Math.max(1, arrowRowBytes(readWidths));
    const wanted = powerOfTwoAtMost(limits.morselBytes / bytesPerRow);
    const morselRows = clamp(
        wanted,
        leastRows(limits.morselRowsMin, limits.morselBytes, bytesPerRow),
        policy.morselRowsMax
    );
    const readTypes = read.map((column) => types[column]);
    const slack = readTypes.some((type) => type !== undefined && isVariable(type)) ? policy.variableSlack : 1;
    // A NULL bitmap per column, and indices that are mapped to the unified dictionary, come on top: one byte per value.
    const copiedPerRow = inMemory ? copiedRowBytes(readTypes as ColumnType[], readWidths) : bytesPerRow + read.length;
    const buffers = copiedPerRow * morselRows * slack;
    const least = Math.min(bytesPerRow, copiedPerRow) * slack;
    const buffered = Math.max(Math.min(buffers, pieceBytesMax), least) * policy.readBuffers;
    const scratch = limits.workers * encodingBytes(readTypes, row, morselRows);
    const bytes = Math.ceil(limits.workers * buffered + scratch);
    return { morselRows, bytes, encodingBytes: Math.ceil(scratch) };
}

export interface OutputMemory {
    batchRows: number;
    /** A batch whose values are longer than estimated ends at this size. */
    batchBytes: number;
    bytes: number;
}

/** How many rows a batch is to have: `rows`, but only as many as `bytes` have room for in all batches. */
export interface BatchWish {
    rows: number;
    bytes: number;
}

/**
 * Rows per result batch, and the memory of batches that are built and wait. `queued`: how many wait for a reader;
 * undefined where a worker itself brings each batch to its place (a file, the next partition set).
 */
export function outputMemory(
    widths: readonly ValueWidth[],
    limits: PlanLimits,
    policy: Policy,
    queued: number | undefined,
    wish: BatchWish | undefined
): OutputMemory {
    const valueBytes = arrowRowBytes(widths);
    const bytesPerRow = Math.max(1, valueBytes + widths.length / 8);
    const fitting = powerOfTwoAtMost(limits.batchBytes / Math.max(1, valueBytes));
    const variable = widths.some(({ heap }) => heap > 0);
    const usual = clamp(fitting, leastRows(limits.batchRowsMin, limits.batchBytes, bytesPerRow), policy.batchRowsMax);
    const growth = variable ? policy.builderGrowth : 1;
    // With a queue each worker fills one batch while its last one waits for a place in it.
    const batches = queued === undefined ? limits.workers * growth : limits.workers * (growth + 1) + queued;
    const roomy = wish === undefined ? usual : Math.max(usual, Math.floor(wish.bytes / (batches * bytesPerRow)));
    const wanted = Math.min(wish?.rows ?? Infinity, roomy);
    // A batch that ends at so many bytes holds no more rows, and buffers are made for all of its rows at once.
    const most = variable ? Math.max(1, Math.floor(policy.batchBytesMax / bytesPerRow)) : Infinity;
    const batchRows = Math.min(wanted, most);
    const planned = Math.ceil(batchRows * bytesPerRow);
    // Batches of a row or two, because values are longer than all estimates, would be all overhead.
    const batchBytes = variable ? clamp(planned, policy.batchBytesMin, policy.batchBytesMax) : planned;
    return { batchRows, batchBytes, bytes: batches * batchBytes };
}

export interface PoolNeeds {
    min: number;
    wanted: number;
}

/** Pages that a set must have (open ends of all partitions and some to spill), and those that keep all rows. */
export function poolNeeds(
    rows: number,
    bytes: number,
    exact: boolean,
    workers: number,
    bits: number,
    pageBytes: number,
    limits: PlanLimits,
    policy: Policy
): PoolNeeds {
    const open = openPageBytes(workers, bits, pageBytes, exact ? rows : Infinity);
    const slack = exact ? 1 : policy.estimateSlack;
    const wanted = Math.ceil(bytes * slack * 1.02) + open + pageBytes;
    const roomy = Math.min(open / limits.openPagesShare, wanted);
    const bare = open * policy.spareOpenPages + 4 * pageBytes;
    // Everything fits: nothing will be spilled and nothing more is needed, if the number of rows is right.
    const min = exact ? Math.min(Math.max(roomy, bare), wanted) : Math.max(roomy, bare);
    return { min: Math.ceil(min), wanted: Math.ceil(Math.max(wanted, min)) };
}
