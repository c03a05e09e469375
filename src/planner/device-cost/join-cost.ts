// SPDX-License-Identifier: Apache-2.0
import type { DeviceJoinAlgorithm } from "../../model/algorithms.js";
import { sumOf } from "../../model/sizes.js";
import { deviceConstants } from "../../model/device-constants.js";
import { gatherLoneMs, isInner, loneRows, markBitsMs, markedSides, marks, pairRows, resultRows } from "./lone-rows.js";
import { rowNumberBytes, type MemoryCost } from "./memory-cost.js";
import { allWork, phaseWork, type PhaseCounts, type PhaseWork } from "./phase-work.js";
import { filteredSides } from "./range-filter-cost.js";
import {
    hotShare,
    hottestShare,
    packedRowBytes,
    packRowBytes,
    sectorBytes,
    wholeRowBytesMax,
    type DeviceJoinShape
} from "./shapes.js";

interface Context {
    readonly shape: DeviceJoinShape;
    readonly memory: MemoryCost;
}

/**
 * Rows that one bucket chain takes in a time, as blocks append to it one after the other, in proportion to the rate of
 * partition passes, three times of which these partitions take. H200: 190 M rows of which one key has 22 % in 29.7 ms,
 * 33 M of which one has 38 % in 8.8.
 */
const bucketRowsPerMs = 4_500_000;

/** Build rows of a key whose sectors a warp finds in the first-level cache again: H200, 32 of them and not 1,000. */
const rowsInReach = 100;

const { joinPartitionRowsMax, npjSlotBitsMin, npjSlotsPerRow, radixPassBitsMax } = deviceConstants;
const { packedPartitionRows, packedRadixBitsMax, packPassBitsMax, packWindowBytes } = deviceConstants;

function passesFor(buildRows: number): number {
    const bits = Math.ceil(Math.log2(Math.max(2, buildRows / joinPartitionRowsMax)));
    return Math.ceil(bits / radixPassBitsMax);
}

/** Slots of the table of an NPJ, rounded up to a power of two; a key and a row number each. */
export function npjTableBytes({ buildRows, keyBytes }: DeviceJoinShape): number {
    const slotBits = Math.max(npjSlotBitsMin, Math.ceil(Math.log2(Math.max(1, npjSlotsPerRow * buildRows))));
    return 2 ** slotBits * (keyBytes <= 4 ? 8 : 16);
}

/** Pairs are written by whoever finds them: two row numbers and the key. Rows that have a partner are marked. */
function pairsMs({ shape, memory }: Context): number {
    const marksMs = markBitsMs(shape, memory, marks(shape));
    if (shape.counted === true) return marksMs;
    const rowNumbers = rowNumberBytes(shape.buildRows) + rowNumberBytes(shape.probeRows);
    return marksMs + memory.sequential(pairRows(shape) * (rowNumbers + shape.keyBytes));
}

/**
 * Columns gathered in any order from where they have been all the time (GFUR). Pairs of one row follow each other where
 * keys were `sorted`, and are not far from each other in a partition: only the first of them leaves the cache.
 */
function gatherColumns(
    { shape, memory }: Context,
    build: readonly number[],
    probe: readonly number[],
    sorted: boolean
): number {
    const { buildRows, probeRows, matchRatio } = shape;
    const pairs = pairRows(shape);
    const hot = hotShare(shape.probeHeaviestShare);
    const matched = Math.max(1, probeRows * matchRatio);
    const of = (rows: number, widths: readonly number[], repeated: number, hotShare: number): number => {
        const near = sorted ? { hotShare, repeated } : { hotShare: Math.max(hotShare, repeated) };
        return widths.reduce((ms, width) => ms + memory.unclusteredGather(pairs, rows, width, near), 0);
    };
    // The build rows of a key come once more for each probe row that has it.
    const inReach = pairs / matched <= rowsInReach;
    const share = (rows: number): number => Math.max(0, 1 - rows / Math.max(1, pairs));
    return of(buildRows, build, inReach ? share(buildRows) : 0, hot) + of(probeRows, probe, share(matched), 0);
}

/** Byte strings, which are gathered in any order whatever the join does with its rows. */
function gatherTexts(context: Context): number {
    const { buildTexts = [], probeTexts = [] } = context.shape;
    const lone = gatherLoneMs(context.shape, context.memory, buildTexts, probeTexts);
    return gatherColumns(context, buildTexts, probeTexts, false) + lone;
}

