// SPDX-License-Identifier: Apache-2.0
import type { DeviceGroupAlgorithm } from "../../model/algorithms.js";
import { sumOf } from "../../model/sizes.js";
import { deviceConstants } from "../../model/device-constants.js";
import { rowNumberBytes, type MemoryCost } from "./memory-cost.js";
import { allWork, phaseWork, type PhaseCounts, type PhaseWork } from "./phase-work.js";
import { hotShare, packedRowBytes, wholeRowBytesMax, type DeviceGroupShape } from "./shapes.js";

interface Context {
    readonly shape: DeviceGroupShape;
    readonly memory: MemoryCost;
}

// Share of a block's slots that groups take and passes over the rows, with a slice of the hash range each, at most: by
// the kernels of the commonest shapes, by bytes of a key, and without.
const hashTables: Readonly<Record<number, { fill: number; slices: number }>> = {
    4: { fill: deviceConstants.groupNarrowFillOfOneWord, slices: deviceConstants.groupNarrowSlicesOfOneWord },
    8: { fill: deviceConstants.groupNarrowFillOfTwoWords, slices: deviceConstants.groupNarrowSlicesOfTwoWords }
};
const otherTables = { fill: 0.55, slices: deviceConstants.groupSlicesMax };
/** Tables that blocks make and bring together: one for each multiprocessor of the GPU that rates were measured on. */
const tablesMerged = 132;
/** Bytes of the number of a group, and of the slot that has it. */
const groupNumberBytes = 4;
/** Bytes of a row for which the rate of those kernels was measured. */
const narrowRowBytes = 12;

/** Bytes of a group's slot: minima and maxima are as wide as their values, sums and counts have 8 bytes or 12. */
function slotBytes({ keyBytes, values, extremes }: DeviceGroupShape): number {
    return keyBytes + (extremes ? sumOf(values) : sumOf(values.map((width) => (width === 8 ? 12 : 8))));
}

/** Aggregates of columns of 4 and 8 bytes have kernels of their own, if a row has few words. */
function hasNarrowKernel({ values, narrow }: DeviceGroupShape): boolean {
    const columns = values.filter((width) => width > 0);
    const wordsFit = sumOf(columns) <= 4 * deviceConstants.groupNarrowValueWordsMax;
    return narrow && wordsFit && columns.every((width) => width === 4 || width === 8);
}

/** Bytes of columns that a group-by of several parts takes at a time (cuda/group_by/plan/aggregate_parts.hpp). */
function partBytes(shape: DeviceGroupShape, hashed: boolean): number {
    const { keyBytes, values, narrow, extremes } = shape;
    if (!narrow || values.some((width) => width !== 0 && width !== 4 && width !== 8))
        return wholeRowBytesMax - keyBytes;
    const sumsOfWords = !extremes && values.every((width) => width !== 8);
    const { groupHashSumPartWords, groupNarrowValueWordsMax } = deviceConstants;
    return 4 * (hashed && keyBytes === 4 && sumsOfWords ? groupHashSumPartWords : groupNarrowValueWordsMax);
}

/** The aggregates in parts that are a group-by each; one part of all where their columns fit the kernels for them. */
function partsOf(shape: DeviceGroupShape, hashed: boolean): DeviceGroupShape[] {
    const { values } = shape;
    const most = partBytes(shape, hashed);
    if (sumOf(values) <= most) return [shape];
    const parts: number[][] = [[]];
    for (const width of values) {
        const last = parts.at(-1) as number[];
        if (last.length > 0 && sumOf(last) + width > most) parts.push([width]);
        else last.push(width);
    }
    return parts.map((part) => ({ ...shape, values: part }));
}

/** Groups of a part are found by their keys, and their aggregates moved into the order of the first part's. */
function orderMs(part: DeviceGroupShape, memory: MemoryCost): number {
    const { groups, keyBytes, values } = part;
    const tableBytes = 2 * groups * (keyBytes + rowNumberBytes(groups));
    return memory.randomReads(groups, tableBytes) + memory.sequential(groups * (keyBytes + 16 * values.length));
}

