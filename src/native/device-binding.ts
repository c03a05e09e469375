// SPDX-License-Identifier: Apache-2.0
import type { ColumnType } from "../model/column-type.js";
import type { DeviceGroupDescription, DeviceJoinDescription } from "../plan/device-stages.js";
import type { DeviceMemoryModel } from "../plan/device-memory-model.js";
import type { OutOfCoreGroup, OutOfCoreGroupLayout } from "../plan/out-of-core-group-stage.js";
import type { OutOfCoreJoin, OutOfCoreLayout } from "../plan/out-of-core-stage.js";
import type { OutOfCoreFlow, OutOfCoreTreeStage } from "../plan/out-of-core-tree-stage.js";
import type {
    DevicePiecesHandle,
    DeviceTableHandle,
    EngineHandle,
    JobHandle,
    SinkHandle,
    SourceHandle
} from "./handles.js";

export interface NativeDeviceMemory {
    limitBytes: number;
    usedBytes: number;
    /** The most that usedBytes was since the GPU was opened, or since resetDevicePeak(). */
    peakBytes: number;
    freeBytes: number;
}

/** Another GPU's memory, 0: there is none, and how fast copies were when it was opened, 0: not measured. */
export interface NativePeer {
    peerBytes: number;
    peerReadBytesPerMs: number;
    peerWriteBytesPerMs: number;
}

export interface NativeDeviceTable {
    table: DeviceTableHandle;
    rows: number;
    bytes: number;
}

/** sentBytes: over the link. */
export interface NativeUploadedTable extends NativeDeviceTable {
    sentBytes: number;
}

/** Rows of a table that went to a sink. */
export interface NativeDeliveredRows {
    rows: number;
    /** Over the link. */
    sentBytes: number;
}

/** What an operation took; mirrors TableReport in cuda/api/table_spec.hpp. */
export interface NativeDeviceReport {
    elapsedMs: number;
    transformMs: number;
    matchMs: number;
    materializeMs: number;
    /** 0: not known. */
    movedBytes: number;
    peakBytes: number;
    /** The algorithm that ran: its place in deviceJoinAlgorithms or deviceGroupAlgorithms. */
    algorithm: number;
}

export interface NativeOperatedTable extends NativeDeviceTable {
    report: NativeDeviceReport;
}

export interface NativeUploadSpec {
    /** packed: values cross the link in as many bits as they need. */
    columns: { column: number; decode: boolean; packed: boolean }[];
    /** Pinned memory of all workers. */
    stagingBytes: number;
    workers: number;
}

export type NativeDeviceJoin = Omit<DeviceJoinDescription, "firstKey"> & { firstKey: bigint };

export interface NativeDeliverSpec {
    columns: { column: number; type: ColumnType }[];
    stagingBytes: number;
    workers: number;
    /** Values cross the link in as many bits as they need. */
    packed: boolean;
}

export interface NativePiecesSpec extends NativeDeliverSpec {
    /** Most rows of a piece; fewer where GPU memory does not suffice. */
    rowsMax: number;
}

export interface NativeOutOfCoreSpec extends Omit<OutOfCoreLayout, "join" | "gathered"> {
    join: OutOfCoreJoin;
    workers: number;
}

interface NativeSides {
    build: number;
    probe: number;
}

/** What a join out of core took; mirrors StreamReport in cuda/api/stream_spec.hpp. */
export interface NativeOutOfCoreReport {
    rows: number;
    h2dBytes: number;
    savedBytes: number;
    d2hBytes: number;
    d2hSavedBytes: number;
    spilledRows: NativeSides;
    /** As packed. */
    spilledBytes: NativeSides;
    /** Spilled bytes in the memory of another GPU. */
    peerBytes: number;
    diskWrittenBytes: number;
    diskReadBytes: number;
    partitions: number;
    residentPartitions: number;
    /** Probe rows that the filter kept out. */
    droppedRows: number;
    buildMs: number;
    probeMs: number;
    spilledMs: number;
    peakBytes: number;
}

export interface NativeOutOfCoreGroupSpec extends Omit<OutOfCoreGroupLayout, "group"> {
    group: OutOfCoreGroup;
    workers: number;
}

/** What a group-by out of core took; mirrors StreamReport in cuda/api/stream_spec.hpp. */
export interface NativeOutOfCoreGroupReport {
    rows: number;
    h2dBytes: number;
    savedBytes: number;
    d2hBytes: number;
    d2hSavedBytes: number;
    partialRows: number;
    chunks: number;
    groupedChunks: number;
    compactedRows: number;
    spilledRows: number;
    /** As packed. */
    spilledBytes: number;
    /** Spilled bytes in the memory of another GPU. */
    peerBytes: number;
    diskWrittenBytes: number;
    diskReadBytes: number;
    partitions: number;
    residentPartitions: number;
    readMs: number;
    residentMs: number;
    spilledMs: number;
    peakBytes: number;
}