/** Columns of the result but its key, which are gathered for pairs and then for rows that come alone, and values. */
function gatheredColumns(shape: DeviceJoinShape): Partial<PhaseCounts> {
    const { buildPayload, probePayload, buildTexts, probeTexts } = shape;
    const texts = (buildTexts?.length ?? 0) + (probeTexts?.length ?? 0);
    const columns = buildPayload.length + probePayload.length + texts;
    const kernels = (shape.emit === "pairs" ? 1 : 0) + markedSides(shape);
    return { steps: columns * kernels, values: columns * resultRows(shape) };
}

/** The key and the columns of fixed width of rows that come alone. */
function gatherLone({ shape, memory }: Context): number {
    if (isInner(shape) || shape.counted === true) return 0;
    const { keyBytes, buildPayload, probePayload } = shape;
    const lone = loneRows(shape);
    const keysMs =
        memory.clusteredGather(lone.build, shape.buildRows, keyBytes) +
        memory.clusteredGather(lone.probe, shape.probeRows, keyBytes);
    return keysMs + gatherLoneMs(shape, memory, buildPayload, probePayload);
}

function gatherUntransformed(context: Context, sorted: boolean): number {
    const { buildPayload, probePayload } = context.shape;
    const pairsMs = gatherColumns(context, buildPayload, probePayload, sorted);
    return pairsMs + gatherLone(context) + gatherTexts(context);
}

/** The same from columns in the order of the keys (GFTR). */
function gatherTransformed(context: Context): number {
    const { shape, memory } = context;
    const { buildRows, probeRows, buildPayload, probePayload } = shape;
    const of = (rows: number, widths: readonly number[]): number =>
        widths.reduce((ms, width) => ms + memory.clusteredGather(pairRows(shape), rows, width), 0);
    return of(buildRows, buildPayload) + of(probeRows, probePayload) + gatherLone(context) + gatherTexts(context);
}

/** Columns of pairs that the no-partitioning joins write; `near` tells how near accesses to build rows are. */
function npjColumns({ shape, memory }: Context, near: Parameters<MemoryCost["unclusteredGather"]>[3]): number {
    const { buildRows, probeRows, buildPayload, probePayload } = shape;
    const pairs = pairRows(shape);
    const build = buildPayload.reduce((ms, w) => ms + memory.unclusteredGather(pairs, buildRows, w, near), 0);
    // Probe rows come in their order, and so do their columns.
    return build + probePayload.reduce((ms, w) => ms + memory.clusteredGather(pairs, probeRows, w), 0);
}

/**
 * To mark rows of a side, count and list them, with the waits in between, takes as long as the starts for so many
 * columns: H200, 0.07 ms and 0.0022 each.
 */
const markSteps = 32;

