// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, KeySpec } from "../model/column-type.js";
import type {
    AlgorithmChoice,
    BaselineJoinAlgorithm,
    OutOfCoreJoinAlgorithm,
    OutOfCorePathName
} from "../model/algorithms.js";
import type { FarPartitioner, Interleave, StreamProbe } from "../model/experiment.js";
import type { HeldRows, StageCommon } from "./stage.js";

/** What the plan decides of a join out of core; mirrors StreamSizes in cuda/api/stream_spec.hpp. */
export interface OutOfCoreSizes {
    /** Bits of the first pass. */
    readonly radixBits: number;
    readonly chunkRows: number;
    /** Chunks in GPU memory at once. */
    readonly chunkSlots: number;
    /** Rows of a chunk on its way there, of which several become one, and how many of these pinned memory has. */
    readonly hostChunkRows: number;
    readonly hostChunkSlots: number;
    /** Rows of a page, which has rows of the build side alone where path is "staged": a power of two. */
    readonly pageRows: number;
    readonly pages: number;
    /** Partitions of the build side that begin in GPU memory. */
    readonly residentPartitions: number;
    /** Unit and limit of pinned host memory for spilled rows. */
    readonly spillBlockBytes: number;
    /** Limit of another GPU's memory for them, which is taken first. */
    readonly peerBytes: number;
    readonly spillBytes: number;
    /** Pinned host memory of rows on their way to disk and back; no blocks: nothing goes to disk. */
    readonly diskBlockBytes: number;
    readonly diskBlocks: number;
    /** Words, of 64 bits each, of a Bloom filter of the build side's keys: 0 or a power of two. */
    readonly filterWords: number;
    /** Result rows of a buffer. */
    readonly resultRows: number;
    readonly resultSlots: number;
}

/** A column that leaves the GPU: of a side's rows, the key, or a byte that says which of those are there. */
export interface OutOfCoreOutput {
    readonly side: "build" | "probe" | "key" | "presence";
    readonly column: number;
}

/**
 * Kernels read both sides from host memory and write their partitions to pages of GPU memory, of another GPU's and of
 * the host's; of the sizes, pages are those of both sides in all, and spilled rows those on pages of the latter two.
 */
export interface OutOfCoreCoherent {
    /** GPU memory in all: pages lie there as far as it goes. */
    readonly deviceBytes: number;
    readonly partitioner: FarPartitioner | "auto";
    /** Blocks of kernels that partition, and of those that gather while others join; 0: as many as are best. */
    readonly partitionBlocks: number;
    readonly gatherBlocks: number;
    /** null: as many pages in GPU memory as fit. */
    readonly interleave: Interleave | null;
    /** Pages are cut from one range of addresses, whose stripes of GPU and host memory take turns. */
    readonly mapped: boolean;
    /** Radix bits of the second pass; null: as many as partitions need to fit shared memory. */
    readonly secondRadixBits: number | null;
    /** Buckets of the tables that join its partitions; null: as many as fit shared memory. */
    readonly tableBuckets: number | null;
    /** Instead of tables, arrays that are indexed by what is left of keys; partitions are by their lowest bits. */
    readonly perfectHash: boolean;
}

/** A join that others are compared with: no rows that arrive on the GPU leave it again but as result rows. */
export interface OutOfCoreBaseline {
    readonly algorithm: BaselineJoinAlgorithm;
    /** Stripes of its hash table in GPU and in host memory, which take turns; null: none are spread. */
    readonly interleave: Interleave | null;
    /** What becomes of a build side in GPU memory; null: it is not kept there as a whole. */
    readonly streamProbe: StreamProbe | null;
    /** Copies of the rows of one side pass the link while others are worked on. */
    readonly overlap: boolean;
}

/** Mirrors StagedJoinSpec in cuda/api/stream_spec.hpp. */
export interface OutOfCoreJoin {
    readonly keyBytes: 4 | 8;
    /** The first columns of either side, 8 bytes each, that are compared beside the key: its further words. */
    readonly keyColumns: number;
    /** Bytes of the columns of each side beside its key. */
    readonly buildWidths: readonly number[];
    readonly probeWidths: readonly number[];
    readonly emit: "pairs" | "buildOnce" | "probeOnce";
    readonly anti: boolean;
    readonly keepUnmatchedBuild: boolean;
    readonly keepUnmatchedProbe: boolean;
    readonly result: "count" | "rows";
    readonly outputs: readonly OutOfCoreOutput[];
    readonly sizes: OutOfCoreSizes;
    /** null: copy engines bring chunks into GPU memory and packed rows out. */
    readonly coherent: OutOfCoreCoherent | null;
    readonly baseline: OutOfCoreBaseline | null;
}

/** What the join is whatever way its rows take: all but the sizes. */
export type OutOfCoreShape = Omit<OutOfCoreJoin, "sizes" | "coherent" | "baseline">;

/**
 * What the GPU compares: the keys' values side by side; the same and which of them are NULL, mixed; a hash of them, so
 * that pairs are compared again when they are delivered; or a number of 4 bytes that workers give to each different
 * key of the build side, and look up for rows of the probe side. Mirrors OutOfCoreKeys in native/executor/streaming.
 */
export type OutOfCoreKeys = "packed" | "encoded" | "hashed" | "numbered";

/** How an input becomes chunks. */
export interface OutOfCoreSide {
    readonly keys: readonly KeySpec[];
    /** validity: a byte per row instead of the value. column: of the source, rowNumberColumn or keyWordColumn. */
    readonly columns: readonly { readonly column: number; readonly validity: boolean }[];
}

