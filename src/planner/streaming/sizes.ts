// SPDX-License-Identifier: Apache-2.0
import type { Knobs } from "../../model/debug-knobs.js";
import { deviceConstants } from "../../model/device-constants.js";
import { clamp, mebibyte, powerOfTwoAtLeast } from "../../model/sizes.js";
import type { OutOfCoreSizes } from "../../plan/out-of-core-stage.js";

// These sizes were measured in joins by copy engines; of group-bys only the number of host chunks was.

const { hostSlots } = deviceConstants;
export const chunkSlots = 3;
export const resultSlots = 2;

/** A chunk takes 1.2 ms on a link of 55 GB/s; its start takes 15 to 65 us (join/spilled-copies.ts). */
export const chunkBytesMax = 64 * mebibyte;
export const chunkRowsGood = 2 ** 20;
export const chunkRowsSmall = 2 ** 18;
export const chunkRowsLeast = 2 ** 14;
/** A chunk is on its way before the first one is computed on: of 32, that is 3 %. */
export const chunksMin = 32;

/**
 * Chunks on their way from workers to the GPU, all of them together: what is packed has not left the processor's cache
 * when the link reads it. Sixteen workers packed columns of two int64 at 79 GB/s into memory that was used again after
 * 64 MiB, at 63 after 256 MiB and 51 after 1 GiB (32 MiB of it had 78; host of an H200, cache of 300 MiB, 2026-11-29).
 */
const hostChunkBytesMax = 8 * mebibyte;
/**
 * Workers fill some of them while the thread that runs the operator is busy with kernels of a whole chunk, and neither
 * takes nor gives back one. H200, 4 GiB, 2^26 rows of 7 columns, in ms with 8, 12, 16 and 24: sums of groups 118, 106,
 * 100 and 102, sums of a join 215, 193, 194 and 188; 2^28 rows of 2 columns, sums of a join, with 8, 12 and 16: 187,
 * 178 and 180.
 */
const hostChunkSlotsGood = 16;
const hostChunkSlotsLeast = 8;
/** More than the fewest take no larger share of the host's budget. */
const hostChunksShare = 1 / 16;

/** Chunks and blocks of result rows take no larger share of the host's budget, where that can be helped. */
export const ringShare = 1 / 4;

/** What sizes of every kind of query have to keep to. */
export interface SizeLimits {
    /** GPU memory that the query may use. */
    readonly limitBytes: number;
    /** Host memory for chunks, blocks of result rows and what is spilled; the rest of that goes to disk. */
    readonly hostBytes: number;
    /** Memory of another GPU for what is spilled, before the host's. */
    readonly peerBytes?: number | undefined;
    /** The result needs host memory, too: no more of it is taken for spilled rows than is likely to be used. */
    readonly sparing: boolean;
    /** Nobody knows how many rows an input has: it is a stream. */
    readonly guessed?: boolean;
    readonly debug: Knobs;
}

/**
 * A stream may have more rows than was said, or guessed: so many times as many find pages as long as there is GPU
 * memory, and all others leave.
 */
const guessedRowsFactor = 4;

/** Rows that pages are taken for. */
export function pagedRows(rows: number, { guessed = false }: Pick<SizeLimits, "guessed">): number {
    return guessed ? rows * guessedRowsFactor : rows;
}

export type HostChunks = Pick<OutOfCoreSizes, "hostChunkRows" | "hostChunkSlots">;

/** Chunks that kernels read where they lie are as large as those that they become. */
export function wholeHostChunks({
    chunkRows,
    chunkSlots
}: Pick<OutOfCoreSizes, "chunkRows" | "chunkSlots">): HostChunks {
    return { hostChunkRows: chunkRows, hostChunkSlots: chunkSlots + hostSlots };
}

/** Equal parts of a chunk, as many as a power of two, each of whole blocks of packed values. */
export function hostChunksOf(
    sizes: Pick<OutOfCoreSizes, "chunkRows" | "chunkSlots">,
    rowBytes: number,
    hostBytes: number
): HostChunks {
    let parts = powerOfTwoAtLeast((sizes.chunkRows * rowBytes) / hostChunkBytesMax);
    while (parts > 1 && sizes.chunkRows % (parts * chunkRowsLeast) !== 0) parts /= 2;
    if (parts <= 1) return wholeHostChunks(sizes);
    const hostChunkRows = sizes.chunkRows / parts;
    const affordable = Math.floor((hostBytes * hostChunksShare) / (hostChunkRows * rowBytes));
    return { hostChunkRows, hostChunkSlots: clamp(affordable, hostChunkSlotsLeast, hostChunkSlotsGood) };
}

/** Pinned memory of the host for rows on their way. */
export interface Rings {
    readonly chunks: number;
    readonly results: number;
}

/** Bytes of a block of result rows that may come packed: headers take a 64th of the narrowest values. */
export function packedBlockBytes(resultBytes: number): number {
    return Math.ceil(resultBytes * (1 + 1 / 64));
}

/** Columns of a chunk begin at multiples of 256 bytes. */
const chunkGapBytes = 256 * (deviceConstants.rowColumnsMax + 2);

/** Bytes of a chunk on its way, by those of a whole one. */
export function hostChunkBytes(
    { chunkRows, hostChunkRows }: Pick<OutOfCoreSizes, "chunkRows" | "hostChunkRows">,
    chunkBytes: number
): number {
    if (hostChunkRows === chunkRows) return chunkBytes;
    return Math.ceil((chunkBytes * hostChunkRows) / chunkRows) + chunkGapBytes;
}

/** `hostBytes` and `resultBytes`: of the largest chunk on its way, and of a block of result rows. */
export function ringsOf(
    sizes: Pick<OutOfCoreSizes, "hostChunkSlots" | "resultSlots">,
    hostBytes: number,
    resultBytes: number
): Rings {
    return {
        chunks: sizes.hostChunkSlots * hostBytes,
        results: (sizes.resultSlots + hostSlots) * resultBytes
    };
}

export function pinnedBytes({ chunks, results }: Rings): number {
    return chunks + results;
}
