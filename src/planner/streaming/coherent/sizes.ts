// SPDX-License-Identifier: Apache-2.0
import { clamp, formatBytes, mebibyte, powerOfTwoAtLeast, powerOfTwoAtMost } from "../../../model/sizes.js";
import { deviceConstants } from "../../../model/device-constants.js";
import type { CoherentJoinMemory } from "../../../plan/device-memory-model.js";
import type { OutOfCoreCoherent, OutOfCoreShape, OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import { noSizes, type JoinMemory } from "../device-memory.js";
import { joinedPartitionBytes, sortedPartitionBytes } from "../shared-memory.js";
import { ringBytes } from "../join/sizes.js";
import { bitsOfPartitions, radixBitsMax, radixBitsMin } from "../radix-bits.js";
import { chunkRowsLeast, pinnedBytes, resultSlots, ringShare, wholeHostChunks, type SizeLimits } from "../sizes.js";
import { coherentMemory, coherentRowBytes, type CoherentRequest } from "./memory.js";

/** The smallest page that GPU and host memory are taken in. */
const pageBytes = deviceConstants.coherentPageBytesMin;

/**
 * Each chunk leaves a page per partition partly empty: with 2^10 partitions half of 64 MiB, of 256 that 2^24 rows of 16
 * bytes take.
 */
const farChunkRowsMost = 2 ** 24;
const farChunkSlots = 1;
const resultBlockBytes = 64 * mebibyte;
/** Blocks of result rows take no larger share of GPU memory, where that can be helped. */
const resultShare = 1 / 16;

const noPageNear = { device: 0, far: 1 } as const;

/** Buckets of a table of the Triton join's paper and of its code, whatever has room beside them. */
const bucketChainHeads = 2048;

/** Mapped pages take whole stripes, of so many bytes at most (kStripeBytes in cuda/tier). */
const mappedStripeBytesMost = 16 * mebibyte;

/** What other memory than pages may be more than is planned, where another partitioner runs, and for rounding. */
const pagesSlack = 1.03;
const pagesSpare = 32;

/** What is spilled are pages, of which none goes to disk. */
export interface CoherentSizeRequest extends CoherentRequest, SizeLimits {
    readonly limitBytes: number;
    /** No page lies in GPU memory. */
    readonly isUncached?: boolean;
    /** What the join does not need of `limitBytes` is for operators that run beside it. */
    readonly hasNeighbours?: boolean;
}

/** Parts of all pages; the others lie in host memory. */
export interface PageShares {
    /** The share in GPU memory. */
    readonly near: number;
    /** The share in the memory of another GPU. */
    readonly peer: number;
}

export interface CoherentSizes {
    readonly sizes: OutOfCoreSizes;
    readonly coherent: OutOfCoreCoherent;
    /** GPU memory that the join is expected to take. */
    readonly deviceBytes: number;
    readonly shares: PageShares;
    /** Part of all pages that the other GPU has room for. */
    readonly peerMost: number;
    readonly rowBytes: number;
    /** The second pass has so many radix bits. */
    readonly splitBits: number;
}

/**
 * Are rows of both sides joined by tables in shared memory? Those of a result, of joins that give rows for having no
 * partner, or once, and those whose keys have two words, are looked up in an index of sorted rows.
 */
export function isJoinedByTables(shape: OutOfCoreShape): boolean {
    const { result, emit, keepUnmatchedBuild, keepUnmatchedProbe, keyColumns } = shape;
    return result === "count" && emit === "pairs" && !keepUnmatchedBuild && !keepUnmatchedProbe && keyColumns === 0;
}

/** Are those tables the arrays of perfect hashing? */
export function isPerfectlyHashed(shape: OutOfCoreShape, { coPartitionJoin }: SizeLimits["debug"]): boolean {
    return coPartitionJoin === "perfect" && isJoinedByTables(shape);
}

function chooseRadixBits(request: CoherentSizeRequest, rowBytes: number): number {
    const { memory, buildRows, limitBytes, blockBytes, debug } = request;
    if (debug.radixBits !== undefined) return Math.min(debug.radixBits, radixBitsMax);
    const hasTables = isJoinedByTables(memory.shape);
    const wanted = hasTables ? joinedPartitionBytes(blockBytes, rowBytes) : sortedPartitionBytes(blockBytes);
    return clamp(bitsOfPartitions(buildRows * rowBytes, wanted, limitBytes), radixBitsMin, radixBitsMax);
}

function chooseResultRows(memory: JoinMemory, chunkRows: number, limitBytes: number): number {
    const { shape } = memory;
    if (shape.result !== "rows") return chunkRows;
    const blockBytes = (resultRows: number): number => memory.of({ ...noSizes, resultRows }).resultBytes;
    let rows = Math.min(chunkRows, powerOfTwoAtMost(resultBlockBytes / (1 + memory.resultRowBytes)));
    while (rows > chunkRowsLeast && resultSlots * blockBytes(rows) > limitBytes * resultShare) rows /= 2;
    return rows;
}

/** Bits of the second pass that were asked for, within what it can have. */
function splitBitsOf({ debug: { secondRadixBits } }: CoherentSizeRequest): number | null {
    return secondRadixBits === undefined ? null : clamp(secondRadixBits, 1, deviceConstants.radixPassBitsMax);
}

/** Pages in GPU memory that were asked for, all of them or a share; undefined: as many as fit. */
function wantedNearPages({ debug: { interleave, residentShare }, isUncached }: CoherentSizeRequest, pages: number) {
    if (isUncached === true) return 0;
    if (interleave !== undefined) return Math.floor((pages * interleave.device) / (interleave.device + interleave.far));
    return residentShare === undefined ? undefined : Math.round(pages * residentShare);
}

/** All sizes but what depends on how many pages lie where, with what a join of them takes. */
function sizesOf(request: CoherentSizeRequest): { sizes: OutOfCoreSizes; told: CoherentJoinMemory } {
    const { memory, buildRows, probeRows, limitBytes, hostBytes, debug } = request;
    const rowBytes = coherentRowBytes(request);
    const base = {
        radixBits: chooseRadixBits(request, rowBytes),
        pageRows: pageBytes / rowBytes,
        ...{ chunkSlots: farChunkSlots, resultSlots, residentPartitions: 0 },
        ...{ peerBytes: 0, diskBlockBytes: 0, diskBlocks: 0 }, // pages of a peer are counted when near ones are known
        filterWords: 0,
        ...{ pages: 0, spillBlockBytes: pageBytes, spillBytes: 0 }
    };
    const withChunks = (chunkRows: number): OutOfCoreSizes => ({
        ...base,
        chunkRows,
        ...wholeHostChunks({ ...base, chunkRows }),
        resultRows: chooseResultRows(memory, chunkRows, limitBytes)
    });
    const pinned = (rows: number): number => pinnedBytes(ringBytes(memory, withChunks(rows)));
    let rows = clamp(powerOfTwoAtLeast(Math.max(buildRows, probeRows)), chunkRowsLeast, farChunkRowsMost);
    while (rows > chunkRowsLeast && pinned(rows) > hostBytes * ringShare) rows /= 2;
    const sizes = withChunks(debug.chunkRows ?? rows);
    const { partitioner = "auto", partitionBlocks = 0 } = debug;
    const told = coherentMemory(request, sizes, {
        partitioner,
        partitionBlocks,
        secondRadixBits: splitBitsOf(request)
    });
    return { sizes: { ...sizes, pages: Math.max(1, told.pages) }, told };
}

/** Host memory that such a join could use, all rows in it. */
export function mostCoherentHostBytes(request: Omit<CoherentSizeRequest, "hostBytes" | "sparing">): number {
    const { sizes, told } = sizesOf({ ...request, hostBytes: Infinity, sparing: false });
    return pinnedBytes(ringBytes(request.memory, sizes)) + sizes.pages * told.pageBytes;
}

/** Pages in GPU memory as far as it goes. */
function nearPages(pages: number, deviceBytes: number, told: CoherentJoinMemory): number {
    return clamp(Math.floor((deviceBytes - told.takenBytes) / told.pageBytes), 0, pages);
}

/** Sizes of a coherent join; throws NotOnDevice where GPU or host memory is too little. */
export function chooseCoherentSizes(request: CoherentSizeRequest): CoherentSizes {
    const { memory, limitBytes, hostBytes, sparing, debug } = request;
    const { sizes, told } = sizesOf(request);
    const { pages } = sizes;
    const { takenBytes: taken, rowBytes, splitBits } = told;
    const { partitioner, partitionBlocks = 0, gatherBlocks = 0 } = debug;
    if (taken > limitBytes) throw NotOnDevice.below(taken);
    const secondRadixBits = splitBitsOf(request);
    const wanted = wantedNearPages(request, pages);
    const interleave = request.isUncached === true ? noPageNear : (debug.interleave ?? null);
    const fitting = nearPages(pages, limitBytes, told);
    // Pages take turns as they were asked to, or the join does not run.
    if (interleave !== null && wanted !== undefined && wanted > fitting) {
        throw NotOnDevice.below(taken + wanted * told.pageBytes);
    }
    const near = Math.min(wanted ?? pages, fitting);
    const needed = taken + near * told.pageBytes;
    // The GPU keeps all of this for the join, so that others find room for nothing but what is left of their limit.
    const deviceBytes = wanted === undefined && request.hasNeighbours !== true ? limitBytes : needed;
    // Which partitioner is best is decided on the GPU: host memory is there for one with large buffers, too.
    const other = { partitioner: partitioner ?? "hierarchical", partitionBlocks, secondRadixBits };
    const surelyNear = interleave === null ? nearPages(near, deviceBytes, coherentMemory(request, sizes, other)) : near;
    const listedPages = Math.min(pages, Math.ceil((pages - surelyNear) * pagesSlack) + pagesSpare);
    const peerRoom = Math.floor((request.peerBytes ?? 0) / told.pageBytes);
    const peerPages = Math.min(peerRoom, listedPages);
    const stripes = debug.pages === "mapped" ? mappedStripeBytesMost / told.pageBytes : 0;
    // Stripes of a peer are rounded down, those of the host up.
    const hostPages = listedPages - peerPages + (peerPages > 0 ? 2 : 1) * stripes;
    const pinned = pinnedBytes(ringBytes(memory, sizes));
    const free = Math.floor(Math.min(hostBytes - pinned, debug.hostSpillBytes ?? Infinity));
    const hostPageBytes = hostPages * told.pageBytes;
    if (hostPageBytes > free) {
        throw NotOnDevice.lacksHost(
            `pages that do not fit ${peerPages > 0 ? "memory of either GPU" : "GPU memory"} need about ` +
                `${formatBytes(hostPageBytes)} of host memory, ${formatBytes(Math.max(0, free))} are left of the ` +
                `budget; raise memory.host${peerPages > 0 ? " or memory.peer" : ""}`
        );
    }
    return {
        sizes: {
            ...sizes,
            peerBytes: Math.min(peerRoom, peerPages + stripes) * told.pageBytes,
            // Where there is room for them, all pages of the peer may be the host's, if it has less than it had.
            spillBytes: sparing ? hostPageBytes : Math.min(free, Math.max(hostPageBytes, pages * told.pageBytes))
        },
        coherent: {
            ...{ deviceBytes, partitioner: partitioner ?? "auto", partitionBlocks, gatherBlocks },
            ...{ interleave, mapped: debug.pages === "mapped", secondRadixBits },
            tableBuckets: debug.coPartitionJoin === "bucket-chaining" ? bucketChainHeads : null,
            perfectHash: isPerfectlyHashed(memory.shape, debug)
        },
        deviceBytes: needed,
        shares: { near: near / pages, peer: Math.min(peerRoom, pages - near) / pages },
        peerMost: peerRoom / pages,
        ...{ rowBytes, splitBits }
    };
}