function npj(context: Context, perfect: boolean): PhaseWork {
    const { shape, memory } = context;
    const { buildRows, probeRows, pairs, keyBytes } = shape;
    const width = rowNumberBytes(buildRows);
    const tableBytes = perfect ? (shape.buildKeyRange ?? 0) * width : npjTableBytes(shape);
    const hot = hotShare(shape.probeHeaviestShare);
    // A plain write takes longer than the read of a sector and less than a compare-and-swap: H200, 2^27 numbers into
    // an array of 512 MiB in some 6.5 ms, 8 million into one of 32 MiB in 0.2.
    const insert = perfect
        ? (memory.randomReads(buildRows, tableBytes) + memory.randomInserts(buildRows, tableBytes)) / 2
        : memory.randomInserts(buildRows, tableBytes);
    // At half load a search for a key that is there looks at 1.5 slots, for one that is not at 2.5, four in a sector.
    // An array is not looked at for a key outside of its range.
    const looks = perfect ? shape.inRangeShare : shape.matchRatio * 1.1 + (1 - shape.matchRatio) * 1.4;
    const chains = perfect ? 0 : Math.max(0, pairs - probeRows) / memory.speeds.deviceCachedReadsPerMs;
    const hottest = hottestShare(shape.probeHeaviestShare);
    // The range of an array is found by one more look at the keys.
    const looksAtKeys = perfect ? 2 : 1;
    const insertMs = memory.sequential(tableBytes + buildRows * keyBytes * looksAtKeys) + insert;
    const searchMs =
        memory.sequential(probeRows * keyBytes) +
        memory.randomReads(probeRows * looks, tableBytes, hot, hottest) +
        chains;
    const found = { transformMs: 0, matchMs: insertMs + searchMs, materializeMs: 0 };
    const near = { hotShare: hot, hottestShare: hottest };
    const written = shape.counted === true ? {} : gatheredColumns(shape);
    if (isInner(shape)) {
        // The search writes the rows, all columns of a build row at once.
        const columnsMs = npjColumns(context, { ...near, with: sumOf(shape.buildPayload) }) + gatherTexts(context);
        const keysMs = memory.sequential(shape.counted === true ? 0 : pairs * keyBytes);
        return phaseWork({ ...found, matchMs: found.matchMs + columnsMs + keysMs }, { match: written });
    }
    // Other joins find pairs of row numbers, by which rows are marked and columns gathered one after the other.
    const marked = { build: shape.keepsBuild ? pairs : 0, probe: shape.keepsProbe ? pairs : 0 };
    if (shape.emit !== "pairs") marked[shape.emit === "buildOnce" ? "build" : "probe"] = pairs;
    // Bits of build rows lie anywhere, and one that is set is only read.
    const bitsMs =
        memory.randomReads(marked.build, buildRows / 8) +
        memory.randomInserts(Math.min(marked.build, buildRows * shape.buildMatchRatio), buildRows / 8);
    const pairBytes = width + rowNumberBytes(probeRows);
    const listMs = memory.sequential(pairs * pairBytes) + bitsMs + markBitsMs(shape, memory, marked);
    const keysMs = memory.unclusteredGather(pairRows(shape), Math.min(buildRows, probeRows), keyBytes, near);
    const materializeMs = npjColumns(context, near) + keysMs + gatherLone(context) + gatherTexts(context);
    return phaseWork(
        { ...found, matchMs: found.matchMs + listMs, materializeMs: shape.counted === true ? 0 : materializeMs },
        { match: { steps: markedSides(shape) * markSteps }, materialize: written }
    );
}

/**
 * Rows of both sides find each other in shared memory; `bytes`: what is read and written meanwhile, unless looking for
 * the probe rows, and at each candidate where keys repeat, takes longer than that.
 */
function matchPartitions({ shape, memory }: Context, probeRows: number, bytes: number): number {
    const { devicePartitionBytesPerMs, deviceMatchRowsPerMs, deviceChainStepsPerMs } = memory.speeds;
    // A join that marks rows stops at the first partner, or looks only at rows that are not marked yet.
    const steps = shape.uniqueBuildKeys ? 0 : shape.emit === "pairs" ? shape.pairs : marks(shape).build;
    const looks = probeRows / deviceMatchRowsPerMs + steps / deviceChainStepsPerMs;
    return Math.max(bytes / devicePartitionBytesPerMs, looks);
}

/**
 * Columns of less than a word are written in parts of sectors, which takes twice as long as a word, and still longer
 * where keys repeat: H200, 2.8 * 10^8 rows of seven columns of which two are narrow in 12.4 ms, 1.9 * 10^8 of four
 * that are not in 5.6.
 */
const repeatedNarrow = 5;

/** Whether most pairs are of probe rows that match so many build rows that a kernel of their own writes them. */
function listsLongMatches(shape: DeviceJoinShape): boolean {
    const { pairs, buildRows, probeRows, matchRatio, buildPayload, buildTexts = [], keepsBuild } = shape;
    const { longMatchRows, longPairsMin, longPairsPerProbeRow } = deviceConstants;
    const { longPairsPerBuildRow, longPairsPerBareBuildRow } = deviceConstants;
    if (shape.emit !== "pairs" || pairs < longMatchRows * Math.max(1, probeRows * matchRatio)) return false;
    const isBare = buildPayload.length === 0 && buildTexts.length === 0 && keepsBuild !== true;
    const perBuildRow = isBare ? longPairsPerBareBuildRow : longPairsPerBuildRow;
    return pairs >= Math.max(longPairsMin, longPairsPerProbeRow * probeRows, perBuildRow * buildRows);
}

/** Columns whose values share the words of rows with others. */
const narrowColumns = (payload: readonly number[]): number => payload.filter((width) => width < 4).length;

/** Starts of kernels by a further pass over both sides: histogram, regions, tiles and the pass itself, twice. */
const passSteps = 10;

