// SPDX-License-Identifier: Apache-2.0
import { nsPerMs, sumOf } from "../../../model/sizes.js";
import {
    isTextExtreme,
    type OutOfCoreGroupLayout,
    type OutOfCoreGroupPrediction,
    type OutOfCoreGroupSizes
} from "../../../plan/out-of-core-group-stage.js";
import type { KeyStatistics } from "../../statistics.js";
import { inputRowBytes, packedKeyBytes } from "../chunk-rows.js";
import type { GroupMemory } from "../device-memory.js";
import { busyOn, deliveryMs, fillMs, linkMs, numberingMs, otherTextsMs } from "../link.js";
import type { Delivered, Filling, Movers } from "../link.js";
import { moreKeyWords } from "./keys.js";

export interface GroupLoad extends Movers {
    readonly layout: OutOfCoreGroupLayout;
    readonly memory: GroupMemory;
    readonly rows: number;
    readonly filling: Filling;
    /** Different keys, and groups that leave the GPU. */
    readonly distinctKeys: number;
    readonly groups: number;
    /** Different texts, if they are what is grouped by; else 0. */
    readonly distinctTexts: number;
    /** There are too many keys for chunks of rows in any order to be aggregated on their own. */
    readonly isManyKeys: boolean;
    /** Different keys for each row of a sample, whose pieces are rows behind each other; 1: it is not known. */
    readonly differentShare: number;
    readonly sizes: Pick<OutOfCoreGroupSizes, "chunkRows" | "radixBits" | "pages" | "pageRows" | "mergeRows">;
    readonly spilledBytes: number;
    /** The parts of these bytes that go to another GPU, and to disk. */
    readonly peerBytes: number;
    readonly diskBytes: number;
    /** Share of the rows that is spilled, and so of the groups that come last. */
    readonly spilledShare: number;
}

/**
 * What a chunk that is aggregated on its own takes: some 40 kernels, and its bytes. An H100 read 58 of 2^18 rows in
 * 13.4 ms; an H200 took 74 ms for 64 of 2^20 rows of 56 bytes, which workers were to fill in 42, and 51 for as many of
 * 32 bytes.
 */
const groupedChunk = { chunkMs: 0.25, byteNs: 0.007 };

/**
 * What the GPU and the host take where chunks have too many keys to be aggregated on their own: for a chunk, for each
 * of its partitions, for each row that is partitioned and kept and its bytes, each time that rows are aggregated and
 * for each of their bytes, and for each partition that comes back. H100, 8-byte keys, counted: 2^27 different ones at
 * 512 MiB took 110 ms to be read (256 chunks, 512 partitions) and 76 for what was spilled, 2^28 at 4 GiB 77 (128 and
 * 128), 26 for what was resident and 17, and 2^30, four to a group, at 16 GiB 350 in all. H200, 2^26 rows of 56 bytes,
 * 4 GiB: kernels took 23 ms while rows came, 7 more for 15 M rows that were aggregated when pages ran out, and 21 in
 * the end for the 52 M that were left; at 1 GiB 79 for 82 M in 192 times.
 */
const manyKeys = { chunkMs: 0.2, pieceMs: 0.00023, rowNs: 0.05, byteNs: 0.005, partitionBackMs: 0.1 };
const [mergeMs, mergedByteNs] = [0.2, 0.008];

/** A row is aggregated at most so often in pages, in the mean, while rows come. */
const compactionsMax = 4;

/**
 * Workers, the link behind them, and the GPU wait for each other, as rows come in chunks: so much of the shorter one of
 * their times is added to the longer one. A query of 2^26 rows of 56 bytes took 100 ms on an H200 where workers were to
 * take 42, and kernels took 30 while rows came and 21 in the end.
 */
const waitingShare = 0.5;

/**
 * What workers take in nanoseconds, per row for hashes of keys of several words and per value for sums of which the GPU
 * has parts. On an H100's host 60 million rows of two keys were read in 48 ms, of which their bytes are expected to
 * take 27, and 15 million groups delivered in 18, of which theirs are to take 15.
 */
const [keyWordsNs, partedSumNs] = [5, 2];

interface GroupWork {
    readonly read: number;
    readonly resident: number;
    readonly back: number;
}

/** Chunks with no more different keys for each row are aggregated (kGroupedShare in cuda/staged_group_by). */
const groupedShareMax = 0.5;

/** Time for rows that are aggregated in pages, as many as a merge takes at once. */
function mergedMs({ memory, sizes }: GroupLoad, rows: number): number {
    return (rows / sizes.mergeRows) * mergeMs + (rows * memory.rowBytes * mergedByteNs) / nsPerMs;
}

/**
 * Rows that are aggregated in full pages, where that leaves one for each group, until the rest has room. Where it does
 * not free enough, partitions are spilled after the first time.
 */
function compactedRows({ sizes, distinctKeys, spilledShare }: GroupLoad, kept: number): number {
    const room = sizes.pages * sizes.pageRows;
    const freedShare = Math.max(1 - distinctKeys / room, 1 / compactionsMax);
    const rows = Math.max(0, kept - room) / freedShare;
    return spilledShare > 0 ? Math.min(rows, room) : rows;
}

