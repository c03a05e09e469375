// SPDX-License-Identifier: Apache-2.0
import { clamp, formatBytes, kibibyte, mebibyte, powerOfTwoAtMost } from "../../model/sizes.js";
import { deviceConstants } from "../../model/device-constants.js";
import type { OutOfCoreSizes } from "../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../device-support.js";

const spillBlockBytesMax = 16 * mebibyte;
const spillBlockBytesMin = 64 * kibibyte;
/** Memory is used in whole blocks: what the last one would exceed it by is less than what estimates add. */
const spillBlocksMin = 64;
/** Spilled rows where memory is spared: more than expected, and some where none are, for partitions of heavy keys. */
const likelySlack = 1.25;
const unlikelyShare = 1 / 8;
/** Packed rows are a little more than their bits. */
const expectedSlack = 1.05;

/** Blocks on their way to or from disk: two for each thread, of a few calls each. */
const diskBlocks = 2 * deviceConstants.diskThreads;
const diskBlockBytesMax = 4 * mebibyte;
const diskBlockBytesMin = 16 * kibibyte;
/** Share of the host memory for spilled rows that blocks on their way to or from disk may take. */
const diskShare = 1 / 4;

type SpillSizes = Pick<OutOfCoreSizes, "spillBytes" | "spillBlockBytes" | "diskBlockBytes" | "diskBlocks">;

export interface SpillRequest {
    /** Host memory that is left for spilled rows. */
    readonly freeBytes: number;
    readonly expectedBytes: number;
    /** If all rows leave GPU memory and packing gains nothing. */
    readonly mostBytes: number;
    /** The result needs host memory, too: no more of it is taken for spilled rows than is likely to be used. */
    readonly sparing: boolean;
    /** More rows may come than are expected, from another operator: there is a way to disk whatever memory holds. */
    readonly unbounded?: boolean | undefined;
    /** No more than so many bytes in host memory: the knob. */
    readonly hostSpillBytes: number | undefined;
}

/** Pinned memory of rows on their way to disk, where there is a disk. */
export function diskBytes(sizes: Pick<OutOfCoreSizes, "diskBlockBytes" | "diskBlocks">): number {
    return sizes.diskBlocks * sizes.diskBlockBytes;
}

/** Unit of host memory for spilled rows: of what they take if all leave, and of what there is. */
export function spillBlockBytesOf(mostBytes: number, freeBytes: number): number {
    const block = powerOfTwoAtMost(Math.min(mostBytes, freeBytes) / spillBlocksMin);
    return clamp(block, spillBlockBytesMin, spillBlockBytesMax);
}

/**
 * Packed rows if all of them leave GPU memory and packing gains nothing, with a chunk for partitions that leave late,
 * in fragments of their own. `packedChunkBytes`: of a chunk that is packed so.
 */
export function spilledMost(rows: number, chunkRows: number, packedChunkBytes: number): number {
    return (Math.ceil(rows / chunkRows) + 1) * packedChunkBytes;
}

/** Most host memory that spilled rows take. */
export function spillBytesMax(mostBytes: number): number {
    return Math.ceil(mostBytes) + spillBlockBytesMax;
}

/**
 * Host memory for spilled rows as far as there is any, and a way to disk unless it holds them whatever happens. Too
 * little of it for that way is a reason not to begin.
 */
export function chooseSpill(request: SpillRequest): SpillSizes {
    const { freeBytes, expectedBytes, mostBytes, sparing, unbounded = false, hostSpillBytes } = request;
    const expected = Math.ceil(expectedBytes * expectedSlack);
    const spillBlockBytes = spillBlockBytesOf(mostBytes, freeBytes);
    const wished = sparing
        ? Math.min(mostBytes, Math.max(expected * likelySlack, mostBytes * unlikelyShare))
        : mostBytes;
    const host = Math.min(Math.max(0, freeBytes), hostSpillBytes ?? Infinity, Math.ceil(wished) + spillBlockBytes);
    const inMemory = { spillBytes: host, spillBlockBytes, diskBlockBytes: 0, diskBlocks: 0 };
    if (!unbounded && host >= Math.ceil(mostBytes) + spillBlockBytes) return inMemory;
    const block = powerOfTwoAtMost((freeBytes * diskShare) / diskBlocks);
    if (block < diskBlockBytesMin) {
        if (expected <= host) return inMemory;
        throw new NotOnDevice(
            `rows that it spills need about ${formatBytes(expected)} of host memory or a way to disk, ` +
                `${formatBytes(Math.max(0, freeBytes))} are left of the budget`
        );
    }
    const disk = { diskBlockBytes: Math.min(block, diskBlockBytesMax), diskBlocks };
    return { ...disk, spillBlockBytes, spillBytes: Math.min(host, freeBytes - diskBytes(disk)) };
}

/** Bytes of spilled rows that are expected on disk: those that come first stay in host memory. */
export function expectedOnDisk(
    spilled: { readonly build: number; readonly probe: number },
    { spillBytes, diskBlocks: blocks }: Pick<OutOfCoreSizes, "spillBytes" | "diskBlocks">
): { build: number; probe: number } {
    if (blocks === 0) return { build: 0, probe: 0 };
    const build = Math.max(0, spilled.build - spillBytes);
    return { build, probe: Math.max(0, spilled.build + spilled.probe - spillBytes) - build };
}