/** All parts together, each of which is a step of its own. */
function inParts(
    parts: readonly DeviceGroupShape[],
    memory: MemoryCost,
    one: (context: Context) => PhaseWork
): PhaseWork {
    return allWork(
        parts.map((shape, number) => {
            const part = one({ shape, memory });
            const order = number > 0 ? orderMs(shape, memory) : 0;
            const counts = { ...part.counts, match: { ...part.counts.match, steps: 1 } };
            return phaseWork({ ...part, materializeMs: part.materializeMs + order }, counts);
        })
    );
}

/** Rows that those kernels look up and add in a time: wider rows have as many more words to do it with. */
function narrowRowsPerMs({ shape, memory }: Context): number {
    const rowBytes = shape.keyBytes + sumOf(shape.values);
    return memory.speeds.deviceGroupNarrowRowsPerMs / Math.max(1, rowBytes / narrowRowBytes);
}

/**
 * How much longer a row takes the kernels of the commonest shapes than one of the two 4-byte columns whose extremes the
 * rate is of: its key is looked up, and each value added or compared. Fitted to 91 runs on an H200, whose lookup took
 * 1.45 ns for a thousand rows, and a value as long as stands here.
 */
function narrowWeight({ keyBytes, values, extremes }: DeviceGroupShape): number {
    const [lookup, extreme, longExtreme] = [1.45, 1.24, 2.65];
    // Sums of words beside a key of two words have no kernel that keeps them in registers.
    const [sum, longSum] = [keyBytes === 8 ? 4.6 : 1.7, 3.1];
    const weightOf = (width: number): number => {
        if (width === 0) return sum;
        return width === 8 ? (extremes ? longExtreme : longSum) : extremes ? extreme : sum;
    };
    return (lookup + sumOf(values.map(weightOf))) / (lookup + 2 * extreme);
}

function tablesOf(shape: DeviceGroupShape): { fill: number; slices: number } {
    return (hasNarrowKernel(shape) ? hashTables[shape.keyBytes] : undefined) ?? otherTables;
}

/**
 * How much longer full tables take than empty ones: by how often a key is not where the search for it begins. Fitted to
 * 2^28 rows of 12 bytes on an H200, 1.16 ms at a fill of 0.42 and 1.99 at 0.85, where 4 groups take 0.8 and the memory
 * no less.
 */
function searchFactor(fill: number): number {
    return 1 + 1.4 * fill * fill;
}

/** Groups that a block's table takes. */
function groupsOfTable(shape: DeviceGroupShape, memory: MemoryCost): number {
    return (memory.speeds.deviceBlockBytes * tablesOf(shape).fill) / slotBytes(shape);
}

function slicesOfPart(part: DeviceGroupShape, memory: MemoryCost): number | undefined {
    const slices = Math.ceil(Math.max(1, part.groups / groupsOfTable(part, memory)));
    return slices <= tablesOf(part).slices ? slices : undefined;
}

/**
 * Passes over the rows by which the groups fit the shared memory of a block, of the widest part of the aggregates;
 * undefined: they do not.
 */
export function hashSlices(shape: DeviceGroupShape, memory: MemoryCost): number | undefined {
    const slices = partsOf(shape, true).map((part) => slicesOfPart(part, memory) ?? Infinity);
    const most = Math.max(...slices);
    return Number.isFinite(most) ? most : undefined;
}

function inputBytes({ rows, keyBytes, values }: DeviceGroupShape): number {
    return rows * (keyBytes + sumOf(values));
}

function outputMs({ shape, memory }: Context): number {
    return memory.sequential(shape.groups * 2 * slotBytes(shape));
}

/** The key and the aggregates of every group. */
function outputCounts({ groups, values }: DeviceGroupShape): Partial<PhaseCounts> {
    return { values: groups * (1 + values.length) };
}

/** Aggregating rows that lie side by side by group or partition, in tables in shared memory. */
function aggregateRows({ shape, memory }: Context): number {
    const rowBytes = packedRowBytes(shape.keyBytes, shape.values);
    const rows = hasNarrowKernel(shape)
        ? shape.rows / narrowRowsPerMs({ shape, memory })
        : (shape.rows * Math.max(1, rowBytes / 16)) / memory.speeds.deviceGroupPartitionRowsPerMs;
    return Math.max(rows, memory.sequential(shape.rows * rowBytes));
}