function gpuWork(load: GroupLoad): GroupWork {
    const { rows, layout, memory, isManyKeys, differentShare, sizes, spilledShare } = load;
    const { keyBytes, widths, nullGroup } = layout.group;
    const chunks = Math.ceil(rows / sizes.chunkRows);
    const rowMs = (inputRowBytes(keyBytes, widths, nullGroup) * groupedChunk.byteNs) / nsPerMs;
    const groupedMs = chunks * groupedChunk.chunkMs + rows * rowMs;
    if (!isManyKeys) return { read: groupedMs, resident: 0, back: 0 };
    const { chunkMs, pieceMs, rowNs, byteNs, partitionBackMs } = manyKeys;
    const partitions = 2 ** sizes.radixBits;
    // Rows of a key that lie together, as those of an order do, are one when they are partitioned.
    const isGrouped = differentShare <= groupedShareMax;
    const kept = isGrouped ? rows * differentShare : rows;
    const keptMs = (kept * (rowNs + memory.rowBytes * byteNs)) / nsPerMs;
    const left = mergedMs(load, Math.min(kept, sizes.pages * sizes.pageRows));
    return {
        read:
            (isGrouped ? groupedMs : chunks * chunkMs) +
            chunks * partitions * pieceMs +
            keptMs +
            mergedMs(load, compactedRows(load, kept)),
        resident: (1 - spilledShare) * left,
        back: spilledShare * (mergedMs(load, kept) + partitions * partitionBackMs)
    };
}

/** Time of workers that make what a chunk has of keys and text, beside filling it. */
function keysMs(load: GroupLoad): number {
    const { layout, rows } = load;
    const wordsMs = moreKeyWords(layout) > 0 ? (rows * keyWordsNs) / nsPerMs / load.workers : 0;
    // As many values in groups are taken to be new as keys are, which is the least.
    const numbersMs = lookUps(layout) * numberingMs(load, rows, load.distinctKeys);
    return wordsMs + numbersMs + otherTextsMs(load, load.filling.texts, load.distinctTexts);
}

/** The groups as batches, with what sums take whose parts workers add up. */
function delivered({ layout, groups, workers }: GroupLoad): Delivered {
    const { columns } = layout;
    const parted = columns.filter(({ kind, high }) => kind !== "copy" && high >= 0).length;
    return {
        bytes: groups * sumOf(columns.map(({ type }) => Math.max(1, type.byteWidth))),
        gatherMs: (groups * parted * partedSumNs) / nsPerMs / busyOn(workers, columns.length),
        sharedColumns: columns.length
    };
}

/**
 * Mean bytes of a packed partial row of a single row of the input: of the key the bits in which its values differ, of
 * each sum and extreme its column's, of a count, which is 1 for all, none.
 */
export function packedPartialBytes(
    { group }: Pick<OutOfCoreGroupLayout, "group">,
    statistics: KeyStatistics | undefined
): number {
    const values = group.aggregates.map(({ kind, column }) => (kind === "countRows" ? 0 : (group.widths[column] ?? 0)));
    return packedKeyBytes(8 * group.keyBytes, statistics) + sumOf(values);
}

/** Times that each row is looked up in a table of all workers before it goes to the GPU. */
export function lookUps({ side }: OutOfCoreGroupLayout): number {
    return (
        (side.numbered ? 1 : 0) +
        side.columns.filter(({ distinct, part }) => distinct !== null || isTextExtreme(part)).length
    );
}

/** Bytes per direction of the link, and how long its phases take. */
export function predictGroups(load: GroupLoad): OutOfCoreGroupPrediction {
    const { layout, rows, groups, spilledBytes, peerBytes, diskBytes, spilledShare, profile } = load;
    const { group } = layout;
    const inputBytes = rows * inputRowBytes(group.keyBytes, group.widths, group.nullGroup) * load.filling.sentShare;
    const resultBytes = groups * load.memory.resultRowBytes;
    const result = delivered(load);
    const outMs = (share: number, bytesIn: number, peerIn: number): number =>
        Math.max(linkMs(load, bytesIn, resultBytes * share, { in: peerIn, out: 0 }), share * deliveryMs(load, result));
    const work = gpuWork(load);
    const residentMs = Math.max(outMs(1 - spilledShare, 0, 0), work.resident);
    // Rows come back while groups of resident partitions leave, too.
    const givenMs = Math.max(
        outMs(1, spilledBytes - peerBytes, peerBytes),
        work.resident + work.back,
        diskBytes / profile.spillReadBytesPerMs
    );
    const suppliedMs = Math.max(
        linkMs(load, inputBytes, spilledBytes - peerBytes, { in: 0, out: peerBytes }),
        fillMs(load, load.filling) + keysMs(load)
    );
    return {
        h2dBytes: Math.ceil(inputBytes + spilledBytes),
        d2hBytes: Math.ceil(spilledBytes + resultBytes),
        spilledBytes: Math.ceil(spilledBytes),
        peerBytes: Math.ceil(peerBytes),
        diskBytes: Math.ceil(diskBytes),
        readMs:
            profile.deviceInputStartMs +
            Math.max(
                Math.max(suppliedMs, work.read) + waitingShare * Math.min(suppliedMs, work.read),
                diskBytes / profile.spillWriteBytesPerMs
            ),
        residentMs,
        spilledMs: spilledBytes > 0 ? Math.max(0, givenMs - residentMs) : 0
    };
}