/** How a side of the radix hash join is moved. */
interface SideMoves {
    /** Of a partitioned row, which the join reads. */
    readonly rowBytes: number;
    readonly transformMs: number;
    /** Bytes that the join writes of the side for each pair. */
    readonly pairBytes: number;
    readonly materializeMs: number;
    /** Packs of columns, which are moved in the first pass and gathered behind the join one after the other. */
    readonly packs: number;
    /** Columns that the join writes, and that the packs have. */
    readonly direct: number;
    readonly packed: number;
}

/** Rows are moved whole in every pass. Row numbers lead to byte strings. */
function moveWhole({ shape, memory }: Context, rows: number, payload: readonly number[], passes: number): SideMoves {
    const { keyBytes } = shape;
    const rowBytes = packedRowBytes(keyBytes, payload);
    const transformMs = memory.partition(rows, keyBytes, keyBytes + sumOf(payload), rowBytes, passes);
    const none = { materializeMs: 0, packs: 0, packed: 0 };
    // Long matches are written whole lines at a time.
    const narrow = shape.uniqueBuildKeys || listsLongMatches(shape) ? 1 : repeatedNarrow;
    const direct = payload.length + narrowColumns(payload) * narrow;
    return { rowBytes, transformMs, pairBytes: sumOf(payload), direct, ...none };
}

/** Columns become packs in the first pass, later ones move keys and places; packs are gathered behind the join. */
function movePacks({ shape, memory }: Context, rows: number, payload: readonly number[], passes: number): SideMoves {
    const { keyBytes } = shape;
    const packs = packRowBytes(payload);
    const place = rowNumberBytes(rows);
    const rowBytes = keyBytes + place;
    const first = memory.partition(rows, keyBytes, keyBytes + sumOf(payload), rowBytes + sumOf(packs), 1);
    const later = (rows * (passes - 1) * 2 * rowBytes) / memory.speeds.devicePartitionBytesPerMs;
    // What a pack has of the columns is in proportion to its width.
    const share = sumOf(payload) / Math.max(1, sumOf(packs));
    const materializeMs = packs.reduce(
        (ms, pack) => ms + memory.packedGather(resultRows(shape), rows, pack, pack * share),
        0
    );
    const counts = { packs: packs.length, packed: payload.length, direct: 1 };
    return { rowBytes, transformMs: first + later, pairBytes: place, materializeMs, ...counts };
}

/** Radix bits that packs of so many rows of a sector are partitioned by. */
function packBits(rows: number): number {
    return Math.min(packPassBitsMax, Math.ceil(Math.log2(Math.max(1, (rows * sectorBytes) / packWindowBytes))));
}

/**
 * Values of rows that come alone, which kernels of their own write behind the join. An H200 wrote 1.8 * 10^8 rows of a
 * key and a place in 2.7 ms.
 */
const loneValuesPerMs = 130_000_000;

/** A byte for each row of a side is cleared, set and read. The join writes so many columns, the key among them. */
function writeLoneMs({ shape, memory }: Context, columns: number): number {
    const lone = loneRows(shape);
    const marked = marks(shape);
    const bytes =
        (marked.build + lone.build > 0 ? 3 * shape.buildRows : 0) +
        (marked.probe + lone.probe > 0 ? 3 * shape.probeRows : 0);
    const values = shape.counted === true ? 0 : (lone.build + lone.probe) * columns;
    return memory.sequential(bytes) + values / loneValuesPerMs;
}

/** Outer joins write a byte for each row that says which sides are there. Writing it takes as long as four words. */
function presenceValues(shape: DeviceJoinShape): number {
    return shape.emit === "pairs" && !isInner(shape) ? 4 * resultRows(shape) : 0;
}

