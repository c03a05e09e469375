// SPDX-License-Identifier: Apache-2.0
import type { Knobs } from "../../../model/debug-knobs.js";
import { deviceConstants } from "../../../model/device-constants.js";
import { clamp, powerOfTwoAtLeast, powerOfTwoAtMost } from "../../../model/sizes.js";
import type { OutOfCoreGroupSizes } from "../../../plan/out-of-core-group-stage.js";
import type { GroupMemory } from "../device-memory.js";
import { leastPages, mostPages, pageRowsFor, pagesOfAll } from "../pages.js";
import { radixBitsFor, withBitsThatFit, type RadixBits } from "../radix-bits.js";
import {
    chunkBytesMax,
    chunkRowsGood,
    chunkRowsLeast,
    chunkRowsSmall,
    chunkSlots,
    chunksMin,
    pagedRows,
    hostChunkBytes,
    hostChunksOf,
    pinnedBytes,
    resultSlots,
    ringShare,
    ringsOf,
    type Rings,
    type SizeLimits
} from "../sizes.js";
import { chooseSpill, spillBytesMax, spilledMost } from "../spill.js";

// None of these sizes, which are of group-bys alone, is measured yet.

/** What chunks take of the limit is no larger share, while they are large enough to be good. */
const chunksShare = 0.25;
/** And no larger share in any case: of what pages of few groups leave, and of a limit that more groups fill. */
const chunksShareFew = 0.75;
const chunksShareMany = 0.5;
/** Groups are few if their pages take no larger share of the limit. */
const fewGroupsShare = 1 / 16;
/** Chunks of another operator need no slots: those that spilled rows come back in are the least that a ring has. */
const chunkSlotsLeast = 2;
const pageRowsMin = 8;

/** A partition should be aggregated at once, with others. */
const partitionsPerMerge = 4;
/** Share of the limit for what is aggregated at once. */
const mergeShare = 1 / 4;
const mergeRowsMax = 2 ** 27;
/** All but pages takes no more, where that can be helped. */
const withoutPagesShare = 3 / 4;
/** Pages are aggregated again when they may hold half as many groups as rows. */
const rowsPerGroupMax = 2;

export interface GroupSizeRequest extends SizeLimits {
    readonly memory: GroupMemory;
    readonly rows: number;
    readonly groups: number;
    /** Mean bytes of a spilled row. */
    readonly packedBytes: number;
    /** All rows are another operator's. */
    readonly piped?: boolean;
    /** All rows are one group: a partial row of each chunk, which no estimate can be wrong about. */
    readonly isKeyless?: boolean;
}

export function groupRingBytes(memory: GroupMemory, sizes: OutOfCoreGroupSizes): Rings {
    const { chunkBytes, resultBytes } = memory.of(sizes);
    return ringsOf(sizes, hostChunkBytes(sizes, chunkBytes), resultBytes);
}

/** Bytes of a row as it comes, of so many rows that no column of theirs is rounded up. */
function chunkRowBytes(memory: GroupMemory): number {
    return memory.chunkBytes(2 ** 20) / 2 ** 20;
}

/** Partial rows that pages have to hold if none of them leaves. */
function heldRows({ rows, groups }: GroupSizeRequest): number {
    return Math.min(rows, rowsPerGroupMax * groups);
}

/** Bytes of partial rows that can be aggregated at once. */
function mergedBytes(limitBytes: number): number {
    return (limitBytes * mergeShare) / deviceConstants.mergedRowsPerRow;
}

function radixBitsOf(request: GroupSizeRequest): RadixBits {
    const { memory, limitBytes, debug } = request;
    const bytesMax = Math.max(1, mergedBytes(limitBytes) / partitionsPerMerge);
    const wanted = Math.ceil(Math.log2(Math.max(1, (heldRows(request) * memory.rowBytes) / bytesMax)));
    return radixBitsFor(wanted, limitBytes, debug.radixBits);
}

function choosePageRows({ memory, limitBytes }: GroupSizeRequest, chunkRows: number | undefined): number {
    const good = pageRowsFor(limitBytes, memory.rowBytes);
    // Small chunks are for tests, which have few rows.
    return chunkRows === undefined ? good : clamp(powerOfTwoAtMost(chunkRows), pageRowsMin, good);
}

function withChunks(
    { memory, hostBytes }: GroupSizeRequest,
    sizes: OutOfCoreGroupSizes,
    chunkRows: number
): OutOfCoreGroupSizes {
    const mergeRows = Math.max(sizes.mergeRows, chunkRows, sizes.pageRows);
    const made = { ...sizes, chunkRows, mergeRows, resultRows: chunkRows };
    return { ...made, ...hostChunksOf(made, chunkRowBytes(memory), hostBytes) };
}

function chooseChunkRows(request: GroupSizeRequest, sizes: OutOfCoreGroupSizes): number {
    const { memory, rows: inputRows, limitBytes, hostBytes, debug } = request;
    if (debug.chunkRows !== undefined) return debug.chunkRows;
    const taken = (rows: number): number => memory.of(withChunks(request, sizes, rows)).deviceBytes;
    const pinned = (rows: number): number => pinnedBytes(groupRingBytes(memory, withChunks(request, sizes, rows)));
    const widest = Math.max(memory.rowBytes, chunkRowBytes(memory));
    const most = powerOfTwoAtMost(chunkBytesMax / widest);
    let rows = clamp(powerOfTwoAtMost(inputRows / chunksMin), chunkRowsSmall, most);
    while (rows > chunkRowsGood && taken(rows) > limitBytes * chunksShare) rows /= 2;
    const isFew = heldRows(request) * memory.rowBytes <= limitBytes * fewGroupsShare;
    const share = isFew ? chunksShareFew : chunksShareMany;
    const fits = (): boolean => taken(rows) <= limitBytes * share && pinned(rows) <= hostBytes * ringShare;
    while (rows > chunkRowsLeast && !fits()) rows /= 2;
    return rows;
}

