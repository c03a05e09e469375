// SPDX-License-Identifier: Apache-2.0
import type { MachineInfo } from "../machine/machine.js";
import type { BatchLayout, ColumnType, FileBatches, KeptMemory, KeySpec, SourceLayout } from "../model/column-type.js";
import type { FileBatchesSpec, FileEnds, OpenedFileBatches } from "../model/files.js";
import type { PartitionSizes } from "../plan/decisions.js";
import type { AggregateKind } from "../plan/logical.js";
import type { DeviceBinding } from "./device-binding.js";
import type { EngineHandle, JobHandle, PartitionsHandle, SinkHandle, SourceHandle } from "./handles.js";
import type { NativeGenerateSpec, NativeTableSpec } from "./generate-specs.js";

/**
 * The only door to native code: the types of what `spillway.node` exports. Decisions stay in TypeScript; every call
 * here runs one whole stage on its own job thread and never works per row, page or partition.
 * Sizes are JS numbers below 2^53 unless a bigint is named. Errors reject with an object that `toSpillwayError` in
 * src/errors.ts understands: `{ code: string, message: string, details: Record<string, string> }` on an Error.
 */

export type { NativeGenerateColumn, NativeGenerateSpec, NativeTableSpec } from "./generate-specs.js";

export type {
    DevicePiecesHandle,
    DeviceTableHandle,
    EngineHandle,
    JobHandle,
    PartitionsHandle,
    SinkHandle,
    SourceHandle
} from "./handles.js";

export type NativeColumnType = ColumnType;
export type NativeBatch = BatchLayout;
export type NativeSourceSpec = SourceLayout;
export type NativeKeySpec = KeySpec;
export type NativePartitionSizes = PartitionSizes;
export type NativeMachine = MachineInfo;
export type NativeAggregateKind = AggregateKind;

/** Mirrors PartitionSpec in native/model/stage_spec.hpp (same words, camelCase). */
export interface NativePartitionSpec {
    /** Types of the columns that will be partitioned; a source's columns or a previous stage's outputs. */
    columns: NativeColumnType[];
    keys: NativeKeySpec[];
    /** Columns carried; -1 = row number. */
    carry: number[];
    /** For each of them the bytes that a text takes in the row itself, 0 for a reference; left out: 0 for all. */
    carryBytes?: number[];
    nullKeys: "drop" | "keep" | "equal";
    radixBits: number;
    pageBytes: number;
    poolBytes: number;
    /** Rows of one partition that are written and read back together. */
    spillRunBytes: number;
    /** Packed rows that one system call writes, about. */
    spillWriteBytes: number;
    spill: boolean;
    packSpilled: boolean;
    forceSpill: boolean;
    morselRows: number;
    workers: number;
    hashMask: bigint;
}

export interface NativeJoinOutput {
    side: "build" | "probe" | "either";
    buildField: number;
    probeField: number;
}

/** Mirrors JoinSpec in native/model/stage_spec.hpp. */
export interface NativeJoinSpec {
    emit: "pairs" | "buildOnce" | "probeOnce";
    anti: boolean;
    keepUnmatchedBuild: boolean;
    keepUnmatchedProbe: boolean;
    scheme: "linearProbing" | "bucketChaining" | "perfect";
    outputs: NativeJoinOutput[];
    schedule: Int32Array;
    secondRadixBits: number;
    tableBytes: number;
    buildChunkBytes: number;
    perfectRangeMax: number;
    probeSplitRows: number;
    workers: number;
    hashMask: bigint;
}

/** Mirrors ArrayJoinSpec in native/model/stage_spec.hpp. */
export interface NativeArrayJoinSpec {
    emit: "pairs" | "probeOnce";
    anti: boolean;
    keepUnmatchedProbe: boolean;
    outputs: number[];
    firstKey: bigint;
    keyValues: number;
    buildWorkers: number;
    workers: number;
}

/** Mirrors PipelineColumn: of the source where `join` is -1, else of the rows that this join found. */
export interface NativePipelineColumn {
    join: number;
    column: number;
}

