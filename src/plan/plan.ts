// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, KeySpec, NullKeys } from "../model/column-type.js";
import type { HashingScheme } from "../model/debug-knobs.js";
import type { DeviceStage } from "./device-stages.js";
import type { GroupParts } from "./group-parts.js";
import type { AggregateKind } from "./logical.js";
import type { StageCommon } from "./stage.js";

export type { StageMemory } from "./stage.js";

/** Where the result goes. */
export type SinkKind = "count" | "batches" | "table" | "file";

export interface PlanInput {
    readonly name: string;
    /** Exact, or the best guess for a stream. */
    readonly rows: number;
    readonly exact: boolean;
    readonly bytes: number;
    readonly where: "files" | "memory" | "stream";
}

/** How rows are partitioned; mirrors PartitionSpec in native/model/stage_spec.hpp. */
export interface PartitionDescription {
    readonly columns: readonly ColumnType[];
    readonly keys: readonly KeySpec[];
    /** Columns carried; -1 = row number. */
    readonly carry: readonly number[];
    /** For each of them the bytes that a text takes in the row itself, 0 for a reference; left out: 0 for all. */
    readonly carryBytes?: readonly number[];
    readonly nullKeys: NullKeys;
    readonly radixBits: number;
    readonly pageBytes: number;
    /** Rows of one partition that are spilled (and read back) together, in bytes. */
    readonly spillRunBytes: number;
    /** Bytes of spilled rows that a worker gathers for one write. */
    readonly spillWriteBytes: number;
    readonly spill: boolean;
    readonly packSpilled: boolean;
    readonly forceSpill: boolean;
    readonly morselRows: number;
    readonly workers: number;
    /** Hexadecimal: JSON has no 64-bit integers. */
    readonly hashMask: string;
}

/** Rows partitioned into pages: made by one stage, used by a later one. */
export interface PartitionSet {
    readonly id: number;
    readonly role: "build" | "probe" | "groups";
    readonly spec: PartitionDescription;
    readonly estimatedRows: number;
    readonly rowBytes: number;
    /** Rows and byte strings. */
    readonly estimatedBytes: number;
    /** Most bytes of a batch that an earlier stage brings (its rows: a morsel); 0 when an input fills the set. */
    readonly batchBytes: number;
    /** Pages it must have at least, and would like to have, in memory. */
    readonly poolBytesMin: number;
    readonly poolBytesWanted: number;
    /** Pages it gets if the estimates are right; decided anew from true sizes when the pass begins. */
    readonly poolBytes: number;
}

export interface JoinOutput {
    readonly side: "build" | "probe" | "either";
    readonly buildField: number;
    readonly probeField: number;
}

/** Mirrors JoinSpec in native/model/stage_spec.hpp; what depends on true sizes is decided when the join begins. */
export interface JoinDescription {
    readonly emit: "pairs" | "buildOnce" | "probeOnce";
    readonly anti: boolean;
    readonly keepUnmatchedBuild: boolean;
    readonly keepUnmatchedProbe: boolean;
    readonly scheme: HashingScheme;
    readonly outputs: readonly JoinOutput[];
    readonly secondRadixBits: number;
    readonly tableBytes: number;
    readonly buildChunkBytes: number;
    readonly perfectRangeMax: number;
    readonly probeSplitRows: number;
    readonly workers: number;
    readonly hashMask: string;
}

/** Mirrors ArrayJoinSpec in native/model/stage_spec.hpp. */
export interface ArrayJoinDescription {
    readonly emit: "pairs" | "probeOnce";
    readonly anti: boolean;
    readonly keepUnmatchedProbe: boolean;
    /** Indices into the probe side's carried columns. */
    readonly outputs: readonly number[];
    /** Smallest key with a bit, as 64 bits in hexadecimal, and how many values from there on have one. */
    readonly firstKey: string;
    readonly keyValues: number;
    /** Workers that set bits, each in a bitmap of its own. */
    readonly buildWorkers: number;
    readonly workers: number;
}