export interface NativeOutOfCoreTreeSpec extends Pick<OutOfCoreTreeStage, "operators" | "result"> {
    flows: readonly (Omit<OutOfCoreFlow, "input"> & { source: number })[];
    workers: number;
}

/** What each operator of a tree took. */
export interface NativeOutOfCoreTreeReport {
    rows: number;
    operators: (NativeOutOfCoreReport | NativeOutOfCoreGroupReport)[];
}

/** The part of Binding that works on the GPU. A runtime opens one; it goes with the engine. */
export interface DeviceBinding extends DeviceMemoryModel {
    /** What src/model/device-constants.ts has to say. */
    deviceConstants(): Record<string, number>;
    deviceAlgorithms(): Record<"joins" | "groupBys" | "partitioners" | "baselineJoins" | "streamProbes", string[]>;

    /**
     * memoryBytes 0: all that is free. pinnedBytes: limit of pinned memory; keptPinnedBytes: of it, what stays between
     * queries outside of the budget. Rejects with NO_DEVICE when it cannot be used.
     */
    openDevice(
        engine: EngineHandle,
        spec: {
            ordinal: number;
            memoryBytes: number;
            pinnedBytes: number;
            keptPinnedBytes: number;
            /** Another GPU's memory for spilled rows; 0: none. The GPU -1: the first one that can be reached. */
            peerBytes: number;
            peerOrdinal: number;
        }
    ): Promise<NativeDeviceMemory & NativePeer>;
    deviceMemory(engine: EngineHandle): NativeDeviceMemory;
    resetDevicePeak(engine: EngineHandle): void;

    /** Columns of a source as a table in GPU memory, in the order of its rows. */
    uploadTable(job: JobHandle, source: SourceHandle, spec: NativeUploadSpec): Promise<NativeUploadedTable>;
    joinTables(
        job: JobHandle,
        build: DeviceTableHandle,
        probe: DeviceTableHandle,
        spec: NativeDeviceJoin
    ): Promise<NativeOperatedTable>;
    countTableJoin(
        job: JobHandle,
        build: DeviceTableHandle,
        probe: DeviceTableHandle,
        spec: NativeDeviceJoin
    ): Promise<{ rows: number; report: NativeDeviceReport }>;
    groupTable(job: JobHandle, table: DeviceTableHandle, spec: DeviceGroupDescription): Promise<NativeOperatedTable>;
    /** Resolves with the number of rows. */
    deliverTable(
        job: JobHandle,
        table: DeviceTableHandle,
        spec: NativeDeliverSpec,
        sink: SinkHandle
    ): Promise<NativeDeliveredRows>;
    /** Partitions both sides and counts the rows of their join, which may be more than GPU memory holds. */
    beginJoinPieces(
        job: JobHandle,
        build: DeviceTableHandle,
        probe: DeviceTableHandle,
        spec: NativeDeviceJoin
    ): Promise<{ pieces: DevicePiecesHandle; rows: number; report: NativeDeviceReport }>;
    /** Joins and delivers piece after piece; once per handle. */
    deliverPieces(
        job: JobHandle,
        join: DevicePiecesHandle,
        spec: NativePiecesSpec,
        sink: SinkHandle
    ): Promise<NativeDeliveredRows & { pieces: number; elapsedMs: number }>;
    /** Frees what the join holds of its tables too; a running stage keeps it until it ends. */
    closePieces(join: DevicePiecesHandle): void;
    /** Joins sources that are larger than GPU memory; `sink` for rows, left out for a count. */
    joinOutOfCore(
        job: JobHandle,
        build: SourceHandle,
        probe: SourceHandle,
        spec: NativeOutOfCoreSpec,
        sink?: SinkHandle
    ): Promise<NativeOutOfCoreReport>;
    /** Groups a source that is larger than GPU memory; `sink` for groups, left out for a count. */
    groupOutOfCore(
        job: JobHandle,
        source: SourceHandle,
        spec: NativeOutOfCoreGroupSpec,
        sink?: SinkHandle
    ): Promise<NativeOutOfCoreGroupReport>;
    /** Runs several operators behind each other on such sources; `sink` for rows, left out for a count. */
    runTreeOutOfCore(
        job: JobHandle,
        sources: readonly SourceHandle[],
        spec: NativeOutOfCoreTreeSpec,
        sink?: SinkHandle
    ): Promise<NativeOutOfCoreTreeReport>;
    /** A running stage, and a join in pieces, keep the table until they end. */
    closeTable(table: DeviceTableHandle): void;
}
