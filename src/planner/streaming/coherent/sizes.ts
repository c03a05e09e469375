// SPDX-License-Identifier: Apache-2.0
import type { FarPartitioner } from "../../../model/debug-knobs.js";
import {
    clamp,
    formatBytes,
    formatCount,
    kibibyte,
    mebibyte,
    powerOfTwoAtLeast,
    powerOfTwoAtMost
} from "../../../model/sizes.js";
import type { OutOfCoreCoherent, OutOfCoreShape, OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import { outputWidth, resultBytes } from "../join/device-bytes.js";
import { joinedPartitionBytes, sortedPartitionBytes } from "../shared-memory.js";
import { ringBytes } from "../join/sizes.js";
import { radixBitsMax, radixBitsMin } from "../radix-bits.js";
import { chunkRowsLeast, pinnedBytes, resultSlots, ringShare, type SizeLimits } from "../sizes.js";
import { coherentBytes, coherentRowBytes, type CoherentRequest } from "./device-bytes.js";

/** The smallest page that GPU and host memory are taken in (kCoherentPageBytesMin in cuda/coherent_join). */
const pageBytes = 64 * kibibyte;
const farPagesMax = 2 ** 26;

/**
 * Each chunk leaves a page per partition partly empty: with 2^10 partitions half of 64 MiB, of 256 that 2^24 rows of 16
 * bytes take.
 */
const farChunkRowsMost = 2 ** 24;
const farChunkSlots = 1;
const resultBlockBytes = 64 * mebibyte;
/** Blocks of result rows take no larger share of GPU memory, where that can be helped. */
const resultShare = 1 / 16;

/** What the estimate of other memory than pages may be wrong by, and for rounding. */
const pagesSlack = 1.03;
const pagesSpare = 32;

/** What is spilled are pages, of which none goes to disk. */
export type CoherentSizeRequest = CoherentRequest & SizeLimits;

export interface CoherentSizes {
    readonly sizes: OutOfCoreSizes;
    readonly coherent: OutOfCoreCoherent;
    /** GPU memory that the join is expected to take. */
    readonly deviceBytes: number;
    /** Share of all pages that lies in GPU memory. */
    readonly nearShare: number;
}

function chooseRadixBits({ shape, buildRows, limitBytes, blockBytes, debug }: CoherentSizeRequest): number {
    if (debug.radixBits !== undefined) return Math.min(debug.radixBits, radixBitsMax);
    const rowBytes = coherentRowBytes(shape);
    const isCount = shape.result === "count";
    const wanted = isCount ? joinedPartitionBytes(blockBytes, rowBytes) : sortedPartitionBytes(blockBytes);
    const bytesMax = Math.max(1, Math.min(wanted, limitBytes / 16));
    return clamp(Math.ceil(Math.log2((buildRows * rowBytes) / bytesMax)), radixBitsMin, radixBitsMax);
}

function chooseResultRows(shape: OutOfCoreShape, chunkRows: number, limitBytes: number): number {
    if (shape.result !== "rows") return chunkRows;
    const width = shape.outputs.reduce((sum, output) => sum + outputWidth(shape, output), 1);
    let rows = Math.min(chunkRows, powerOfTwoAtMost(resultBlockBytes / width));
    while (rows > chunkRowsLeast && resultSlots * resultBytes(shape, rows) > limitBytes * resultShare) rows /= 2;
    return rows;
}

/** Pages of both sides in all, however keys are spread: pages_of_side in cuda/coherent_join/coherent_shape.cu. */
export function coherentPages(
    { buildRows, probeRows }: Pick<CoherentRequest, "buildRows" | "probeRows">,
    { radixBits, chunkRows, pageRows }: Pick<OutOfCoreSizes, "radixBits" | "chunkRows" | "pageRows">
): number {
    const chunks = Math.max(1, Math.ceil(Math.max(buildRows, probeRows) / chunkRows));
    const ofSide = (rows: number): number => Math.floor(rows / pageRows) + Math.min(rows, chunks * 2 ** radixBits);
    return Math.max(1, ofSide(buildRows) + ofSide(probeRows));
}

/** All but what depends on how many pages lie where. */
function sizesOf(request: CoherentSizeRequest): OutOfCoreSizes {
    const { shape, buildRows, probeRows, limitBytes, hostBytes, debug } = request;
    const base = {
        radixBits: chooseRadixBits(request),
        pageRows: pageBytes / coherentRowBytes(shape),
        ...{ chunkSlots: farChunkSlots, resultSlots, residentPartitions: 0, diskBlockBytes: 0, diskBlocks: 0 },
        filterWords: 0,
        ...{ pages: 0, spillBlockBytes: pageBytes, spillBytes: 0 }
    };
    const withChunks = (chunkRows: number): OutOfCoreSizes => ({
        ...base,
        chunkRows,
        resultRows: chooseResultRows(shape, chunkRows, limitBytes)
    });
    const pinned = (rows: number): number => pinnedBytes(ringBytes(shape, withChunks(rows)));
    let rows = clamp(powerOfTwoAtLeast(Math.max(1, buildRows, probeRows)), chunkRowsLeast, farChunkRowsMost);
    while (rows > chunkRowsLeast && pinned(rows) > hostBytes * ringShare) rows /= 2;
    const sizes = withChunks(debug.chunkRows ?? rows);
    const pages = coherentPages(request, sizes);
    if (pages > farPagesMax) {
        throw new NotOnDevice(`it takes ${formatCount(pages)} pages, ${formatCount(farPagesMax)} at most`);
    }
    return { ...sizes, pages };
}

/** Host memory that such a join could use, all rows in it. */
export function mostCoherentHostBytes(request: Omit<CoherentSizeRequest, "hostBytes" | "sparing">): number {
    const sizes = sizesOf({ ...request, hostBytes: Infinity, sparing: false });
    return pinnedBytes(ringBytes(request.shape, sizes)) + sizes.pages * pageBytes;
}

/** Pages in GPU memory as far as it goes. */
function nearPages(pages: number, deviceBytes: number, takenBytes: number): number {
    return clamp(Math.floor((deviceBytes - takenBytes) / pageBytes), 0, pages);
}

/** Sizes of a coherent join; throws NotOnDevice where GPU or host memory is too little. */
export function chooseCoherentSizes(request: CoherentSizeRequest): CoherentSizes {
    const { shape, limitBytes, hostBytes, sparing, debug } = request;
    const sizes = sizesOf(request);
    const { pages } = sizes;
    const { partitioner, partitionBlocks = 0, gatherBlocks = 0, residentShare } = debug;
    // Which partitioner is best is decided on the GPU: one without large buffers, but memory is there for any.
    const takenWith = (name: FarPartitioner): number =>
        coherentBytes(request, sizes, { partitioner: name, partitionBlocks });
    const taken = takenWith(partitioner ?? "bulk");
    if (taken > limitBytes) throw NotOnDevice.below(taken);
    const most = residentShare === undefined ? pages : Math.round(pages * residentShare);
    const near = Math.min(most, nearPages(pages, limitBytes, taken));
    const deviceBytes = residentShare === undefined ? limitBytes : taken + near * pageBytes;
    const surelyNear = nearPages(near, deviceBytes, takenWith(partitioner ?? "hierarchical"));
    const farPages = Math.min(pages, Math.ceil((pages - surelyNear) * pagesSlack) + pagesSpare);
    const pinned = pinnedBytes(ringBytes(shape, sizes));
    const free = Math.floor(Math.min(hostBytes - pinned, debug.hostSpillBytes ?? Infinity));
    const farBytes = farPages * pageBytes;
    if (farBytes > free) {
        throw new NotOnDevice(
            `pages that do not fit GPU memory need about ${formatBytes(farBytes)} of host memory, ` +
                `${formatBytes(Math.max(0, free))} are left of the budget`
        );
    }
    return {
        sizes: { ...sizes, spillBytes: sparing ? farBytes : Math.min(free, pages * pageBytes) },
        coherent: { deviceBytes, partitioner: partitioner ?? "auto", partitionBlocks, gatherBlocks },
        deviceBytes: taken + near * pageBytes,
        nearShare: near / pages
    };
}