/** Mirrors AggregateSpec and GroupBySpec. */
export interface AggregateDescription {
    readonly kind: AggregateKind;
    /** Index into the carried columns; -1 for countRows. */
    readonly field: number;
    readonly resultType: ColumnType;
    readonly decimalScale: number;
}

export interface GroupDescription {
    readonly keyFields: readonly number[];
    readonly aggregates: readonly AggregateDescription[];
    readonly rowNumberField: number;
    readonly tableBytes: number;
    readonly workers: number;
    readonly hashMask: string;
}

/** Rows of a stage that are wanted: it ends as soon as it has given them. */
export interface OutputLimit {
    readonly rows: number;
    /** Share of the rows that it would give without a limit, as far as estimates go. */
    readonly share: number;
}

/** Where a stage's rows go: the query's sink, or the partition set of a later stage; all of them, or some. */
export type StageOutput = ({ readonly to: "sink" } | { readonly to: "set"; readonly set: number }) & {
    readonly limit?: OutputLimit;
};

export interface PartitionStage extends StageCommon {
    readonly kind: "partition";
    readonly input: number;
    readonly set: number;
}

export interface JoinStage extends StageCommon {
    readonly kind: "join";
    readonly build: number;
    readonly probe: number;
    readonly spec: JoinDescription;
    readonly output: StageOutput;
}

export interface StreamingJoinStage extends StageCommon {
    readonly kind: "streamingJoin";
    readonly build: number;
    /** Input whose rows stream past the tables. */
    readonly probeInput: number;
    readonly probeSpec: PartitionDescription;
    readonly spec: JoinDescription;
    readonly output: StageOutput;
}

export interface ArrayJoinStage extends StageCommon {
    readonly kind: "arrayJoin";
    /** Input whose keys are set in the bitmap. */
    readonly buildInput: number;
    readonly buildSpec: PartitionDescription;
    /** Input whose rows are looked up in it. */
    readonly probeInput: number;
    readonly probeRows: number;
    readonly probeSpec: PartitionDescription;
    readonly spec: ArrayJoinDescription;
    readonly output: StageOutput;
}

/** A column of the rows of a pipeline: of its input (join -1), or carried by the build side of one of its joins. */
export interface PipelineColumn {
    readonly join: number;
    readonly column: number;
}

/** Mirrors PipelineJoin in native/model/stage_spec.hpp. */
export interface PipelineJoin {
    /** Partition set whose tables stay. */
    readonly build: number;
    readonly keyColumns: readonly PipelineColumn[];
    /** Types of these. */
    readonly columns: readonly ColumnType[];
    /** Their columns are places in `keyColumns`. */
    readonly keys: readonly KeySpec[];
    readonly nullKeys: "keep" | "equal";
    readonly spec: JoinDescription;
}

/** Mirrors PipelineSpec. */
export interface PipelineDescription {
    /** Of the input. */
    readonly columns: readonly ColumnType[];
    readonly joins: readonly PipelineJoin[];
    readonly outputs: readonly PipelineColumn[];
    readonly passes?: PipelinePasses;
    readonly morselRows: number;
    readonly workers: number;
}

/**
 * The build side of one join does not fit at once: the input is read several times, past the tables of the build rows
 * whose key is below the first bound, from there up to the next one, and so on.
 */
export interface PipelinePasses {
    readonly join: number;
    /** Where its build rows come from, before each pass. */
    readonly input: number;
    /** Ascending integers, as text. */
    readonly bounds: readonly string[];
    /** Share of the input of which each pass is expected to read more than the key. */
    readonly readShare: number;
}