/** Mirrors PipelineSpec in native/model/stage_spec.hpp. */
export interface NativePipelineSpec {
    /** Of the source. */
    columns: NativeColumnType[];
    joins: {
        keyColumns: NativePipelineColumn[];
        /** Types of these. */
        columns: NativeColumnType[];
        /** Their columns are places in `keyColumns`. */
        keys: NativeKeySpec[];
        nullKeys: "keep" | "equal";
        /** Without outputs; rows of the build side never come out alone. */
        spec: NativeJoinSpec;
    }[];
    outputs: NativePipelineColumn[];
    /** The source is read once for each interval of a join's key that the ascending bounds leave. */
    passes?: { join: number; bounds: bigint[] };
    morselRows: number;
    workers: number;
}

/** Mirrors GroupBySpec. */
export interface NativeGroupBySpec {
    keyFields: number[];
    /** decimalScale: of a decimal column whose mean is taken, else 0. */
    aggregates: { kind: NativeAggregateKind; field: number; resultType: NativeColumnType; decimalScale: number }[];
    rowNumberField: number;
    schedule: Int32Array;
    tableBytes: number;
    workers: number;
    hashMask: bigint;
}

/** One result batch in IPC pre-order (dictionary columns as int32 indices; views as binary). */
export interface NativeOutputBatch {
    rows: number;
    /**
     * Of each node its length and nullCount, then of each of its buffers the index of the memory that it is in, its
     * first byte there, and its bytes; index -1: an absent one (no NULLs, or no elements).
     */
    layout: Float64Array;
    /** Mostly one for all buffers. */
    memory: ArrayBuffer[];
}

export interface NativeKeyStatistics {
    rows: number;
    nulls: number;
    /** Integer keys of at most 8 bytes; else null. */
    min: bigint | null;
    max: bigint | null;
    sampledRows: number;
    sampledDistinct: number;
    pieceDistinct: number;
    /** Mean share of the range that neighbouring rows of the sample span; 1 for keys without a range. */
    pieceRangeShare: number;
    /** Share of the sample taken by its most frequent key. */
    heaviestShare: number;
}

/** All counters are totals of the job so far. */
export interface NativeProgress {
    rowsIn: number;
    bytesIn: number;
    rowsOut: number;
    bytesOut: number;
    spilledBytes: number;
    unspilledBytes: number;
    partitionsDone: number;
}

/** What result batches take beside the budget, and what an engine leaves of its own. */
export interface NativeDelivered {
    /** Delivered to this JS thread and not collected yet, dropped or not; of all runtimes. */
    aliveBytes: number;
    /** Neither reserved nor kept for the next request. */
    unusedBytes: number;
}

export interface NativeRead extends NativeDelivered {
    /** Of aliveBytes those of this runtime's batches for readers, without those of tables. */
    readBytes: number;
    /** The budget. */
    limitBytes: number;
}

export interface NativeMemory {
    limitBytes: number;
    usedBytes: number;
    peakBytes: number;
    /** The part of usedBytes that open relations of files hold. */
    relationBytes: number;
}

/** One GPU as the CUDA plugin sees it. */
export interface NativeDevice {
    kind: "gpu";
    name: string;
    /** Number of the device in CUDA's order. */
    ordinal: number;
    pciBusId: string;
    memoryBytes: number;
    multiprocessors: number;
    /** Compute capability, "9.0". */
    computeCapability: string;
    l2Bytes: number;
    /** Kernels reach pageable host memory (Grace, POWER9, HMM). */
    pageableAccess: boolean;
    /** They do so through the page tables of the host: the GPU is coherent. */
    hostPageTables: boolean;
    /** Virtual memory management with host NUMA nodes, needed for interleaved ranges. */
    hostNumaMapping: boolean;
    /** Host NUMA node next to the device, or -1. */
    numaNode: number;
    copyEngines: number;
    /** Why the plugin has no code for it; null if it has. */
    reason: string | null;
}

export interface NativeFileBlock {
    offset: number;
    metadataBytes: number;
    bodyBytes: number;
}

/** What `fillPartitions` did for one set. */
export interface NativeFilled {
    sizes: NativePartitionSizes;
    /** Rows that were read, and the time for them. */
    rowsIn: number;
    elapsedMs: number;
}

/** What a join did that fills its own build sides, which are of few rows. */
export interface NativeJoined {
    /** Rows of the result. */
    rows: number;
    /** Of each build side that was filled by the call: rows that were read, those of the set, and the time for both. */
    builds: { rowsIn: number; rows: number; elapsedMs: number }[];
}

export interface NativeEngineSpec {
    memoryBytes: number;
    spillDirectory: string;
    threads: number;
}

