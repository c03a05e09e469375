// SPDX-License-Identifier: Apache-2.0
import { clamp, formatBytes, powerOfTwoAtMost } from "../../../model/sizes.js";
import type { BaselineJoinAlgorithm } from "../../../model/algorithms.js";
import type { Interleave, StreamProbe } from "../../../model/experiment.js";
import type { BaselineJoinMemory } from "../../../plan/device-memory-model.js";
import type { OutOfCoreBaseline, OutOfCoreSizes } from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import type { JoinMemory } from "../device-memory.js";
import { chooseSizes, ringBytes, type SizeRequest } from "../join/sizes.js";
import {
    chunkBytesMax,
    chunkRowsLeast,
    chunkRowsSmall,
    chunksMin,
    pinnedBytes,
    resultSlots,
    ringShare,
    wholeHostChunks
} from "../sizes.js";

/** Chunks in GPU memory of joins that stream past a table: one is copied while the other is joined. */
const streamedChunks = 2;
/** A build side that each chunk's join reads is so many chunks at most, by their bytes. */
const buildPartsOfChunk = 16;
/** Rows of a side that are merge-sorted at most. */
const sortedRowsMax = 2 ** 32;
/** Stripes of a table without GPU memory. */
const noneNear: Interleave = { device: 0, far: 1 };
/** Partitions in host memory lie in blocks, which are larger than their rows. */
const partitionedSlack = 1.03;

export interface BaselineSizes {
    readonly sizes: OutOfCoreSizes;
    readonly baseline: OutOfCoreBaseline;
    readonly told: BaselineJoinMemory;
    /** Share of the hash table that lies in host memory; 0 where there is no table. */
    readonly farShare: number;
}

function memoryOf(
    { memory: { model, shape }, buildRows }: SizeRequest,
    algorithm: BaselineJoinAlgorithm,
    sizes: OutOfCoreSizes,
    { interleave = null, streamProbe = null }: Partial<Pick<OutOfCoreBaseline, "interleave" | "streamProbe">> = {}
): BaselineJoinMemory {
    return model.baselineJoinMemory({ ...shape, sizes }, { algorithm, buildRows, interleave, streamProbe });
}

/** Sizes of joins that have no partitions and no pages, and spill nothing. */
function streamedSizes(chunkRows: number): OutOfCoreSizes {
    return {
        ...{ radixBits: 0, chunkRows, resultRows: chunkRows, chunkSlots: streamedChunks, resultSlots },
        ...wholeHostChunks({ chunkRows, chunkSlots: streamedChunks }),
        ...{ pageRows: 1, pages: 1, residentPartitions: 0, spillBlockBytes: 1, spillBytes: 0 },
        ...{ peerBytes: 0, diskBlockBytes: 0, diskBlocks: 0, filterWords: 0 }
    };
}

/** Bytes of GPU memory that sizes come to: in all, and beside the build side. */
type Taken = (sizes: OutOfCoreSizes) => { readonly all: number; readonly beside: number };

/** As large as copies want them, and no larger than half of the limit, or what it leaves beside the build side. */
function chunkRowsOf(request: SizeRequest, taken: Taken, bytesMax = chunkBytesMax): number {
    const { memory, buildRows, probeRows, limitBytes, hostBytes, debug } = request;
    if (debug.chunkRows !== undefined) return debug.chunkRows;
    const most = powerOfTwoAtMost(bytesMax / memory.widestRowBytes);
    let rows = clamp(powerOfTwoAtMost((buildRows + probeRows) / chunksMin), chunkRowsSmall, most);
    const fits = (sizes: OutOfCoreSizes): boolean => {
        const { all, beside } = taken(sizes);
        const pinned = pinnedBytes(ringBytes(memory, sizes));
        return all <= limitBytes && beside <= limitBytes / 2 && pinned <= hostBytes * ringShare;
    };
    while (rows > chunkRowsLeast && !fits(streamedSizes(rows))) rows /= 2;
    return rows;
}

/** Bytes of chunks whose join reads all of the build side: reading it twice takes less time than such a chunk. */
function mergedChunkBytes({ memory, buildRows }: SizeRequest, streamProbe: StreamProbe): number {
    const bytes = (buildRows * memory.rowBytes.build) / buildPartsOfChunk;
    return streamProbe === "table" ? chunkBytesMax : Math.max(chunkBytesMax, bytes);
}

/** All of the build side in GPU memory. Throws NotOnDevice where it does not fit. */
function streamProbeSizes(request: SizeRequest): BaselineSizes {
    const algorithm = "stream-probe";
    const { streamProbe = "sorted", overlap = true } = request.debug;
    const { buildRows, limitBytes } = request;
    if (streamProbe === "sorted" && buildRows > sortedRowsMax) {
        throw new NotOnDevice("it sorts row numbers of 32 bits, and the build side has more rows");
    }
    const toldOf = (sizes: OutOfCoreSizes): BaselineJoinMemory => memoryOf(request, algorithm, sizes, { streamProbe });
    const taken: Taken = (sizes) => {
        const { deviceBytes, tableBytes } = toldOf(sizes);
        return { all: deviceBytes, beside: deviceBytes - tableBytes };
    };
    const sizes = streamedSizes(chunkRowsOf(request, taken, mergedChunkBytes(request, streamProbe)));
    const told = toldOf(sizes);
    if (told.deviceBytes > limitBytes) throw NotOnDevice.below(told.deviceBytes);
    return { sizes, baseline: { algorithm, interleave: null, streamProbe, overlap }, told, farShare: 0 };
}