/** Rows of an input stream through joins whose tables stay in memory, and are grouped as they come where `group` is. */
export interface PipelineStage extends StageCommon {
    readonly kind: "pipeline";
    readonly input: number;
    readonly builds: readonly number[];
    /** Rows that are expected behind each join. */
    readonly rowsOfJoins: readonly number[];
    readonly spec: PipelineDescription;
    /** Left out: rows come out as they are. */
    readonly group?: { readonly inputSpec: PartitionDescription; readonly spec: GroupDescription };
    readonly output: StageOutput;
}

export interface GroupStage extends StageCommon {
    readonly kind: "group";
    readonly set: number;
    readonly spec: GroupDescription;
    readonly output: StageOutput;
}

export interface HashGroupStage extends StageCommon {
    readonly kind: "hashGroup";
    readonly input: number;
    readonly inputSpec: PartitionDescription;
    readonly spec: GroupDescription;
    readonly output: StageOutput;
}

/** Stages of the CPU engine. */
export type CpuStage =
    PartitionStage | JoinStage | StreamingJoinStage | ArrayJoinStage | PipelineStage | GroupStage | HashGroupStage;
export type PlanStage = CpuStage | DeviceStage;

/** What a plan for the GPU needs of it. */
export interface PlanDeviceMemory {
    readonly limitBytes: number;
    /** Tables and working memory at their peak, if the estimates are right. */
    readonly estimatedBytes: number;
    readonly uploadedBytes: number;
    /** Bytes of result rows; 0 for a count. */
    readonly downloadedBytes: number;
    /** The estimate exceeds the limit, and is tried all the same: if memory runs out, the next plan is out of core. */
    readonly elseOutOfCore?: true;
}

export interface PlanMemory {
    /** What the query may use. */
    readonly budgetBytes: number;
    /** The smallest budget with which it can run; null where nobody asked. */
    readonly minimumBytes: number | null;
    /** What it would use at most if everything were to stay in memory. */
    readonly wantedBytes: number;
    /** Held through the whole query: dictionaries and headroom. */
    readonly fixedBytes: number;
}

/** A frozen, JSON-able description of everything a query will do. */
export interface Plan {
    /** Where the stages run. */
    readonly device: "cpu" | "gpu";
    /**
     * Why they do not run on a GPU, or not with all tables in its memory as a plan before tried to; null where they do,
     * and where nobody asked for one.
     */
    readonly deviceReason: string | null;
    readonly deviceMemory: PlanDeviceMemory | null;
    readonly inputs: readonly PlanInput[];
    readonly sets: readonly PartitionSet[];
    /** Group-bys that stages make in parts, whose groups other stages join; left out: there are none. */
    readonly groupParts?: readonly GroupParts[];
    readonly stages: readonly PlanStage[];
    readonly sink: SinkKind;
    readonly result: {
        readonly columns: readonly { readonly name: string; readonly type: string; readonly nullable: boolean }[];
        readonly rows: number;
        readonly rowBytes: number;
    };
    /** Types of the columns the sink receives; empty for a count. */
    readonly outputColumns: readonly ColumnType[];
    /** Most rows and bytes of a result batch; one row is a batch whatever its size. */
    readonly batchRows: number;
    readonly batchBytes: number;
    readonly queuedBatches: number;
    /** Batches of a stream are partitioned in groups of this size. */
    readonly streamGroupBytes: number;
    readonly threads: number;
    readonly memory: PlanMemory;
    readonly predictedMs: number;
    /** Most rows of the result: the last stage ends as soon as it has given them. Left out: all. */
    readonly limit?: number;
    /**
     * What is tried before the stages: the same query of the first rows of each input, whose rows are rows of the
     * result. The stages run where it gives fewer than `limit`. Left out: nothing is.
     */
    readonly first?: Plan;
}

/** Freezes a plan and everything in it. */
export function freezePlan<T>(value: T): T {
    if (typeof value === "object" && value !== null && !Object.isFrozen(value) && !ArrayBuffer.isView(value)) {
        Object.freeze(value);
        Object.values(value).forEach(freezePlan);
    }
    return value;
}