/**
 * A search in the table in GPU memory and, by the number that is found there, random additions to arrays. Groups whose
 * accumulators fit a block's shared memory, those that come first, are added up there.
 */
function hashGlobal({ shape, memory }: Context): PhaseWork {
    const { rows, keyBytes, values, groups } = shape;
    const hot = hotShare(shape.heaviestShare);
    const tableBytes = 2 * groups * (keyBytes + groupNumberBytes);
    const search =
        memory.sequential(rows * (keyBytes + groupNumberBytes)) +
        memory.randomReads(rows, tableBytes, hot) +
        memory.randomInserts(groups, tableBytes);
    const arrayBytes = Math.max(4, slotBytes(shape) - keyBytes);
    const near = Math.min(1, memory.speeds.deviceBlockBytes / arrayBytes / Math.max(1, groups));
    const far = rows * (1 - near) * (1 - hot) * values.filter((width) => width > 0).length;
    const add =
        memory.sequential(rows * (groupNumberBytes + sumOf(values))) +
        memory.randomReads(rows, 2 * groups * groupNumberBytes, hot) +
        memory.randomInserts(far, groups * arrayBytes);
    return phaseWork(
        {
            transformMs: 0,
            matchMs: Math.max(search, rows / memory.speeds.deviceGroupRowsPerMs) + add,
            materializeMs: outputMs({ shape, memory })
        },
        { materialize: outputCounts(shape) }
    );
}

/** A user's hgb whose groups fit no block's shared memory goes on as hgb-global; the planner takes none for them. */
function hash(context: Context): PhaseWork {
    const { shape, memory } = context;
    const { speeds } = memory;
    const slices = slicesOfPart(shape, memory);
    if (slices === undefined) return hashGlobal(context);
    const fill = (shape.groups * slotBytes(shape)) / (slices * speeds.deviceBlockBytes);
    const narrow = speeds.deviceGroupNarrowRowsPerMs / (narrowWeight(shape) * searchFactor(fill));
    const perMs = hasNarrowKernel(shape) ? narrow : speeds.deviceGroupRowsPerMs;
    const matchMs = slices * Math.max(memory.sequential(inputBytes(shape)), shape.rows / perMs);
    // The tables of all blocks become one: each group that a block has met, with all of its aggregates.
    const merged = Math.min(shape.rows, (tablesMerged / slices) * shape.groups);
    const counts = { match: { values: merged * (1 + shape.values.length) }, materialize: outputCounts(shape) };
    return phaseWork({ transformMs: 0, matchMs, materializeMs: outputMs(context) }, counts);
}

/** Partition passes until the groups of a partition fit a block. */
function passesFor({ shape, memory }: Context): { passes: number; partitions: number } {
    const parts = shape.groups / groupsOfTable(shape, memory);
    const bits = Math.max(deviceConstants.groupRadixBits, Math.ceil(Math.log2(Math.max(1, parts))));
    return { passes: Math.ceil(bits / deviceConstants.radixPassBitsMax), partitions: 2 ** bits };
}

function partitionedRows(context: Context): PhaseWork {
    const { shape, memory } = context;
    const { rows, keyBytes, values } = shape;
    const columns = keyBytes + sumOf(values);
    const { passes } = passesFor(context);
    return phaseWork(
        {
            transformMs: memory.partition(rows, keyBytes, columns, packedRowBytes(keyBytes, values), passes),
            matchMs: aggregateRows(context),
            materializeMs: outputMs(context)
        },
        { materialize: outputCounts(shape) }
    );
}

/** Columns that an algorithm takes one after the other. */
function columnSteps({ values }: DeviceGroupShape): number {
    return Math.max(1, values.filter((width) => width > 0).length);
}

function gathers({ shape, memory }: Context, runs: number): number {
    return shape.values.reduce((ms, width) => ms + (width > 0 ? memory.permutedGather(shape.rows, width, runs) : 0), 0);
}

