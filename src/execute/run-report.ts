// SPDX-License-Identifier: Apache-2.0
import { sumOf } from "../model/sizes.js";
import type { OutOfCoreGroupPrediction, OutOfCoreGroupStage } from "../plan/out-of-core-group-stage.js";
import type { OutOfCoreTreePrediction, OutOfCoreTreeStage } from "../plan/out-of-core-tree-stage.js";
import type { OutOfCorePrediction, OutOfCoreStage } from "../plan/out-of-core-stage.js";
import type {
    AlgorithmChoice,
    DeviceGroupAlgorithm,
    DeviceJoinAlgorithm,
    OutOfCoreJoinAlgorithm,
    OutOfCorePathName
} from "../model/algorithms.js";

/** Time of an operation on the GPU by what it was spent on; what is missing to elapsedMs is mostly the host's. */
export interface DevicePhases {
    /** Keys made, rows partitioned or sorted. */
    transformMs: number;
    /** Partners found, groups aggregated; joins that write their rows as they match do that here too. */
    matchMs: number;
    /** Columns of the result gathered and completed. */
    materializeMs: number;
}

/** What a join out of core sent over the link and spilled, beside what was predicted. */
export interface OutOfCoreReport {
    /** Copy engines and packed rows, or kernels that read and wrote host memory themselves. */
    path: OutOfCorePathName;
    /** To the GPU: chunks of both sides, spilled rows that came back. */
    h2dBytes: number;
    /** What chunks would have taken beside, if their values had crossed the link as they are. */
    savedBytes: number;
    /** From it: spilled rows, result rows. */
    d2hBytes: number;
    /** What result rows would have taken beside, if their values had crossed the link as they are. */
    d2hSavedBytes: number;
    buildMs: number;
    probeMs: number;
    spilledMs: number;
    predicted: OutOfCorePrediction;
    spilledRows: { build: number; probe: number };
    /** Probe rows that the Bloom filter kept out, with those that have no key; 0 where there is no filter. */
    droppedRows: number;
    /** As packed; on the coherent path rows are not. */
    spilledBytes: { build: number; probe: number };
    /** The part in the memory of another GPU. */
    peerBytes: number;
    /** The part that host memory had no room for; more is read where partitions come back several times. */
    diskWrittenBytes: number;
    diskReadBytes: number;
    partitions: number;
    /** Partitions of the build side that stayed in GPU memory. */
    residentPartitions: number;
}

/** The same of a group-by out of core. */
export interface OutOfCoreGroupReport {
    /** To the GPU: chunks, spilled rows that came back. */
    h2dBytes: number;
    /** What chunks would have taken beside, if their values had crossed the link as they are. */
    savedBytes: number;
    /** From it: spilled rows, groups. */
    d2hBytes: number;
    /** 0: groups cross the link as they are. */
    d2hSavedBytes: number;
    readMs: number;
    residentMs: number;
    spilledMs: number;
    predicted: OutOfCoreGroupPrediction;
    /** A key and accumulators each: what chunks became, of which so many were aggregated on their own. */
    partialRows: number;
    chunks: number;
    groupedChunks: number;
    /** Partial rows that were aggregated again to make room. */
    compactedRows: number;
    spilledRows: number;
    /** As packed. */
    spilledBytes: number;
    /** The part in the memory of another GPU. */
    peerBytes: number;
    /** The part that host memory had no room for; more is read where partitions come back several times. */
    diskWrittenBytes: number;
    diskReadBytes: number;
    partitions: number;
    /** That were in GPU memory after the last chunk. */
    residentPartitions: number;
}

/** What one operator of a tree did: a join, or a group-by. */
export type OutOfCoreOperatorReport =
    | ({ kind: "join" } & Omit<OutOfCoreReport, "predicted" | "path">)
    | ({ kind: "group" } & Omit<OutOfCoreGroupReport, "predicted">);

/** What several operators did whose rows flow from one to the next in GPU memory. */
export interface OutOfCoreTreeReport {
    /** To the GPU: chunks of inputs, spilled rows that came back. */
    h2dBytes: number;
    /** What chunks would have taken beside, if their values had crossed the link as they are. */
    savedBytes: number;
    /** From it: spilled rows, result rows. */
    d2hBytes: number;
    /** What result rows would have taken beside, if their values had crossed the link as they are. */
    d2hSavedBytes: number;
    predicted: OutOfCoreTreePrediction;
    /** The last one comes first. Their times overlap: each waits for those before it. */
    operators: OutOfCoreOperatorReport[];
}