/** As many as a share of the memory takes: what is aggregated together frees more than its parts do. */
function chooseMergeRows(
    { memory, rows, limitBytes, isKeyless }: GroupSizeRequest,
    sizes: OutOfCoreGroupSizes
): number {
    const { chunkRows, pageRows } = sizes;
    const affordable = powerOfTwoAtMost(mergedBytes(limitBytes) / memory.rowBytes);
    const useful = isKeyless === true ? 1 : powerOfTwoAtLeast(rows);
    const least = Math.max(chunkRows, pageRows);
    const taken = (mergeRows: number): number =>
        memory.of({ ...sizes, mergeRows, pages: leastPages(sizes) }).deviceBytes;
    let mergeRows = Math.max(least, Math.min(affordable, useful, mergeRowsMax));
    while (mergeRows > least && taken(mergeRows) > limitBytes * withoutPagesShare) {
        mergeRows = Math.max(least, mergeRows / 2);
    }
    return mergeRows;
}

/** The rest of the limit, or what all rows need when the last pages of all partitions are almost empty. */
function choosePages(request: GroupSizeRequest, sizes: OutOfCoreGroupSizes): number {
    const { memory, rows, limitBytes, debug, isKeyless } = request;
    const least = leastPages(sizes);
    if (isKeyless === true) return least;
    const all = Math.max(least, pagesOfAll(pagedRows(rows, request), sizes));
    const most = Math.max(least, Math.ceil(all * (debug.residentShare ?? 1)));
    return mostPages(least, most, limitBytes, (pages) => memory.of({ ...sizes, pages }).deviceBytes);
}

/** Partial rows that leave GPU memory if partitions are as large as expected: those that find no page. */
export function spilledGroupRows(
    request: GroupSizeRequest,
    { pages, pageRows, radixBits }: OutOfCoreGroupSizes
): number {
    const held = heldRows(request);
    // Each partition wastes half a page.
    const room = Math.max(0, pages - 2 ** radixBits / 2) * pageRows;
    return held <= room ? 0 : request.rows * (1 - room / held);
}

/** Packed rows if all of them leave GPU memory and packing gains nothing. */
function spilledBytesMost(memory: GroupMemory, rows: number, sizes: OutOfCoreGroupSizes): number {
    return spilledMost(rows, sizes.chunkRows, memory.of(sizes).packedBytes);
}

/** Host memory that a group-by of so many rows could use. */
export function mostGroupHostBytes(memory: GroupMemory, rows: number, limitBytes: number, debug: Knobs): number {
    const rest = { packedBytes: 0, hostBytes: Infinity, sparing: false, debug };
    const sizes = sizesOf({ memory, rows, groups: rows, limitBytes, ...rest });
    return pinnedBytes(groupRingBytes(memory, sizes)) + spillBytesMax(spilledBytesMost(memory, rows, sizes));
}

function chooseSpillSizes(request: GroupSizeRequest, sizes: OutOfCoreGroupSizes): ReturnType<typeof chooseSpill> {
    const { memory, rows, hostBytes, peerBytes, sparing, packedBytes, debug } = request;
    return chooseSpill({
        freeBytes: Math.floor(hostBytes - pinnedBytes(groupRingBytes(memory, sizes))),
        peerBytes,
        expectedBytes: spilledGroupRows(request, sizes) * packedBytes,
        mostBytes: spilledBytesMost(memory, rows, sizes),
        sparing,
        hostSpillBytes: debug.hostSpillBytes
    });
}

/** All sizes but those of spilled rows. */
function sizesWith(request: GroupSizeRequest, radixBits: number): OutOfCoreGroupSizes {
    let sizes: OutOfCoreGroupSizes = {
        radixBits,
        pageRows: choosePageRows(request, request.debug.chunkRows),
        chunkSlots: request.piped === true ? chunkSlotsLeast : chunkSlots,
        ...{ resultSlots, chunkRows: 0, resultRows: 0, pages: 0, mergeRows: 0 },
        ...{ hostChunkRows: 0, hostChunkSlots: 0 },
        ...{ spillBlockBytes: 0, peerBytes: 0, spillBytes: 0, diskBlockBytes: 0, diskBlocks: 0 },
        preAggregation: "auto"
    };
    sizes = withChunks(request, sizes, chooseChunkRows(request, sizes));
    sizes = { ...sizes, mergeRows: chooseMergeRows(request, sizes) };
    return { ...sizes, pages: choosePages(request, sizes) };
}

function sizesOf(request: GroupSizeRequest): OutOfCoreGroupSizes {
    return withBitsThatFit(radixBitsOf(request), (radixBits) => sizesWith(request, radixBits));
}

/** Sizes of a group-by out of core; throws NotOnDevice where GPU or host memory is too little. */
export function chooseGroupSizes(request: GroupSizeRequest): OutOfCoreGroupSizes {
    const sizes = sizesOf(request);
    return { ...sizes, ...chooseSpillSizes(request, sizes) };
}
