// SPDX-License-Identifier: Apache-2.0
import { clamp, formatBytes, kibibyte, mebibyte, powerOfTwoAtMost } from "../../model/sizes.js";
import { deviceConstants } from "../../model/device-constants.js";
import type { OutOfCorePrediction, OutOfCoreSizes } from "../../plan/out-of-core-stage.js";
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

/**
 * Blocks on their way to or from disk: two for each thread, of a few calls each. Where memory is short they are small
 * first, and then few: one is written while the other is filled.
 */
const diskBlocksMost = 2 * deviceConstants.diskThreads;
const diskBlocksLeast = 2;
const diskBlockBytesMax = 4 * mebibyte;
const diskBlockBytesMin = 16 * kibibyte;
/** Share of the host memory for spilled rows that blocks on their way to or from disk may take, down to the least. */
const diskShare = 1 / 4;

type SpillSizes = Pick<
    OutOfCoreSizes,
    "peerBytes" | "spillBytes" | "spillBlockBytes" | "diskBlockBytes" | "diskBlocks"
>;

export interface SpillRequest {
    /** Host memory that is left for spilled rows. */
    readonly freeBytes: number;
    /** Memory of another GPU that takes them first. */
    readonly peerBytes?: number | undefined;
    readonly expectedBytes: number;
    /** If all rows leave GPU memory and packing gains nothing. */
    readonly mostBytes: number;
    /** The result needs host memory, too: no more of it is taken for spilled rows than is likely to be used. */
    readonly sparing: boolean;
    /** No more than so many bytes in host memory: the knob. */
    readonly hostSpillBytes: number | undefined;
}

/** Host memory of rows on their way to disk, which is taken when the first of them goes there. */
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

/** Most host memory that spilled rows take, those on their way to disk included. */
export function spillBytesMax(mostBytes: number): number {
    return Math.ceil(mostBytes) + spillBlockBytesMax + diskBlocksMost * diskBlockBytesMax;
}

function diskBlocksOf(freeBytes: number): Pick<SpillSizes, "diskBlocks" | "diskBlockBytes"> {
    const bytes = freeBytes * diskShare;
    const block = powerOfTwoAtMost(bytes / diskBlocksMost);
    if (block >= diskBlockBytesMin) {
        return { diskBlocks: diskBlocksMost, diskBlockBytes: Math.min(block, diskBlockBytesMax) };
    }
    const blocks = Math.max(diskBlocksLeast, Math.floor(bytes / diskBlockBytesMin));
    return { diskBlocks: blocks, diskBlockBytes: diskBlockBytesMin };
}

/**
 * Host memory for spilled rows as far as there is any, and always a way to disk: more rows may leave than are expected,
 * and the system may pin less than the budget allows. Too little memory for that way is a reason not to begin.
 */
export function chooseSpill(request: SpillRequest): SpillSizes {
    const { freeBytes, peerBytes = 0, expectedBytes, mostBytes, sparing, hostSpillBytes } = request;
    const expected = Math.ceil(expectedBytes * expectedSlack);
    const spillBlockBytes = spillBlockBytesOf(mostBytes, freeBytes);
    const wished = sparing
        ? Math.min(mostBytes, Math.max(expected * likelySlack, mostBytes * unlikelyShare))
        : mostBytes;
    const host = Math.min(
        Math.max(0, freeBytes),
        hostSpillBytes ?? Infinity,
        Math.ceil(Math.max(0, wished - peerBytes)) + spillBlockBytes
    );
    const disk = diskBlocksOf(freeBytes);
    if (diskBytes(disk) > freeBytes) {
        throw NotOnDevice.lacksHost(
            `rows that it spills (about ${formatBytes(expected)}) need ${formatBytes(diskBytes(disk))} of host ` +
                `memory on their way to disk at least, ${formatBytes(Math.max(0, freeBytes))} are left of the budget`
        );
    }
    return { ...disk, peerBytes, spillBlockBytes, spillBytes: Math.min(host, freeBytes - diskBytes(disk)) };
}

/** Bytes of spilled rows that are expected on disk: those that come first stay with a peer, and then in host memory. */
export function expectedOnDisk(
    spilled: { readonly build: number; readonly probe: number },
    { peerBytes, spillBytes, diskBlocks: blocks }: Pick<OutOfCoreSizes, "peerBytes" | "spillBytes" | "diskBlocks">
): { build: number; probe: number } {
    if (blocks === 0) return { build: 0, probe: 0 };
    const inMemory = peerBytes + spillBytes;
    const build = Math.max(0, spilled.build - inMemory);
    return { build, probe: Math.max(0, spilled.build + spilled.probe - inMemory) - build };
}

/** Bytes of spilled rows that are expected in a peer's memory: those that come first. */
export function expectedOnPeer(
    spilled: { readonly build: number; readonly probe: number },
    { peerBytes }: Pick<OutOfCoreSizes, "peerBytes">
): { build: number; probe: number } {
    const build = Math.min(spilled.build, peerBytes);
    return { build, probe: Math.min(spilled.probe, peerBytes - build) };
}

/** Where spilled rows are expected, in words. */
export function spilledTo(predicted: Pick<OutOfCorePrediction, "spilledBytes" | "peerBytes" | "diskBytes">): string {
    const { spilledBytes, peerBytes, diskBytes: onDisk } = predicted;
    const tiers = [
        ...(peerBytes > 0 ? ["a peer's memory"] : []),
        ...(peerBytes === 0 || peerBytes < spilledBytes ? ["host memory"] : []),
        ...(onDisk > 0 ? ["disk"] : [])
    ];
    return tiers.join(" and ");
}