/** Stripes of the table: as they were asked for, or as many in GPU memory as fit. */
function stripesOf(request: SizeRequest, sizes: OutOfCoreSizes): Interleave {
    const { interleave } = request.debug;
    if (interleave !== undefined) return interleave;
    const none = memoryOf(request, "npj-far", sizes, { interleave: noneNear });
    const fitting = Math.floor((request.limitBytes - none.deviceBytes) / none.stripeBytes);
    const device = clamp(fitting, 0, none.stripes);
    return { device, far: none.stripes - device };
}

/** The table in GPU memory as far as it goes, and in host memory. Throws NotOnDevice where neither has room. */
function npjFarSizes(request: SizeRequest): BaselineSizes {
    const algorithm = "npj-far";
    const taken: Taken = (sizes) => {
        const { deviceBytes } = memoryOf(request, algorithm, sizes, { interleave: noneNear });
        return { all: deviceBytes, beside: deviceBytes };
    };
    const sizes = streamedSizes(chunkRowsOf(request, taken));
    const interleave = stripesOf(request, sizes);
    const told = memoryOf(request, algorithm, sizes, { interleave });
    if (told.deviceBytes > request.limitBytes) throw NotOnDevice.below(told.deviceBytes);
    const farStripes = told.stripes - told.deviceStripes;
    const farBytes = farStripes * told.stripeBytes;
    const freeBytes = Math.floor(request.hostBytes - pinnedBytes(ringBytes(request.memory, sizes)));
    if (farBytes > freeBytes)
        throw lacksHost("the part of the hash table that does not fit GPU memory", farBytes, freeBytes);
    return {
        sizes: { ...sizes, spillBytes: farBytes },
        baseline: { algorithm, interleave, streamProbe: null, overlap: true },
        told,
        farShare: farStripes / told.stripes
    };
}

function lacksHost(what: string, wantedBytes: number, freeBytes: number): NotOnDevice {
    const free = formatBytes(Math.max(0, freeBytes));
    return NotOnDevice.lacksHost(
        `${what} needs ${formatBytes(wantedBytes)} of host memory, ${free} are left of the budget; raise memory.host`
    );
}

/** Bytes of the rows of both sides as they are partitioned. */
export function partitionedBytes(
    { rowBytes }: JoinMemory,
    rows: { readonly build: number; readonly probe: number }
): number {
    return rows.build * rowBytes.build + rows.probe * rowBytes.probe;
}

/**
 * Partitions of the build side that find room in pages, of which each leaves half of one empty in the mean; or fewer,
 * where that was asked for.
 */
function keptPartitions({ buildRows, debug }: SizeRequest, { radixBits, pageRows, pages }: OutOfCoreSizes): number {
    const partitions = 2 ** radixBits;
    const fitting = Math.floor(partitions * Math.min(1, pages / (buildRows / pageRows + partitions / 2)));
    return Math.min(fitting, Math.round(partitions * (debug.residentShare ?? 1)));
}

/** The sizes of joins by copy engines, with all rows in host memory. Throws NotOnDevice where they do not fit it. */
function cpuPartitionedSizes(request: SizeRequest): BaselineSizes {
    const algorithm = "cpu-partitioned";
    const { memory, buildRows, probeRows, hostBytes } = request;
    const chosen = chooseSizes(request);
    const paged = { ...chosen, ...wholeHostChunks(chosen) };
    const residentPartitions = keptPartitions(request, paged);
    const staged = { ...paged, residentPartitions, diskBlockBytes: 0, diskBlocks: 0 };
    const bytes = Math.ceil(partitionedBytes(memory, { build: buildRows, probe: probeRows }) * partitionedSlack);
    const freeBytes = Math.floor(hostBytes - pinnedBytes(ringBytes(memory, staged)));
    if (bytes > freeBytes) throw lacksHost("what the CPU partitions", bytes, freeBytes);
    const sizes = { ...staged, spillBytes: bytes };
    return {
        sizes,
        baseline: { algorithm, interleave: null, streamProbe: null, overlap: request.debug.overlap ?? true },
        told: memoryOf(request, algorithm, sizes),
        farShare: 0
    };
}

const sizesOf: Readonly<Record<BaselineJoinAlgorithm, (request: SizeRequest) => BaselineSizes>> = {
    "stream-probe": streamProbeSizes,
    "npj-far": npjFarSizes,
    "cpu-partitioned": cpuPartitionedSizes
};

/** Sizes of a join that others are compared with; throws NotOnDevice where GPU or host memory is too little. */
export function chooseBaselineSizes(algorithm: BaselineJoinAlgorithm, request: SizeRequest): BaselineSizes {
    return sizesOf[algorithm](request);
}
