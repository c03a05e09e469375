// SPDX-License-Identifier: Apache-2.0
import type { Knobs } from "../../model/debug-knobs.js";
import { deviceConstants } from "../../model/device-constants.js";
import { mebibyte } from "../../model/sizes.js";
import type { OutOfCoreSizes } from "../../plan/out-of-core-stage.js";

// Measured are these sizes in joins by copy engines. Group-bys have the same, which no run of their own has shown yet.

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

/** Pinned memory of the host for rows on their way. */
export interface Rings {
    readonly chunks: number;
    readonly results: number;
}

/** `chunkBytes` and `resultBytes`: of the largest chunk, and of a block of result rows. */
export function ringsOf(
    sizes: Pick<OutOfCoreSizes, "chunkSlots" | "resultSlots">,
    chunkBytes: number,
    resultBytes: number
): Rings {
    return {
        chunks: (sizes.chunkSlots + hostSlots) * chunkBytes,
        results: (sizes.resultSlots + hostSlots) * resultBytes
    };
}

export function pinnedBytes({ chunks, results }: Rings): number {
    return chunks + results;
}