/** What a stage on the GPU took: an operation there, or a copy to it or from it. */
export interface DeviceStageReport {
    /** Operations have one, as in the option of that name. */
    algorithm?: DeviceJoinAlgorithm | OutOfCoreJoinAlgorithm | DeviceGroupAlgorithm;
    chosenBy?: AlgorithmChoice;
    /**
     * The algorithm that it gave way to, such as "pgb-tr" where there were too many groups for an "hgb" of the planner,
     * or "hgb-global" for one that the user named.
     */
    ranAs?: DeviceJoinAlgorithm | DeviceGroupAlgorithm;
    /** Operations: from the call to the end of the last kernel. Copies: the stage, with reading or delivering. */
    elapsedMs: number;
    phases?: DevicePhases;
    /** Operations: read plus written in GPU memory, by arithmetic (docs/api.md). Copies: copied. */
    movedBytes?: number;
    /** Copies: bytes that crossed the link, fewer than movedBytes where values went in as many bits as they need. */
    sentBytes?: number;
    /** movedBytes by elapsedMs. */
    gigabytesPerSecond?: number;
    /** Most GPU memory in use until the operation's end. */
    peakBytes?: number;
    /** What joins of relations larger than GPU memory did; movedBytes is what the link carried then. */
    outOfCore?: OutOfCoreReport;
    /** What group-bys of relations larger than GPU memory did. */
    outOfCoreGroupBy?: OutOfCoreGroupReport;
    /** What joins of joins and group-bys of joins of such relations did. */
    outOfCoreTree?: OutOfCoreTreeReport;
}

/** What one stage of a query did. */
export interface StageReport {
    name: string;
    algorithm: string;
    predictedMs: number;
    actualMs: number;
    rowsIn: number;
    rowsOut: number;
    spilledBytes: number;
    /** Stages on the GPU have it. */
    device?: DeviceStageReport;
}

/** What a query did: the figures of its last run. */
export interface RunReport {
    elapsedMs: number;
    predictedMs: number;
    rowsIn: number;
    rowsOut: number;
    bytesIn: number;
    bytesOut: number;
    spilledBytes: number;
    /** Read back from spill files. */
    unspilledBytes: number;
    /** Budget that was granted, and the most that the engine held while the query ran. */
    budgetBytes: number;
    peakBytes: number;
    threads: number;
    /** Where the stages ran. */
    device: "cpu" | "gpu";
    /**
     * Why not on a GPU, or why out of core where a plan with all tables in its memory came first; null where they ran
     * there at once, and where nobody asked for it.
     */
    deviceReason: string | null;
    /** Input that was copied to GPU memory, and result rows that were copied back. */
    uploadedBytes: number;
    downloadedBytes: number;
    /** Pieces in which the rows of the last join left the GPU, as they did not fit its memory; 0 where they did. */
    devicePieces: number;
    /** The part of elapsedMs in stages that copied to GPU memory and from it. */
    transferMs: number;
    /** elapsedMs without them. */
    withoutTransferMs: number;
    /** Most GPU memory that was in use while the query computed there. */
    devicePeakBytes: number;
    stages: StageReport[];
}

/** What is measured of an operation; mirrors NativeDeviceReport without the number of its algorithm. */
interface Measured extends DevicePhases {
    elapsedMs: number;
    movedBytes: number;
    peakBytes: number;
}

function rate(bytes: number, ms: number): { movedBytes: number; gigabytesPerSecond: number } {
    return { movedBytes: bytes, gigabytesPerSecond: ms > 0 ? bytes / ms / 1e6 : 0 };
}

