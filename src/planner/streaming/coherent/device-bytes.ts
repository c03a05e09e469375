// SPDX-License-Identifier: Apache-2.0
import type { FarPartitioner } from "../../../model/debug-knobs.js";
import { powerOfTwoAtMost } from "../../../model/sizes.js";
import type { OutOfCoreShape, OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";
import { resultBytes } from "../join/device-bytes.js";
import { joinPassBits } from "../shared-memory.js";

/**
 * GPU memory that a coherent join takes beside its pages: the twin of CoherentShape::partition_bytes and join_bytes in
 * cuda/coherent_join/coherent_shape.cu, with the numbers of coherent_policy.hpp. What depends on properties of the GPU
 * that are not known is estimated for a large one.
 */
const wordBytes = 8;
const directoryWords = 6;
const partitionWords = 4;
const secondPass = { rowsMost: 2 ** 23, share: 24, largeShare: 12, slots: 2, lists: 3, partitions: 64 } as const;
const passBits = 8;
const index = {
    rowsMost: 2 ** 23,
    share: 32,
    largeShare: 8,
    sortPartitions: 64,
    counters: 5,
    partitionBytes: 24
} as const;
const staged = { rowsMost: 2 ** 22, share: 64 } as const;
const regionAlignRows = 8;
const parcelSlots = 16;
/** Words of a page in a list for the second pass, with half as many again for later lists; of a region with counts. */
const pieceWords = 6;
const regionWords = 6;
const unitsHeld = 4;
const unitsAhead = 3;
const rowCopyBytes = 24;
const rowPieceBytes = 24;
const tileRows = 1024;
const tileGroups = 32;
const reserveBytes = 32 * 2 ** 20;
const reserveShare = 64;

/** Blocks of the first pass, one per multiprocessor, with what a buffer is for each partition and warp. */
const multiprocessorsMost = 160;
const secondLevelBytes = 8192;
const warps = 32;
const leftoverBytes = 8;
const sharedBytes = 256 * 2 ** 10;
const bufferBytesMax = 2048;

export interface CoherentRequest {
    readonly shape: OutOfCoreShape;
    readonly buildRows: number;
    readonly probeRows: number;
    readonly limitBytes: number;
    /** Shared memory of a block of the GPU. */
    readonly blockBytes: number;
    /** Multiprocessors of the GPU; undefined: not known yet. */
    readonly multiprocessors?: number | undefined;
}

type Sizes = Pick<OutOfCoreSizes, "radixBits" | "chunkRows" | "pageRows" | "pages" | "resultRows" | "resultSlots">;

/** Bytes of a row: its key, and one value of the same width. */
export function coherentRowBytes({ keyBytes }: OutOfCoreShape): number {
    return 2 * keyBytes;
}

/** Rows of a side that are joined together: few under small limits, but of a mean partition twice as many. */
function groupPages(
    meanRows: number,
    shares: { rowsMost: number; share: number; largeShare: number },
    limitRows: number,
    page: number
): number {
    const small = Math.min(shares.rowsMost, Math.floor(limitRows / shares.share));
    const rows = Math.max(small, Math.min(2 * meanRows, Math.floor(limitRows / shares.largeShare)));
    return Math.max(2, Math.ceil(rows / page));
}

/** Bits of the second pass; of a partition a little larger than the mean, as the GPU knows its block better. */
function splitBits({ shape, buildRows, blockBytes }: CoherentRequest, { radixBits }: Sizes): number {
    const rows = (buildRows / 2 ** radixBits) * 1.05;
    return joinPassBits(rows, radixBits, blockBytes, coherentRowBytes(shape));
}

/** Counts: both sides are partitioned once more, from their pages, and joined in shared memory. */
function secondPassBytes(request: CoherentRequest, sizes: Sizes): number {
    const { shape, buildRows, probeRows, limitBytes } = request;
    const rowBytes = coherentRowBytes(shape);
    const mean = Math.floor(Math.max(buildRows, probeRows) / 2 ** sizes.radixBits);
    const pages = groupPages(mean, secondPass, limitBytes / rowBytes, sizes.pageRows);
    const rows = pages * sizes.pageRows;
    const parts = 2 ** splitBits(request, sizes);
    const regions = secondPass.partitions * parts;
    const splitRows = rows + regions * regionAlignRows;
    const partitions = 2 ** sizes.radixBits;
    const chunks = Math.max(1, Math.ceil(Math.max(buildRows, probeRows) / sizes.chunkRows));
    const pieces = Math.min(sizes.pages, 2 * (pages + chunks * secondPass.partitions));
    const lists = secondPass.lists * pieceWords * (pieces + 2 * partitions);
    const places = 2 * (regionWords * parts * partitions + partitions + 1);
    const sums = 3 * regions + 64;
    return 2 * secondPass.slots * splitRows * rowBytes + (lists + places + sums) * wordBytes;
}

/** Rows: build rows are gathered and indexed, probe rows gathered and looked up. */
function indexBytes({ shape, buildRows, limitBytes }: CoherentRequest, sizes: Sizes): number {
    const rowBytes = coherentRowBytes(shape);
    const { radixBits, pageRows, resultRows, resultSlots } = sizes;
    const partitions = 2 ** radixBits;
    const pages = groupPages(Math.floor(buildRows / partitions), index, limitBytes / rowBytes, pageRows);
    const rows = pages * pageRows;
    const few = Math.min(staged.rowsMost, Math.floor(limitBytes / staged.share / rowBytes), 2 * rows);
    const stagedRows = Math.max(pageRows, powerOfTwoAtMost(few));
    const batchTiles = Math.floor(stagedRows / tileRows) + Math.min(partitions, stagedRows) + 1;
    const scratchRows = rows + index.sortPartitions * 2 ** passBits * regionAlignRows;
    const buckets = rows + 2 * partitions;
    const counted = Math.min(partitions, 2 * pages) * 2 ** passBits;
    const copies = 2 * pages + partitions + stagedRows / pageRows + 2 * partitions;
    const pieces = Math.max(Math.min(batchTiles, sizes.pages + partitions), pages + partitions);
    return (
        (2 * rows + scratchRows + unitsAhead * stagedRows) * rowBytes +
        buckets * 4 +
        partitions * index.partitionBytes +
        sizes.pages * wordBytes +
        index.counters * wordBytes * counted +
        unitsHeld * 2 * copies * rowCopyBytes +
        parcelSlots * 2 * pieces * rowPieceBytes +
        resultSlots * resultBytes(shape, resultRows) +
        2 * (batchTiles * tileGroups + 1) * wordBytes
    );
}

/** Buffers of the kernels that partition. */
function bufferBytes(partitioner: FarPartitioner, radixBits: number, blocks: number): number {
    const partitions = 2 ** radixBits;
    switch (partitioner) {
        case "standard":
        case "linear":
            return 0;
        case "shared":
        case "bulk":
            return blocks * (Math.min(sharedBytes, partitions * bufferBytesMax) + partitions * leftoverBytes);
        case "hierarchical":
            return blocks * ((partitions + warps) * secondLevelBytes + partitions * leftoverBytes);
    }
}

/** All but pages. The first pass of both sides and their join follow each other. */
export function coherentBytes(
    request: CoherentRequest,
    sizes: Sizes,
    { partitioner, partitionBlocks }: { partitioner: FarPartitioner; partitionBlocks: number }
): number {
    // None asked for: a block on each multiprocessor.
    const blocks = partitionBlocks === 0 ? (request.multiprocessors ?? multiprocessorsMost) : partitionBlocks;
    const isCount = request.shape.result === "count";
    const counts = isCount ? 2 ** (1 + sizes.radixBits + splitBits(request, sizes)) : 0;
    const partition =
        bufferBytes(partitioner, sizes.radixBits, blocks) +
        (sizes.pages * directoryWords + 2 ** sizes.radixBits * partitionWords + counts) * wordBytes;
    const joined = isCount ? secondPassBytes(request, sizes) : indexBytes(request, sizes);
    const reserve = sizes.pages * wordBytes + reserveBytes + request.limitBytes / reserveShare;
    return Math.ceil(Math.max(partition, joined) + reserve);
}