/**
 * Where a result column's value is, if all bits of the mask are set in the presence byte: an output of the GPU, or a
 * column of a side's source, in the row whose number came with the row of the result.
 */
export interface OutOfCorePart {
    readonly from: "gpu" | "build" | "probe";
    readonly value: number;
    /** Byte of the output where it begins. */
    readonly offset: number;
    /** Output with a byte that is 0 for NULL; -1: never NULL. */
    readonly validity: number;
    readonly mask: number;
}

export interface OutOfCoreColumn {
    readonly type: ColumnType;
    /** The first one that is there counts. */
    readonly parts: readonly OutOfCorePart[];
}

/** A column that does not go to the GPU, and why. */
export interface OutOfCoreGathered {
    readonly side: "build" | "probe";
    readonly column: number;
    readonly name: string;
    readonly reason: string;
}

/** How a join's rows are laid out: all but the sizes. */
export interface OutOfCoreLayout {
    readonly keys: OutOfCoreKeys;
    readonly nullsEqual: boolean;
    readonly join: OutOfCoreShape;
    readonly build: OutOfCoreSide;
    readonly probe: OutOfCoreSide;
    readonly columns: readonly OutOfCoreColumn[];
    /** Output with the presence byte; -1: none. */
    readonly presence: number;
    /** Outputs with the row numbers of each side; -1: none. */
    readonly rowNumbers: { readonly build: number; readonly probe: number };
    readonly gathered: readonly OutOfCoreGathered[];
}

/** What each direction of the link will carry, and for how long. */
export interface OutOfCorePrediction {
    readonly h2dBytes: number;
    readonly d2hBytes: number;
    /** What both sides spill, packed where path is "staged"; it is part of both directions. */
    readonly spilledBytes: number;
    /** The part of these bytes in the memory of another GPU. */
    readonly peerBytes: number;
    /** The part of them that host memory has no room for. */
    readonly diskBytes: number;
    /** Probe rows that the filter keeps out. */
    readonly droppedRows: number;
    readonly buildMs: number;
    readonly probeMs: number;
    readonly spilledMs: number;
    /** Values that workers gather from host memory: part of the phases in which rows come out. */
    readonly gatherMs: number;
}

/** The way of rows between the GPU and host memory: copy engines, or kernels that read and write it themselves. */
export interface OutOfCorePath {
    readonly wanted: OutOfCorePathName;
    readonly runs: OutOfCorePathName;
    readonly reason: string;
}

/** What follows from the sizes and the GPU, which decides the same by itself. */
export interface OutOfCoreWork {
    /**
     * Who counts the rows of partitions before the first pass; "none": nobody, partitions are lists of pages, or there
     * are no partitions.
     */
    readonly histogram: "none" | "cpu" | "gpu";
    /** What is under way at the same time, a stream each. */
    readonly streams: readonly string[];
}

/** Pages that take turns, so many of GPU memory and then so many of far memory, about; and why. */
export interface OutOfCoreTurns extends Interleave {
    /** How many lie where: far ones in the memory of another GPU as far as it goes. */
    readonly pages: { readonly device: number; readonly peer: number; readonly host: number };
    /** As many of GPU memory as fit; fewer, so that the link and GPU memory take as long; or as they were asked for. */
    readonly reason: "capacity" | "bandwidth" | "asked";
}

/** The same of a join. */
export interface OutOfCoreJoinWork extends OutOfCoreWork {
    /** In GPU memory, of a partition of mean size; what becomes of its parts in shared memory. */
    readonly secondPassBits: number;
    readonly secondPass: "sort" | "hashTables" | "none";
    /**
     * Coherent path: how many have the first pass, how many fetch partitions while others join: they gather them or,
     * before hash tables, have the second pass. null: not known.
     */
    readonly multiprocessors: { readonly firstPass: number; readonly fetch: number; readonly join: number } | null;
    /** Coherent path: where pages lie. null: rows take another path. */
    readonly turns: OutOfCoreTurns | null;
}

/** Whether a Bloom filter of the build side's keys drops probe rows before they are spilled; sizes have its words. */
export interface OutOfCoreFilter {
    /** 0: there is none. */
    readonly bytes: number;
    /** Share of the probe rows; 0 where there is no filter. */
    readonly droppedShare: number;
    readonly reason: string;
}

/** A join of two inputs larger than GPU memory, from their sources to the sink. */
export interface OutOfCoreStage extends StageCommon {
    readonly kind: "deviceOutOfCoreJoin";
    /** Nothing: its tables are its own. */
    readonly frees: readonly number[];
    /** Left out: its rows are the result. */
    readonly holds?: HeldRows;
    /** Inputs whose values cross the link in as many bits as they need, and whether those of the result do. */
    readonly packed: readonly number[];
    readonly packsResults: boolean;
    readonly buildInput: number;
    readonly probeInput: number;
    readonly layout: OutOfCoreLayout;
    readonly sizes: OutOfCoreSizes;
    readonly coherent: OutOfCoreCoherent | null;
    readonly baseline: OutOfCoreBaseline | null;
    readonly deviceBytes: number;
    /** Host memory for columns that are gathered. */
    readonly heldBytes: number;
    readonly predicted: OutOfCorePrediction;
    readonly joinAlgorithm: OutOfCoreJoinAlgorithm;
    readonly chosenBy: AlgorithmChoice;
    readonly path: OutOfCorePath;
    readonly work: OutOfCoreJoinWork;
    readonly filter: OutOfCoreFilter;
}