export interface Binding extends DeviceBinding {
    /** Error code names in the order of the native enum; compared with src/errors.ts at load. */
    errorCodes(): string[];
    machine(): NativeMachine;
    /** Resolves when GPUs have been looked for, on a thread of its own; devices() then answers at once. */
    lookForDevices(engine: EngineHandle): Promise<void>;
    /** GPUs that the CUDA plugin finds; the first call may take some 100 ms. Empty: see gpuUnavailableReason. */
    devices(): NativeDevice[];
    /** Why devices() is empty: no plugin was built, no driver, ...; null when there are GPUs. */
    gpuUnavailableReason(): string | null;
    /** Cancels and joins every job of this thread; nothing can start afterwards. For the process event "exit". */
    shutdown(): void;

    createEngine(spec: NativeEngineSpec): EngineHandle;
    engineMemory(engine: EngineHandle): NativeMemory;
    /** Resolves when the memory and files of every handle closed so far are gone: they are freed in the background. */
    drainEngine(engine: EngineHandle): Promise<void>;
    /** Gives memory that no job uses back to the system, in the background. */
    trimEngine(engine: EngineHandle): Promise<void>;
    /** Gives cached blocks back to the system until so many bytes fit beside what the budget has in use and cached. */
    trimCache(engine: EngineHandle, besideBytes: number): void;
    /** Throws when jobs still run. */
    closeEngine(engine: EngineHandle): void;

    createJob(engine: EngineHandle): JobHandle;
    cancelJob(job: JobHandle): void;
    /** Do the stages of this job keep the process alive? They do until false is given: nobody waits for them then. */
    waitForJob(job: JobHandle, waitedFor: boolean): void;
    /**
     * Do stages run on the calling thread, and have they ended when their call returns? Not before true is given. For
     * those of few rows in memory, which take less time than another thread and a turn of the event loop. One that
     * would wait for room in a queue fails with `reason: "queueFull"`.
     */
    runStagesHere(job: JobHandle, here: boolean): void;
    jobProgress(job: JobHandle): NativeProgress;

    /** Opens files and checks batches in memory, which is kept until closeSource, also when it is transferred. */
    openSource(engine: EngineHandle, spec: NativeSourceSpec): Promise<SourceHandle>;
    /** What `openSource` can promise for the memory of ArrayBuffers, with this version of Node. */
    keptMemory(): KeptMemory;
    /** Throws INVALID_ARGUMENT when memory of the source was transferred or resized since it was opened. */
    checkMemory(source: SourceHandle): void;
    closeSource(source: SourceHandle): void;
    /**
     * A source whose rows come while a stage reads them, as sources of the same columns: `spec` has the columns and no
     * batches. Stages that read chunks for the GPU take it; each can be read once.
     */
    openStream(engine: EngineHandle, spec: NativeSourceSpec): SourceHandle;
    /** Resolves with true when a stage begins to read the stream, with false when it is stopped before. */
    streamWanted(job: JobHandle, stream: SourceHandle): Promise<boolean>;
    /** Resolves with true when the rows of `source` have been read, with false when they will not be. */
    feedStream(job: JobHandle, stream: SourceHandle, source: SourceHandle): Promise<boolean>;
    /** No more rows come. */
    endStream(stream: SourceHandle): void;
    /** No stage reads the stream any more. */
    stopStream(stream: SourceHandle): void;
    /** Finds all batches of files and checks their headers; see src/model/files.ts. */
    openFileBatches(engine: EngineHandle, spec: FileBatchesSpec): Promise<OpenedFileBatches>;
    /** Sources that are open read on. */
    closeFileBatches(batches: FileBatches): void;
    /** The footer of a file in file format, with zeros in place of its lists of batches. */
    readFooter(engine: EngineHandle, path: string): Promise<Uint8Array>;
    /** Size, first and last bytes of a regular file: fewer when it is shorter; each at most 1 GiB. */
    readEnds(engine: EngineHandle, path: string, headBytes: number, tailBytes: number): Promise<FileEnds>;
    /** Bytes [offset, offset + length) of a file for each range, one behind the other; at most 1 GiB in all. */
    readRanges(engine: EngineHandle, path: string, offsets: Float64Array, lengths: Float64Array): Promise<Uint8Array>;
    /** Unified dictionary of a node as a one-column batch of its values. path: column, then child indices. */
    sourceDictionary(job: JobHandle, source: SourceHandle, path: number[]): Promise<NativeOutputBatch>;
    keyStatistics(
        job: JobHandle,
        source: SourceHandle,
        keys: NativeKeySpec[],
        options: { sampleRows: number; exactRange: boolean; workers: number }
    ): Promise<NativeKeyStatistics>;
    /** Reads some values of each of these columns, which have 1, 2, 4, 8 or 16 bytes. */
    sampleValues(
        job: JobHandle,
        source: SourceHandle,
        columns: number[]
    ): Promise<{ bits: number; magnitude: number }[]>;
    /** Bytes of the longest value of each of these columns of text or bytes, or of dictionaries of such. */
    longestTexts(job: JobHandle, source: SourceHandle, columns: number[], workers: number): Promise<number[]>;
    /**
     * Estimated pairs of rows with equal keys, from samples of both sides. `pieces`: pieces of neighbouring rows of one
     * side with a piece of the other side that has an equal key.
     */
    keyPairs(
        job: JobHandle,
        left: SourceHandle,
        leftKeys: NativeKeySpec[],
        right: SourceHandle,
        rightKeys: NativeKeySpec[],
        sampleRows: number
    ): Promise<{ pairs: number; pieces: number }>;

