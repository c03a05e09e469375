// SPDX-License-Identifier: Apache-2.0
import type { BaselineJoinAlgorithm } from "../model/algorithms.js";
import type { FarPartitioner, Interleave, StreamProbe } from "../model/experiment.js";
import type { OutOfCoreGroup } from "./out-of-core-group-stage.js";
import type { OutOfCoreJoin } from "./out-of-core-stage.js";

interface BytesOfSides {
    readonly build: number;
    readonly probe: number;
}

/** What a join by copy engines takes. */
export interface StagedJoinMemory {
    /** Bytes of a row on the GPU, with its key. */
    readonly rowBytes: BytesOfSides;
    /** Bytes of a chunk as it comes, also by a pipe from another operator, which takes as much of its own. */
    readonly chunkBytes: BytesOfSides;
    /** Bytes of a chunk whose rows all leave, packed, if packing gains nothing. */
    readonly packedBytes: BytesOfSides;
    /** Bytes of a buffer of result rows. */
    readonly resultBytes: number;
    /** Bytes of a row of the result as it leaves the GPU. */
    readonly resultRowBytes: number;
    /** Build rows of a partition that can be indexed at once. */
    readonly indexRows: number;
    /** Probe rows that can be marked as ones with a partner; 0 where the join marks none. */
    readonly markedRows: number;
    /** Bytes of GPU memory in all. */
    readonly deviceBytes: number;
}

/** What a group-by beyond GPU memory takes. */
export interface StagedGroupByMemory {
    /** Bytes of a partial row: a key and accumulators. */
    readonly rowBytes: number;
    /** Bytes of a chunk as it comes, also by a pipe from another operator, which takes as much of its own. */
    readonly chunkBytes: number;
    /** Bytes of a chunk whose rows all leave, packed, if packing gains nothing. */
    readonly packedBytes: number;
    /** Bytes of a buffer of groups. */
    readonly resultBytes: number;
    /** Bytes of GPU memory in all. */
    readonly deviceBytes: number;
}

/** What a join by kernels has to do, and the GPU that does it. */
export interface CoherentJoinOptions {
    readonly buildRows: number;
    readonly probeRows: number;
    /** The larger side comes in so many: 1 at least. */
    readonly chunks: number;
    /** "auto": the best one that the GPU has. */
    readonly partitioner: FarPartitioner | "auto";
    /** 0: one on each multiprocessor. */
    readonly partitionBlocks: number;
    /** Radix bits of the second pass, where there is one; null: as many as partitions need to fit shared memory. */
    readonly secondRadixBits: number | null;
    /** GPU memory that the join may take in all. */
    readonly limitBytes: number;
    /** The GPU's compute capability begins with it. */
    readonly computeMajor: number;
    readonly multiprocessors: number;
    /** Shared memory of a block. */
    readonly blockBytes: number;
}

/** What a join by kernels takes. */
export interface CoherentJoinMemory {
    /** Bytes of a row of either side: a key, and one value of its width. */
    readonly rowBytes: number;
    readonly pageBytes: number;
    /** Pages of both sides in all, however keys are spread; 0 where neither side has rows. */
    readonly pages: number;
    /** Radix bits of the second pass; 0 where rows of the result are joined by an index. */
    readonly splitBits: number;
    /** GPU memory beside pages, with what is left free for rounding. */
    readonly takenBytes: number;
}

/** What a join that others are compared with has to do. */
export interface BaselineJoinOptions {
    readonly algorithm: BaselineJoinAlgorithm;
    readonly buildRows: number;
    /** Stripes of a table by the memory they lie in; null where the join has none. */
    readonly interleave: Interleave | null;
    /** What becomes of a build side in GPU memory; null where the join has none as a whole. */
    readonly streamProbe: StreamProbe | null;
}

/** What such a join takes. */
export interface BaselineJoinMemory {
    /** Bytes of a hash table, wherever it lies, or of the build side as it is kept otherwise; 0: there is none. */
    readonly tableBytes: number;
    readonly stripeBytes: number;
    readonly stripes: number;
    readonly deviceStripes: number;
    /** Bytes of GPU memory in all. */
    readonly deviceBytes: number;
}

/** A join without the way that its rows take. */
export type SizedJoin = Omit<OutOfCoreJoin, "coherent" | "baseline">;

/**
 * What operators beyond GPU memory take of it. The native engine knows, and needs no GPU to tell. Calls are synchronous
 * and take some microseconds. Sizes that are not chosen yet may be 0, but for slots. Each throws where an argument is
 * none that the operator could have.
 */
export interface DeviceMemoryModel {
    stagedJoinMemory(join: SizedJoin): StagedJoinMemory;
    stagedGroupByMemory(group: OutOfCoreGroup): StagedGroupByMemory;
    coherentJoinMemory(join: SizedJoin, options: CoherentJoinOptions): CoherentJoinMemory;
    baselineJoinMemory(join: SizedJoin, options: BaselineJoinOptions): BaselineJoinMemory;
}