function phjTransformed(context: Context): PhaseWork {
    const { shape } = context;
    const { buildRows, probeRows, keyBytes } = shape;
    const pairs = pairRows(shape);
    const carried = (payload: readonly number[], texts: readonly number[] | undefined, rows: number): number[] =>
        texts === undefined || texts.length === 0 ? [...payload] : [...payload, rowNumberBytes(rows)];
    const build = carried(shape.buildPayload, shape.buildTexts, buildRows);
    const probe = carried(shape.probePayload, shape.probeTexts, probeRows);
    const isWide = (payload: readonly number[]): boolean => packedRowBytes(keyBytes, payload) > wholeRowBytesMax;
    const filtered = filteredSides(shape, context.memory, build, probe);
    const rows = { build: filtered.buildRows, probe: filtered.probeRows };
    let passes = passesFor(rows.build);
    if (isWide(build) || isWide(probe)) {
        const wanted = Math.ceil(Math.log2(Math.max(1, rows.build / packedPartitionRows)));
        const windows = [isWide(build) ? packBits(rows.build) : 0, isWide(probe) ? packBits(rows.probe) : 0];
        const bits = Math.max(Math.min(wanted, packedRadixBitsMax), ...windows);
        passes = Math.max(passes, Math.ceil(bits / radixPassBitsMax));
    }
    const move = (moved: number, payload: readonly number[]): SideMoves =>
        (isWide(payload) ? movePacks : moveWhole)(context, moved, payload, passes);
    const [left, right] = [move(rows.build, build), move(rows.probe, probe)];
    const read = rows.build * left.rowBytes + rows.probe * right.rowBytes;
    const counted = shape.counted === true;
    const written = counted ? 0 : pairs * (keyBytes + left.pairBytes + right.pairBytes);
    const direct = 1 + left.direct + right.direct;
    const packs = left.packs + right.packs;
    return phaseWork(
        {
            transformMs: left.transformMs + right.transformMs + filtered.ms,
            matchMs: matchPartitions(context, rows.probe, read + written) + writeLoneMs(context, direct),
            materializeMs: counted ? 0 : left.materializeMs + right.materializeMs + gatherTexts(context)
        },
        {
            transform: {
                steps: packs + (passes - 1) * passSteps + filtered.steps,
                values: rows.build * narrowColumns(build) + rows.probe * narrowColumns(probe)
            },
            match: {
                steps: markedSides(shape),
                values: counted ? 0 : pairs * direct + presenceValues(shape)
            },
            materialize: counted ? {} : { steps: packs, values: resultRows(shape) * (left.packed + right.packed) }
        }
    );
}

/** Joins that write pairs of row numbers, by which the columns are gathered. */
function gathersOf(shape: DeviceJoinShape): Parameters<typeof phaseWork>[1] {
    if (shape.counted === true) return {};
    // Memory for pairs, and each list of rows that come alone beside them, is taken when their number is known.
    const matchSteps = shape.emit === "pairs" ? 1 + markedSides(shape) : 0;
    return { match: { steps: matchSteps, values: pairRows(shape) }, materialize: gatheredColumns(shape) };
}

/** Keys and row numbers are partitioned. `shared`: each pass makes its histogram, where bucket chains need none. */
function phjUntransformed(context: Context, shared: boolean): PhaseWork {
    const { shape, memory } = context;
    const { buildRows, probeRows, keyBytes } = shape;
    const passes = passesFor(buildRows);
    const partitions = 2 ** Math.ceil(Math.log2(Math.max(1, buildRows / joinPartitionRowsMax)));
    const partition = (rows: number, heaviestShare: number): number => {
        const rowBytes = keyBytes + rowNumberBytes(rows);
        // Row numbers are made, not read.
        const once = memory.partition(rows, keyBytes, shared ? keyBytes : 0, rowBytes, passes);
        if (!shared) return once + (rows * Math.max(heaviestShare, 1 / partitions)) / bucketRowsPerMs;
        return once + (rows * (passes - 1) * keyBytes) / memory.speeds.devicePartitionBytesPerMs;
    };
    const rowBytes = (rows: number): number => rows * (keyBytes + rowNumberBytes(rows));
    return phaseWork(
        {
            transformMs:
                partition(buildRows, shape.buildHeaviestShare) + partition(probeRows, shape.probeHeaviestShare),
            matchMs: matchPartitions(context, probeRows, rowBytes(buildRows) + rowBytes(probeRows)) + pairsMs(context),
            materializeMs: gatherUntransformed(context, false)
        },
        gathersOf(shape)
    );
}

/** Columns that are sorted with the keys; a side without any has its keys sorted. */
function sortedColumns({ buildPayload, probePayload }: DeviceJoinShape): number {
    return Math.max(1, buildPayload.length) + Math.max(1, probePayload.length);
}