    createPartitions(job: JobHandle, spec: NativePartitionSpec): PartitionsHandle;
    /** firstRow: row number of the source's row 0, for a relation that comes as several sources. */
    partitionSource(
        job: JobHandle,
        partitions: PartitionsHandle,
        source: SourceHandle,
        firstRow?: number
    ): Promise<void>;
    /** Ends the pass: flushes write-combining buffers, returns the true sizes. */
    finishPartitions(job: JobHandle, partitions: PartitionsHandle): Promise<NativePartitionSizes>;
    /** `partitionSource` and `finishPartitions` for several sets of few rows in one call, one after the other. */
    fillPartitions(job: JobHandle, sets: PartitionsHandle[], sources: SourceHandle[]): Promise<NativeFilled[]>;
    closePartitions(partitions: PartitionsHandle): void;

    /** Joins co-partitions; frees each as it goes. Resolves with the number of result rows. */
    joinPartitions(
        job: JobHandle,
        build: PartitionsHandle,
        probe: PartitionsHandle,
        spec: NativeJoinSpec,
        sink: SinkHandle
    ): Promise<number>;
    /**
     * No-partitioning join: tables of all build partitions stay in memory, probe rows stream past them. `probe` may be
     * made by openStream, of columns without dictionaries.
     */
    joinStreaming(
        job: JobHandle,
        build: PartitionsHandle,
        probe: SourceHandle,
        probeSpec: NativePartitionSpec,
        spec: NativeJoinSpec,
        sink: SinkHandle
    ): Promise<number>;

    /**
     * `partitionSource` into a new set, `finishPartitions` and `joinStreaming` in one call, for relations so small that
     * they take less time than the ways to a thread and back. `probe` is no stream.
     */
    partitionAndJoin(
        job: JobHandle,
        build: PartitionsHandle,
        buildSource: SourceHandle,
        probe: SourceHandle,
        probeSpec: NativePartitionSpec,
        spec: NativeJoinSpec,
        sink: SinkHandle
    ): Promise<NativeJoined>;

    /** Array join: a bit per value of the build side's dense key. Rejects with `details.reason = "notDense"` when the
     *  build keys are not what was planned; the sink then stays open for the stage that replaces this one. */
    joinArray(
        job: JobHandle,
        build: SourceHandle,
        buildSpec: NativePartitionSpec,
        probe: SourceHandle,
        probeSpec: NativePartitionSpec,
        spec: NativeArrayJoinSpec,
        sink: SinkHandle
    ): Promise<number>;

    /**
     * Joins behind each other: tables of all build sides stay in memory, and the rows of `source` stream past them in
     * one pass. `fills`: sources that the build sides are filled with first, as by `fillPartitions`; none where they
     * are filled. With passes, one source: of that join's build side, which is filled before each pass.
     */
    joinPipeline(
        job: JobHandle,
        builds: PartitionsHandle[],
        source: SourceHandle,
        spec: NativePipelineSpec,
        sink: SinkHandle,
        fills: SourceHandle[]
    ): Promise<NativeJoined>;
    /** The same, whose rows are grouped as they come; `partitionSpec` and errors as those of groupSource. */
    groupPipeline(
        job: JobHandle,
        builds: PartitionsHandle[],
        source: SourceHandle,
        spec: NativePipelineSpec,
        partitionSpec: NativePartitionSpec,
        groupSpec: NativeGroupBySpec,
        sink: SinkHandle,
        fills: SourceHandle[]
    ): Promise<NativeJoined>;