/** Report of a join or group-by; `ran`: the algorithm that ended it. */
export function operationReport(
    algorithm: DeviceJoinAlgorithm | DeviceGroupAlgorithm,
    chosenBy: AlgorithmChoice,
    ran: DeviceJoinAlgorithm | DeviceGroupAlgorithm | undefined,
    measured: Measured
): DeviceStageReport {
    const { elapsedMs, transformMs, matchMs, materializeMs, movedBytes, peakBytes } = measured;
    return {
        algorithm,
        chosenBy,
        ...(ran === undefined || ran === algorithm ? {} : { ranAs: ran }),
        elapsedMs,
        phases: { transformMs, matchMs, materializeMs },
        ...(movedBytes > 0 ? rate(movedBytes, elapsedMs) : {}),
        peakBytes
    };
}

/** Report of a copy to GPU memory or from it. */
export function copyReport(elapsedMs: number, bytes: number, sentBytes: number): DeviceStageReport {
    return { elapsedMs, ...rate(bytes, elapsedMs), sentBytes };
}

/** Report of a join out of core. */
export function outOfCoreReport(
    { predicted, path, joinAlgorithm, chosenBy }: OutOfCoreStage,
    measured: Omit<OutOfCoreReport, "predicted" | "path"> & { rows: number; peakBytes: number }
): DeviceStageReport {
    const { rows: _, peakBytes, ...outOfCore } = measured;
    const { h2dBytes, d2hBytes, buildMs, probeMs, spilledMs } = outOfCore;
    const elapsedMs = buildMs + probeMs + spilledMs;
    return {
        algorithm: joinAlgorithm,
        chosenBy,
        elapsedMs,
        ...rate(h2dBytes + d2hBytes, elapsedMs),
        peakBytes,
        outOfCore: { path: path.runs, ...outOfCore, predicted: { ...predicted } }
    };
}

/** Report of a group-by out of core. */
export function outOfCoreGroupReport(
    { predicted }: OutOfCoreGroupStage,
    measured: Omit<OutOfCoreGroupReport, "predicted"> & { rows: number; peakBytes: number }
): DeviceStageReport {
    const { rows: _, peakBytes, ...outOfCoreGroupBy } = measured;
    const { h2dBytes, d2hBytes, readMs, residentMs, spilledMs } = outOfCoreGroupBy;
    const elapsedMs = readMs + residentMs + spilledMs;
    return {
        elapsedMs,
        ...rate(h2dBytes + d2hBytes, elapsedMs),
        peakBytes,
        outOfCoreGroupBy: { ...outOfCoreGroupBy, predicted: { ...predicted } }
    };
}

type Operated = { rows: number; peakBytes: number } & (
    Omit<OutOfCoreReport, "predicted" | "path"> | Omit<OutOfCoreGroupReport, "predicted">
);

/** What all operators of a tree took. */
export interface OperatedTree {
    rows: number;
    operators: Operated[];
}

function spilledBytesOf({ spilledBytes }: Operated): number {
    return typeof spilledBytes === "number" ? spilledBytes : spilledBytes.build + spilledBytes.probe;
}

/** Bytes of inputs that went to the GPU: all but those that came back. */
export function uploadedBytes({ operators }: OperatedTree): number {
    return sumOf(operators.map((one) => one.h2dBytes + one.savedBytes - spilledBytesOf(one)));
}

/** Report of a tree of operators out of core. */
export function outOfCoreTreeReport(
    { predicted, operators }: OutOfCoreTreeStage,
    measured: OperatedTree,
    elapsedMs: number
): DeviceStageReport {
    const h2dBytes = sumOf(measured.operators.map((one) => one.h2dBytes));
    const savedBytes = sumOf(measured.operators.map((one) => one.savedBytes));
    const d2hBytes = sumOf(measured.operators.map((one) => one.d2hBytes));
    const d2hSavedBytes = sumOf(measured.operators.map((one) => one.d2hSavedBytes));
    const reports = measured.operators.map(({ rows: _, peakBytes: __, ...report }, at) => ({
        kind: operators[at]?.kind ?? "join",
        ...report
    }));
    return {
        elapsedMs,
        ...rate(h2dBytes + d2hBytes, elapsedMs),
        peakBytes: Math.max(...measured.operators.map(({ peakBytes }) => peakBytes)),
        outOfCoreTree: {
            ...{ h2dBytes, savedBytes, d2hBytes, d2hSavedBytes, predicted },
            operators: reports as OutOfCoreOperatorReport[]
        }
    };
}
