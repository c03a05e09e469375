// SPDX-License-Identifier: Apache-2.0
import { nsPerMs } from "../../../model/sizes.js";
import type { OutOfCoreLayout, OutOfCorePrediction } from "../../../plan/out-of-core-stage.js";
import { rowNumberColumn } from "../../../model/column-type.js";
import type { KeyStatistics } from "../../statistics.js";
import { inputRowBytes, packedKeyBytes } from "../chunk-rows.js";
import type { JoinMemory } from "../device-memory.js";
import {
    deliveryMs,
    deliveryWorkMs,
    fillMs,
    linkMs,
    numberingMs,
    readMs,
    rowKernelsMs,
    type Delivered,
    type Filling,
    type Movers
} from "../link.js";
import { packedRowNumberBytes } from "./gather.js";
import { chunkStartMs } from "./spilled-copies.js";

/** What a join has to move, whatever way it takes. */
export interface JoinLoad extends Movers {
    readonly layout: OutOfCoreLayout;
    readonly memory: JoinMemory;
    readonly rows: { readonly build: number; readonly probe: number; readonly result: number };
    readonly filling: { readonly build: Filling; readonly probe: Filling };
    /** Key columns that may be NULL send a bit per row. */
    readonly keyBits: { readonly build: boolean; readonly probe: boolean };
    /** Bytes of a row of the result, as Arrow has it. */
    readonly resultRowBytes: number;
    /** Bytes of columns that are gathered and have to be read first. */
    readonly heldBytes: number;
    /** What gathering takes a worker per row of the result. */
    readonly gatherNs: number;
    /** Different keys of the build side, where workers number them, and the rows that they look up. */
    readonly numbered: { readonly keys: number; readonly build: number; readonly probe: number };
    /** Host memory of those numbers; of a stream's rows it is a guess. */
    readonly numbers: { readonly bytes: number; readonly guessedBytes: number };
}

export type OutOfCorePhases = Pick<OutOfCorePrediction, "buildMs" | "probeMs" | "spilledMs">;

export interface LinkLoad extends JoinLoad {
    readonly spilled: { readonly build: number; readonly probe: number };
    /** The part of these bytes that goes to another GPU. */
    readonly onPeer: { readonly build: number; readonly probe: number };
    /** The part of them that goes to disk. */
    readonly onDisk: { readonly build: number; readonly probe: number };
    readonly chunks: { readonly build: number; readonly probe: number };
    /** How often spilled probe rows come back. */
    readonly probeReads: number;
    /** What spilled rows take on their way back beside their bytes. */
    readonly backStartMs: number;
    /** Probe rows that a filter keeps out. */
    readonly droppedRows: number;
    /** Share of the build side's partitions that stays in GPU memory. */
    readonly residentShare: number;
}

/** Bits of the partition, for estimates of rows that are packed before the bits are chosen. */
export const usualRadixBits = 8;

/**
 * Mean bytes of a packed row: of the key the bits in which its values differ (or all but those that the partition
 * tells, where that is less), of row numbers those in which they differ inside of a chunk, of the other columns all,
 * since no sample has seen them.
 */
export function packedRowBytes(
    { join, keys, build, probe }: Pick<OutOfCoreLayout, "join" | "keys" | "build" | "probe">,
    side: "build" | "probe",
    radixBits: number,
    { memory, statistics }: { readonly memory: JoinMemory; readonly statistics: KeyStatistics | undefined }
): number {
    const widths = side === "build" ? join.buildWidths : join.probeWidths;
    const { columns } = side === "build" ? build : probe;
    const number = widths[columns.findIndex(({ column }) => column === rowNumberColumn)] ?? 0;
    const others = memory.rowBytes[side] - join.keyBytes - number + packedRowNumberBytes(number);
    return others + packedKeyBytes(8 * join.keyBytes - radixBits, keys === "packed" ? statistics : undefined);
}

/** Time of all phases. */
export function phasesMs({ buildMs, probeMs, spilledMs }: OutOfCorePhases): number {
    return buildMs + probeMs + spilledMs;
}

/** Workers that fetch values make batches alone. */
function resultOf({ rows, resultRowBytes, layout }: JoinLoad, gatherMs: number): Delivered {
    const bytes = rows.result * resultRowBytes;
    return gatherMs > 0 ? { bytes, gatherMs } : { bytes, sharedColumns: layout.columns.length };
}