function partitionedKeys(context: Context): PhaseWork {
    const { shape, memory } = context;
    const { rows, keyBytes, groups } = shape;
    const { passes, partitions } = passesFor(context);
    const width = rowNumberBytes(rows);
    const phases = {
        transformMs: memory.partition(rows, keyBytes, keyBytes, keyBytes + width, passes),
        matchMs: gathers(context, Math.min(groups, partitions)) + aggregateRows(context),
        materializeMs: outputMs(context)
    };
    const columns = columnSteps(shape);
    return phaseWork(phases, {
        match: { steps: columns, values: rows * columns },
        materialize: outputCounts(shape)
    });
}

/** Bits that a sort looks at: of dense keys those that number the groups; sparse keys take more. */
function differingBits({ groups }: DeviceGroupShape): number {
    return Math.max(1, Math.ceil(Math.log2(Math.max(2, groups))));
}

function sortedKeys(context: Context): PhaseWork {
    const { shape, memory } = context;
    const phases = {
        transformMs: memory.radixSort(shape.rows, shape.keyBytes, rowNumberBytes(shape.rows), differingBits(shape)),
        matchMs: gathers(context, shape.groups) + aggregateRows(context),
        materializeMs: outputMs(context)
    };
    const columns = columnSteps(shape);
    return phaseWork(phases, {
        match: { steps: columns, values: shape.rows * columns },
        materialize: outputCounts(shape)
    });
}

/** Columns sorted with the keys, one after the other; aggregates are then sums over neighbours. */
function sortedColumns(context: Context): PhaseWork {
    const { shape, memory } = context;
    const { rows, keyBytes, values } = shape;
    const widths = values.some((width) => width > 0) ? values.filter((width) => width > 0) : [0];
    const phases = {
        transformMs: widths.reduce(
            (ms, width) => ms + memory.radixSort(rows, keyBytes, width, differingBits(shape)),
            0
        ),
        matchMs: memory.sequential(rows * widths.reduce((sum, width) => sum + keyBytes + width, 0)),
        materializeMs: outputMs(context)
    };
    return phaseWork(phases, {
        transform: { steps: widths.length },
        match: { values: rows * widths.length },
        materialize: outputCounts(shape)
    });
}

/** Keys become numbers of groups by a hash table first, which few bits hold. */
function sortedEncoded(context: Context): PhaseWork {
    const { shape, memory } = context;
    const { rows, keyBytes, values, groups } = shape;
    const tableBytes = 2 * groups * (keyBytes + 4);
    const encode = memory.sequential(rows * (keyBytes + 4)) + memory.randomReads(rows, tableBytes);
    const widths = values.some((width) => width > 0) ? values.filter((width) => width > 0) : [0];
    const sorts = widths.reduce((ms, width) => ms + memory.radixSort(rows, 4, width, differingBits(shape)), 0);
    const phases = {
        transformMs: encode + memory.randomInserts(groups, tableBytes) + sorts,
        matchMs: memory.sequential(rows * widths.reduce((sum, width) => sum + 4 + width, 0)),
        materializeMs: outputMs(context) + memory.unclusteredGather(groups, groups, keyBytes)
    };
    return phaseWork(phases, {
        transform: { steps: widths.length },
        match: { values: rows * widths.length },
        materialize: outputCounts(shape)
    });
}

/** Times of the phases of one algorithm before what was fitted to runs of it. */
export function groupPhases(algorithm: DeviceGroupAlgorithm, shape: DeviceGroupShape, memory: MemoryCost): PhaseWork {
    const context = { shape, memory };
    switch (algorithm) {
        case "hgb":
            return inParts(partsOf(shape, true), memory, hash);
        case "pgb-tr":
            return inParts(partsOf(shape, false), memory, partitionedRows);
        case "pgb-ur":
            return partitionedKeys(context);
        case "sgb-ur":
            return sortedKeys(context);
        case "sgb-tr":
            return sortedColumns(context);
        case "sgb-de-tr":
            return sortedEncoded(context);
        case "hgb-global":
            return hashGlobal(context);
    }
}