/** Every column is partitioned by the mixed keys, by a sort that looks at the radix bits alone. */
function phjGftr(context: Context): PhaseWork {
    const { shape, memory } = context;
    const { buildRows, probeRows, keyBytes, buildPayload, probePayload } = shape;
    const bits = passesFor(buildRows) * radixPassBitsMax;
    const partition = (rows: number, payload: readonly number[]): number =>
        (payload.length === 0 ? [0] : payload).reduce(
            (ms, width) => ms + memory.radixSort(rows, keyBytes, width, bits),
            memory.sequential(2 * rows * keyBytes) // the keys are mixed
        );
    return phaseWork(
        {
            transformMs: partition(buildRows, buildPayload) + partition(probeRows, probePayload),
            matchMs: matchPartitions(context, probeRows, (buildRows + probeRows) * keyBytes) + pairsMs(context),
            materializeMs: gatherTransformed(context)
        },
        { transform: { steps: sortedColumns(shape) }, ...gathersOf(shape) }
    );
}

/** Two sorted columns of keys are merged. */
function mergeKeys(context: Context): number {
    const { shape, memory } = context;
    const rows = shape.buildRows + shape.probeRows;
    return rows / memory.speeds.deviceMergeRowsPerMs + pairsMs(context);
}

function smjUntransformed(context: Context): PhaseWork {
    const { shape, memory } = context;
    const sort = (rows: number): number => memory.radixSort(rows, shape.keyBytes, rowNumberBytes(rows), shape.keyBits);
    return phaseWork(
        {
            transformMs: sort(shape.buildRows) + sort(shape.probeRows),
            matchMs: mergeKeys(context),
            materializeMs: gatherUntransformed(context, true)
        },
        gathersOf(shape)
    );
}

/** Every column is sorted by the keys, which takes the keys along each time. */
function smjTransformed(context: Context): PhaseWork {
    const { shape, memory } = context;
    const sort = (rows: number, payload: readonly number[]): number =>
        (payload.length === 0 ? [0] : payload).reduce(
            (ms, w) => ms + memory.radixSort(rows, shape.keyBytes, w, shape.keyBits),
            0
        );
    return phaseWork(
        {
            transformMs: sort(shape.buildRows, shape.buildPayload) + sort(shape.probeRows, shape.probePayload),
            matchMs: mergeKeys(context),
            materializeMs: gatherTransformed(context)
        },
        { transform: { steps: sortedColumns(shape) }, ...gathersOf(shape) }
    );
}

// Rows that a block sorts before runs are merged, two of them into one in a pass.
const sortedTileRows = 2048;

function smjMerge(context: Context): PhaseWork {
    const { shape, memory } = context;
    const sort = (rows: number): number => {
        const passes = 1 + Math.max(0, Math.ceil(Math.log2(Math.max(1, rows / sortedTileRows))));
        const bytes = rows * 2 * (shape.keyBytes + rowNumberBytes(rows)) * passes;
        return bytes / memory.speeds.deviceMergeSortBytesPerMs;
    };
    return phaseWork(
        {
            transformMs: sort(shape.buildRows) + sort(shape.probeRows),
            matchMs: mergeKeys(context),
            materializeMs: gatherUntransformed(context, true)
        },
        gathersOf(shape)
    );
}

/** Times of the phases of one algorithm before what was fitted to runs of it. */
export function joinPhases(algorithm: DeviceJoinAlgorithm, shape: DeviceJoinShape, memory: MemoryCost): PhaseWork {
    const work = workOf(algorithm, { shape, memory });
    const countsTwice = shape.counted === true && shape.emit === "pairs" && !isInner(shape);
    if (!countsTwice || algorithm === "phj-tr") return work;
    return twiceTransformed.has(algorithm) ? allWork([work, work]) : { ...work, matchMs: 2 * work.matchMs };
}

/**
 * All but phj-tr count the pairs of an outer join, and then match once more to mark rows. These transform once more
 * too.
 */
const twiceTransformed: ReadonlySet<DeviceJoinAlgorithm> = new Set(["npj", "npj-perfect", "phj-ur", "phj-shared"]);

function workOf(algorithm: DeviceJoinAlgorithm, context: Context): PhaseWork {
    switch (algorithm) {
        case "npj":
            return npj(context, false);
        case "npj-perfect":
            return npj(context, true);
        case "phj-tr":
            return phjTransformed(context);
        case "phj-ur":
            return phjUntransformed(context, false);
        case "phj-shared":
            return phjUntransformed(context, true);
        case "phj-gftr":
            return phjGftr(context);
        case "smj-ur":
            return smjUntransformed(context);
        case "smj-tr":
            return smjTransformed(context);
        case "smj-merge":
            return smjMerge(context);
    }
}