/** What phases of joins out of core are made of: bytes of inputs and results, and times of what carries them. */
export function phaseParts(load: JoinLoad) {
    const { layout, rows, numbered } = load;
    const { join } = layout;
    const inputOf = (side: "build" | "probe"): number => {
        const widths = side === "build" ? join.buildWidths : join.probeWidths;
        return rows[side] * inputRowBytes(join.keyBytes, widths, load.keyBits[side]) * load.filling[side].sentShare;
    };
    const resultBytes = rows.result * load.memory.resultRowBytes;
    const gatherMs = (rows.result * load.gatherNs) / nsPerMs / load.workers;
    const result = resultOf(load, gatherMs);
    return {
        inputs: { build: inputOf("build"), probe: inputOf("probe") },
        numbersMs: {
            build: numberingMs(load, numbered.build, numbered.keys),
            probe: numberingMs(load, numbered.probe, 0)
        },
        resultBytes,
        gatherMs,
        outMs: deliveryMs(load, result),
        outWorkMs: deliveryWorkMs(load, result)
    };
}

/**
 * What a row of a result takes to be counted and written, in nanoseconds, beside the link: the probes of a join of
 * 2^28 x 2^28 rows to a table at 4 GiB took 255 ms, where link and copies take 170 (H200).
 */
const resultRowNs = 0.25;

/** What kernels take for the rows of a side, and for those of the result, beside the link. */
function kernelsMs({ layout: { join }, rows, keyBits }: JoinLoad) {
    const of = (side: "build" | "probe"): number => {
        const widths = side === "build" ? join.buildWidths : join.probeWidths;
        return rowKernelsMs(rows[side] * inputRowBytes(join.keyBytes, widths, keyBits[side]));
    };
    const written = join.result === "rows" ? rows.result : 0;
    return { build: of("build"), probe: of("probe"), result: (written * resultRowNs) / nsPerMs };
}

/** Bytes per direction of the link, and how long its phases take. */
export function predictOutOfCore(load: LinkLoad): OutOfCorePrediction {
    const { spilled, onPeer, onDisk, residentShare, chunks, profile } = load;
    const { inputs, numbersMs, resultBytes, gatherMs, outMs: deliverMs, outWorkMs } = phaseParts(load);
    const { build, probe } = inputs;
    const kernels = kernelsMs(load);
    const spilledBytes = spilled.build + spilled.probe;
    const backBytes = spilled.build + spilled.probe * load.probeReads;
    const peerBackBytes = onPeer.build + onPeer.probe * load.probeReads;
    const outMs = (side: "build" | "probe", bytesIn: number, moreOut: number): number =>
        linkMs(load, bytesIn, spilled[side] - onPeer[side] + moreOut, { in: 0, out: onPeer[side] });
    const diskBytes = onDisk.build + onDisk.probe;
    const diskReadBytes = onDisk.build + onDisk.probe * load.probeReads;
    const chunksMs = (side: "build" | "probe", ms: number): number =>
        ms + chunks[side] * chunkStartMs(side, residentShare);
    const writeMs = (bytes: number): number => bytes / profile.spillWriteBytesPerMs;
    const startMs = profile.deviceInputStartMs;
    return {
        h2dBytes: Math.ceil(build + probe + backBytes),
        d2hBytes: Math.ceil(spilledBytes + resultBytes),
        spilledBytes: Math.ceil(spilledBytes),
        peerBytes: Math.ceil(onPeer.build + onPeer.probe),
        diskBytes: Math.ceil(diskBytes),
        droppedRows: Math.round(load.droppedRows),
        buildMs:
            startMs +
            Math.max(
                chunksMs("build", outMs("build", build, 0) + kernels.build),
                fillMs(load, load.filling.build) + numbersMs.build + readMs(load, load.heldBytes),
                writeMs(onDisk.build)
            ),
        probeMs:
            startMs +
            Math.max(
                chunksMs("probe", outMs("probe", probe, resultBytes * residentShare) + kernels.probe) +
                    residentShare * kernels.result,
                // The same workers fill chunks and deliver rows.
                fillMs(load, load.filling.probe) + numbersMs.probe + residentShare * outWorkMs,
                residentShare * deliverMs,
                writeMs(onDisk.probe)
            ),
        spilledMs: Math.max(
            linkMs(load, backBytes - peerBackBytes, resultBytes * (1 - residentShare), { in: peerBackBytes, out: 0 }) +
                load.backStartMs,
            (1 - residentShare) * deliverMs,
            diskReadBytes / profile.spillReadBytesPerMs
        ),
        gatherMs
    };
}
