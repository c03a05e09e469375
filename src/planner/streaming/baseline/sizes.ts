// SPDX-License-Identifier: Apache-2.0
import { clamp, formatBytes, powerOfTwoAtMost } from "../../../model/sizes.js";
import type { BaselineJoinAlgorithm } from "../../../model/algorithms.js";
import type { Interleave } from "../../../model/experiment.js";
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
    ringShare
} from "../sizes.js";

/** Chunks in GPU memory of joins that stream past a table: one is copied while the other is joined. */
const streamedChunks = 2;
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
    interleave: Interleave | null
): BaselineJoinMemory {
    return model.baselineJoinMemory({ ...shape, sizes }, { algorithm, buildRows, interleave });
}

/** Sizes of joins that have no partitions and no pages, and spill nothing. */
function streamedSizes(chunkRows: number): OutOfCoreSizes {
    return {
        ...{ radixBits: 0, chunkRows, resultRows: chunkRows, chunkSlots: streamedChunks, resultSlots },
        ...{ pageRows: 1, pages: 1, residentPartitions: 0, spillBlockBytes: 1, spillBytes: 0 },
        ...{ peerBytes: 0, diskBlockBytes: 0, diskBlocks: 0, filterWords: 0 }
    };
}

/** As large as copies want them, and no larger than half of what the limit leaves beside the rest. */
function chunkRowsOf(request: SizeRequest, beside: (sizes: OutOfCoreSizes) => number): number {
    const { memory, buildRows, probeRows, limitBytes, hostBytes, debug } = request;
    if (debug.chunkRows !== undefined) return debug.chunkRows;
    const most = powerOfTwoAtMost(chunkBytesMax / memory.widestRowBytes);
    let rows = clamp(powerOfTwoAtMost((buildRows + probeRows) / chunksMin), chunkRowsSmall, most);
    const fits = (sizes: OutOfCoreSizes): boolean =>
        beside(sizes) <= limitBytes / 2 && pinnedBytes(ringBytes(memory, sizes)) <= hostBytes * ringShare;
    while (rows > chunkRowsLeast && !fits(streamedSizes(rows))) rows /= 2;
    return rows;
}

/** All of the table in GPU memory. Throws NotOnDevice where it does not fit. */
function streamProbeSizes(request: SizeRequest): BaselineSizes {
    const algorithm = "stream-probe";
    const all = (sizes: OutOfCoreSizes): BaselineJoinMemory => memoryOf(request, algorithm, sizes, null);
    const beside = (sizes: OutOfCoreSizes): number => all(sizes).deviceBytes - all(sizes).tableBytes;
    const sizes = streamedSizes(chunkRowsOf(request, beside));
    const told = all(sizes);
    if (told.deviceBytes > request.limitBytes) throw NotOnDevice.below(told.deviceBytes);
    return { sizes, baseline: { algorithm, interleave: null }, told, farShare: 0 };
}

/** Stripes of the table: as they were asked for, or as many in GPU memory as fit. */
function stripesOf(request: SizeRequest, sizes: OutOfCoreSizes): Interleave {
    const { interleave } = request.debug;
    if (interleave !== undefined) return interleave;
    const none = memoryOf(request, "npj-far", sizes, { device: 0, far: 1 });
    const fitting = Math.floor((request.limitBytes - none.deviceBytes) / none.stripeBytes);
    const device = clamp(fitting, 0, none.stripes);
    return { device, far: none.stripes - device };
}

/** The table in GPU memory as far as it goes, and in host memory. Throws NotOnDevice where neither has room. */
function npjFarSizes(request: SizeRequest): BaselineSizes {
    const algorithm = "npj-far";
    const noneNear = { device: 0, far: 1 };
    const beside = (sizes: OutOfCoreSizes): number => memoryOf(request, algorithm, sizes, noneNear).deviceBytes;
    const sizes = streamedSizes(chunkRowsOf(request, beside));
    const interleave = stripesOf(request, sizes);
    const told = memoryOf(request, algorithm, sizes, interleave);
    if (told.deviceBytes > request.limitBytes) throw NotOnDevice.below(told.deviceBytes);
    const farStripes = told.stripes - told.deviceStripes;
    const farBytes = farStripes * told.stripeBytes;
    const freeBytes = Math.floor(request.hostBytes - pinnedBytes(ringBytes(request.memory, sizes)));
    if (farBytes > freeBytes)
        throw lacksHost("the part of the hash table that does not fit GPU memory", farBytes, freeBytes);
    return {
        sizes: { ...sizes, spillBytes: farBytes },
        baseline: { algorithm, interleave },
        told,
        farShare: farStripes / told.stripes
    };
}

function lacksHost(what: string, wantedBytes: number, freeBytes: number): NotOnDevice {
    const free = formatBytes(Math.max(0, freeBytes));
    return new NotOnDevice(
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

/** The sizes of joins by copy engines, with all rows in host memory. Throws NotOnDevice where they do not fit it. */
function cpuPartitionedSizes(request: SizeRequest): BaselineSizes {
    const algorithm = "cpu-partitioned";
    const { memory, buildRows, probeRows, hostBytes } = request;
    const staged = { ...chooseSizes(request), residentPartitions: 0, diskBlockBytes: 0, diskBlocks: 0 };
    const bytes = Math.ceil(partitionedBytes(memory, { build: buildRows, probe: probeRows }) * partitionedSlack);
    const freeBytes = Math.floor(hostBytes - pinnedBytes(ringBytes(memory, staged)));
    if (bytes > freeBytes) throw lacksHost("what the CPU partitions", bytes, freeBytes);
    const sizes = { ...staged, spillBytes: bytes };
    return {
        sizes,
        baseline: { algorithm, interleave: null },
        told: memoryOf(request, algorithm, sizes, null),
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
