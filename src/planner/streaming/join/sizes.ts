// SPDX-License-Identifier: Apache-2.0
import { clamp, mebibyte, powerOfTwoAtMost } from "../../../model/sizes.js";
import type { OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";
import { attempt, NotOnDevice } from "../../device-support.js";
import type { JoinMemory } from "../device-memory.js";
import { leastPages, mostPages, pageRowsFor, pagesOfAll } from "../pages.js";
import { bitsOfPartitions, radixBitsFor, withBitsThatFit, type RadixBits } from "../radix-bits.js";
import { sortedPartitionBytes } from "../shared-memory.js";
import {
    chunkBytesMax,
    chunkRowsGood,
    chunkRowsLeast,
    chunkRowsSmall,
    chunkSlots,
    chunksMin,
    hostChunkBytes,
    hostChunksOf,
    packedBlockBytes,
    pagedRows,
    pinnedBytes,
    resultSlots,
    ringShare,
    ringsOf,
    type Rings,
    type SizeLimits
} from "../sizes.js";
import { chooseSpill, spillBytesMax, spilledMost } from "../spill.js";
import { noFilter, type FilterDraft } from "./filter.js";
import { chooseResident, residentShareOf } from "./resident-share.js";
import { backStartMs, chunksOf, chunkStartMs, probeReads } from "./spilled-copies.js";

/**
 * Relations of more than 512 chunks have up to twice as large ones: each chunk leaves a run, of which every group of
 * partitions fetches a piece, so that pieces shrink and copies grow in number with that of runs. H200, 2^32 x 2^32 rows
 * of 8 bytes at 16 GiB: spilled partitions took 527 ms with chunks of 2^22 rows, 417 with 2^24, of which their bytes
 * take 405.
 */
const manyChunks = 512;
const manyChunkBytesMax = 128 * mebibyte;
/** All that is no page gets this share of the limit, where partitions would be cut into parts else. */
const chunkShareMax = 3 / 4;

export interface SizeRequest extends SizeLimits {
    readonly memory: JoinMemory;
    readonly buildRows: number;
    readonly probeRows: number;
    /** Mean bytes of a spilled row of each side. */
    readonly packedBytes: { readonly build: number; readonly probe: number };
    readonly filter: FilterDraft;
    /** Speed of the link towards the GPU. */
    readonly linkBytesPerMs: number;
    /** Shared memory of a block of the GPU. */
    readonly blockBytes: number;
}

export function ringBytes(memory: JoinMemory, sizes: OutOfCoreSizes): Rings {
    const { chunkBytes, resultBytes } = memory.of(sizes);
    const result = memory.shape.result === "rows" ? packedBlockBytes(resultBytes) : 0;
    return ringsOf(sizes, hostChunkBytes(sizes, Math.max(chunkBytes.build, chunkBytes.probe)), result);
}

function radixBitsOf({ memory, buildRows, limitBytes, blockBytes, debug }: SizeRequest): RadixBits {
    const bytes = buildRows * memory.rowBytes.build;
    const wanted = bitsOfPartitions(bytes, sortedPartitionBytes(blockBytes), limitBytes);
    return radixBitsFor(wanted, limitBytes, debug.radixBits);
}

function withChunks(
    { memory, hostBytes }: Pick<SizeRequest, "memory" | "hostBytes">,
    sizes: OutOfCoreSizes,
    chunkRows: number
): OutOfCoreSizes {
    const made = { ...sizes, chunkRows, resultRows: chunkRows };
    return { ...made, ...hostChunksOf(made, memory.widestRowBytes, hostBytes) };
}

/** The rest of the limit, or what all partitions need when their last pages are almost empty. */
function choosePages(request: SizeRequest, sizes: OutOfCoreSizes): number {
    const { memory, buildRows, limitBytes } = request;
    const least = leastPages(sizes);
    const most = Math.max(least, pagesOfAll(pagedRows(buildRows, request), sizes));
    return mostPages(least, most, limitBytes, (pages) => memory.of({ ...sizes, pages }).deviceBytes);
}

/**
 * Time of a join that depends on the size of its chunks: spilled rows on their way back, the start of their copies
 * and kernels, of chunks and of theirs, and the first and last chunk, beside which nothing runs.
 */
function chunksMs(request: SizeRequest, sizes: OutOfCoreSizes): number {
    const { memory, buildRows, probeRows, linkBytesPerMs } = request;
    const spilled = spilledBytes(request, sizes);
    const rows = { build: buildRows, probe: probeRows };
    const reads = probeReads(buildRows, sizes, memory);
    const chunks = chunksOf(rows, sizes);
    const bytes = spilled.build + spilled.probe * reads + 2 * sizes.chunkRows * memory.widestRowBytes;
    const residentShare = residentShareOf(sizes);
    const chunkMs = (side: "build" | "probe"): number => chunks[side] * chunkStartMs(side, residentShare);
    return bytes / linkBytesPerMs + backStartMs({ rows, reads }, sizes) + chunkMs("build") + chunkMs("probe");
}

/**
 * The most that fit half of the limit, or less where that leaves room for more resident rows than it costs. Or more,
 * where that cuts partitions into fewer parts: the index has room for two chunks, and little memory for many rows makes
 * small chunks, large partitions and small copies of what each chunk spilled of them.
 */
function chooseChunkRows(request: SizeRequest, sizes: OutOfCoreSizes): number {
    const { memory, buildRows, probeRows, limitBytes, hostBytes, debug } = request;
    if (debug.chunkRows !== undefined) return debug.chunkRows;
    const { widestRowBytes } = memory;
    const takenWith = (rows: number): number => memory.of(withChunks(request, sizes, rows)).deviceBytes;
    const pinned = (rows: number): number => pinnedBytes(ringBytes(memory, withChunks(request, sizes, rows)));
    const timeWith = (rows: number): number => chunksMs(request, withPages(request, withChunks(request, sizes, rows)));
    const bytesOfMany = ((buildRows + probeRows) * widestRowBytes) / manyChunks;
    const most = powerOfTwoAtMost(clamp(bytesOfMany, chunkBytesMax, manyChunkBytesMax) / widestRowBytes);
    let rows = clamp(powerOfTwoAtMost((buildRows + probeRows) / chunksMin), chunkRowsSmall, most);
    const fits = (count: number, share: number): boolean =>
        takenWith(count) <= limitBytes * share && pinned(count) <= hostBytes * ringShare;
    while (rows > chunkRowsLeast && !fits(rows, 1 / 2)) rows /= 2;
    let best = rows;
    const cutsPartitions = probeReads(buildRows, withPages(request, withChunks(request, sizes, rows)), memory) > 1;
    for (let more = 2 * rows; cutsPartitions && more <= most && fits(more, chunkShareMax); more *= 2) {
        const ms = attempt(() => timeWith(more));
        if (ms instanceof NotOnDevice) break;
        if (ms < timeWith(best)) best = more;
    }
    for (let fewer = rows / 2; fewer >= chunkRowsGood; fewer /= 2) {
        if (timeWith(fewer) < timeWith(best)) best = fewer;
    }
    return best;
}

/** Sizes of chunks that have been chosen, with pages for the rest of the limit. */
function withPages(request: SizeRequest, sizes: OutOfCoreSizes): OutOfCoreSizes {
    const paged = { ...sizes, pages: choosePages(request, sizes) };
    return { ...paged, residentPartitions: chooseResident(request, paged) };
}

/** Packed rows of both sides that leave GPU memory if partitions are as large as expected. */
export function spilledBytes(
    { buildRows, probeRows, packedBytes, filter }: SizeRequest,
    sizes: OutOfCoreSizes
): { build: number; probe: number } {
    const share = 1 - residentShareOf(sizes);
    const passingRows = probeRows * (1 - filter.droppedShare);
    return { build: share * buildRows * packedBytes.build, probe: share * passingRows * packedBytes.probe };
}

/** Packed rows of both sides if all of them leave GPU memory and packing gains nothing. */
function spilledBytesMost(
    { memory, buildRows, probeRows }: Pick<SizeRequest, "memory" | "buildRows" | "probeRows">,
    sizes: OutOfCoreSizes
): number {
    const { build, probe } = memory.of(sizes).packedBytes;
    return spilledMost(buildRows, sizes.chunkRows, build) + spilledMost(probeRows, sizes.chunkRows, probe);
}

/** Host memory that a join of so many rows could use. */
export function mostHostBytes(
    asked: Pick<SizeRequest, "memory" | "buildRows" | "probeRows" | "limitBytes" | "blockBytes" | "debug">
): number {
    const request = {
        ...asked,
        packedBytes: { build: 0, probe: 0 },
        hostBytes: Infinity,
        sparing: false,
        filter: noFilter,
        linkBytesPerMs: Infinity
    };
    const sizes = sizesOf(request);
    return pinnedBytes(ringBytes(asked.memory, sizes)) + spillBytesMax(spilledBytesMost(asked, sizes));
}

function chooseSpillSizes(request: SizeRequest, sizes: OutOfCoreSizes): ReturnType<typeof chooseSpill> {
    const { memory, hostBytes, peerBytes, sparing, debug } = request;
    const { build, probe } = spilledBytes(request, sizes);
    return chooseSpill({
        freeBytes: Math.floor(hostBytes - pinnedBytes(ringBytes(memory, sizes))),
        peerBytes,
        expectedBytes: build + probe,
        mostBytes: spilledBytesMost(request, sizes),
        sparing,
        hostSpillBytes: debug.hostSpillBytes
    });
}

/** All sizes but those of spilled rows. */
function sizesWith(request: SizeRequest, radixBits: number): OutOfCoreSizes {
    const sizes: OutOfCoreSizes = {
        radixBits,
        pageRows: pageRowsFor(request.limitBytes, request.memory.rowBytes.build),
        ...{ chunkSlots, resultSlots, chunkRows: 0, resultRows: 0, pages: 0, residentPartitions: 0 },
        ...{ hostChunkRows: 0, hostChunkSlots: 0 },
        ...{ spillBlockBytes: 0, peerBytes: 0, spillBytes: 0, diskBlockBytes: 0, diskBlocks: 0 },
        filterWords: request.filter.words
    };
    return withPages(request, withChunks(request, sizes, chooseChunkRows(request, sizes)));
}

/** As few partitions as may be, or more where the index has no room for one of them and that costs less. */
function sizesOf(request: SizeRequest): OutOfCoreSizes {
    const bits = radixBitsOf(request);
    let best = withBitsThatFit(bits, (radixBits) => sizesWith(request, radixBits));
    for (let more = best.radixBits + 1; more <= bits.most; ++more) {
        if (probeReads(request.buildRows, best, request.memory) === 1) break;
        const next = attempt(() => sizesWith(request, more));
        if (next instanceof NotOnDevice) break;
        if (chunksMs(request, next) < chunksMs(request, best)) best = next;
    }
    return best;
}

/** Sizes of a join out of core; throws NotOnDevice where GPU or host memory is too little. */
export function chooseSizes(request: SizeRequest): OutOfCoreSizes {
    const sizes = sizesOf(request);
    return { ...sizes, ...chooseSpillSizes(request, sizes) };
}