    /** Partitioned group-by: one table per partition. Resolves with the number of groups. */
    groupPartitions(
        job: JobHandle,
        partitions: PartitionsHandle,
        spec: NativeGroupBySpec,
        sink: SinkHandle
    ): Promise<number>;
    /** Hash group-by: a table per worker, merged at the end; fixed-width states only. Rejects with
     *  `details.reason = "tableFull"` (code BUDGET_TOO_SMALL) when the groups exceed tableBytes; the sink then stays
     *  open for the stage that replaces this one. */
    groupSource(
        job: JobHandle,
        source: SourceHandle,
        partitionSpec: NativePartitionSpec,
        spec: NativeGroupBySpec,
        sink: SinkHandle
    ): Promise<number>;

    createCountSink(job: JobHandle): SinkHandle;
    /** At most maxBatches wait for JS; producers block beyond that. */
    createQueueSink(
        job: JobHandle,
        columns: readonly NativeColumnType[],
        /** kept: every batch stays alive until the last has come (V8 hears of their bytes only then). */
        options: { batchRows: number; batchBytes: number; maxBatches: number; kept: boolean }
    ): SinkHandle;
    /** Next batch, or null when the stage has ended (call closeSink's owner stage promise for its error). */
    nextBatch(sink: SinkHandle): Promise<NativeOutputBatch | null>;
    deliveredMemory(engine: EngineHandle): NativeRead;
    /** Detaches the memory of a batch: it is given back at once. */
    releaseMemory(memory: readonly ArrayBuffer[]): void;
    createFileSink(
        job: JobHandle,
        columns: NativeColumnType[],
        options: { path: string; schemaMessage: Uint8Array; overwrite: boolean; batchRows: number; batchBytes: number }
    ): SinkHandle;
    /**
     * What does not wait in the queue by now goes to a nameless Arrow file of the spill directory, a sink of its own:
     * `columns` and `schemaMessage` as those of createFileSink. It has to stay open until the stage has ended.
     */
    divertQueue(queue: SinkHandle, columns: NativeColumnType[], schemaMessage: Uint8Array): SinkHandle;
    /** Writes the unified dictionary of a source node (see sourceDictionary) as dictionary batch `id`. */
    writeDictionary(job: JobHandle, sink: SinkHandle, source: SourceHandle, path: number[], id: number): Promise<void>;
    fileBlocks(sink: SinkHandle): { dictionaries: NativeFileBlock[]; records: NativeFileBlock[] };
    /** Resolves with the path by which the file can be opened; a nameless one only as long as its sink is open. */
    finishFileSink(job: JobHandle, sink: SinkHandle, footer: Uint8Array): Promise<string>;
    /** Rows become input of `partitions` (a following join or group-by) without a copy through JS. */
    createPartitionSink(job: JobHandle, partitions: PartitionsHandle, batchBytes: number): SinkHandle;
    /**
     * No more than so many rows go to the sink: the stage that gives them ends as soon as it has, well, and reports no
     * more than their number. `allOrNone`: the sink gets none of them before the last one is there, and of fewer none;
     * it then stays open for another stage, before which this is called again.
     */
    limitSink(sink: SinkHandle, rows: number, allOrNone: boolean): void;
    /** Drops what has not been delivered; a file that was not finished disappears. */
    closeSink(sink: SinkHandle): void;

    /** Generated rows go to `sink` (file or queue). Resolves with rows written. */
    generate(job: JobHandle, spec: NativeGenerateSpec, sink: SinkHandle): Promise<number>;
    /** A part of a table of a benchmark. A file gets its dictionaries first. Resolves with rows written. */
    generateTable(job: JobHandle, spec: NativeTableSpec, sink: SinkHandle): Promise<number>;
    /** The values of the dictionaries of a table, in the order of its columns. */
    generatedDictionaries(benchmark: NativeTableSpec["benchmark"], table: string): string[][];
}
