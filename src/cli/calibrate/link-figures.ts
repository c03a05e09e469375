// SPDX-License-Identifier: Apache-2.0
// What the link between the host and the GPU carries, as joins out of core use it: bytes and times of their phases.
import {
    openRuntime,
    type DebugKnobs,
    type DeviceStageReport,
    type ExperimentOptions,
    type GenerateRelationOptions,
    type JoinAlgorithm,
    type MemoryState,
    type Relation,
    type Runtime
} from "../../index.js";
import type { Settler } from "./settler.js";
import { ifPossible, Lab, measured, positive, type Figures } from "./lab.js";

export type JoinReport = NonNullable<DeviceStageReport["outOfCore"]>;
type Path = JoinReport["path"];

/** Bytes per millisecond; undefined: this machine cannot say. */
export interface LinkRates {
    readonly in: number | undefined;
    /** The rate of both directions together, each with about as much. */
    readonly both: number | undefined;
}

// Phases of 10 ms and more on PCIe 5 with the usual number of rows.
const keyRowsFactor = 4;
const wideRowsFactor = 2;
// For kernels, which read a chunk where the host has written it, and wait for the first one.
const chunksWanted = 16;
const chunkRowsRange = [64, 2 ** 21] as const;
// GPU memory for all rows of one of these joins.
const deviceBytesPerRow = 128;
const deviceBytesLeast = 256 * 2 ** 20;

/**
 * Milliseconds per byte on the link; Infinity where the join took another way or rows went to disk. Rows of both sides
 * are alike, and as many: where all of them stay in GPU memory, half of what comes in is the build side's. Where none
 * does, they come in and leave while sides are partitioned; what then comes back are as many bytes as have left.
 */
export function linkMsPerByte(join: JoinReport | undefined, path: Path, isResident: boolean): number {
    if (join === undefined || join.path !== path || join.peerBytes + join.diskWrittenBytes > 0) return Infinity;
    const { h2dBytes, spilledBytes, buildMs, probeMs } = join;
    const isSpilled = spilledBytes.build + spilledBytes.probe > 0;
    if (isSpilled === isResident) return Infinity;
    return isResident ? buildMs / positive(h2dBytes / 2) : (buildMs + probeMs) / positive(h2dBytes);
}

/** The joins whose rows go that way. */
const algorithms = { staged: "staged", coherent: "triton" } as const satisfies Record<Path, JoinAlgorithm>;

async function ratesOf(
    lab: Lab,
    left: Relation,
    right: Relation,
    path: Path,
    sizes: Pick<ExperimentOptions, "chunkRows">
): Promise<LinkRates> {
    const rate = async (residentShare: 0 | 1): Promise<number | undefined> => {
        const query = lab.runtime.join({
            ...{ left, right, on: "key", hints: { buildSide: "left" }, algorithm: algorithms[path] },
            ...{ experiment: { residentShare, ...sizes }, debug: { filter: false, packLink: false } }
        });
        const ms = await ifPossible(
            async () =>
                await lab.best(query, path === "staged" ? "count" : "batches", ({ stages }) =>
                    linkMsPerByte(stages[0]?.device?.outOfCore, path, residentShare === 1)
                )
        );
        return ms === undefined || !Number.isFinite(ms) ? undefined : 1 / positive(ms, 1e-12);
    };
    return { in: await rate(1), both: await rate(0) };
}

/** No phase sends more out than it takes in: what only leaves is taken for as fast. */
export function linkFigures(copies: LinkRates, kernels: LinkRates): Figures {
    const figures: Figures = {};
    const set = (rates: LinkRates, kind: string, [into, out]: readonly [string, string]): void => {
        const name = (way: string): string => `device_${kind}_${way}_bytes_per_ms`;
        if (rates.in !== undefined) {
            figures[name(into)] = measured(rates.in);
            figures[name(out)] = { value: rates.in, measured: false, from: "as to the GPU" };
        }
        if (rates.both !== undefined) figures[name("both")] = measured(rates.both);
    };
    set(copies, "copy", ["in", "out"]);
    set(kernels, "far", ["read", "write"]);
    return figures;
}

/**
 * Copy engines: counts, of which keys alone cross the link. Kernels: rows of a key and a value, which are as long in
 * pages as they are in columns; none has a partner.
 */
async function measure(runtime: Runtime, rows: number, settler: Settler, signal: AbortSignal): Promise<Figures> {
    const lab = new Lab(runtime, signal, settler);
    const relation = async (options: GenerateRelationOptions): Promise<Relation> => {
        signal.throwIfAborted();
        return await runtime.generate({ payload: 0, ...options }, "memory");
    };
    const key = { type: "int64", sparse: true } as const;
    const keyRows = rows * keyRowsFactor;
    const foreign = { ...key, role: "foreign" } as const;
    const keys = await relation({ rows: keyRows, seed: 8, key });
    const others = await relation({ rows: keyRows, seed: 9, key: { ...foreign, domainRows: keyRows } });
    const copies = await ratesOf(lab, keys, others, "staged", {});
    const wide = { rows: rows * wideRowsFactor, payload: 1 };
    const [least, most] = chunkRowsRange;
    const chunkRows = Math.min(most, Math.max(least, Math.floor(wide.rows / chunksWanted)));
    const build = await relation({ ...wide, seed: 10, key });
    const probe = await relation({ ...wide, seed: 11, key: { ...foreign, domainRows: wide.rows, matchRatio: 0 } });
    return linkFigures(copies, await ratesOf(lab, build, probe, "coherent", { chunkRows }));
}

// Another GPU's memory for the trial: more than its opening times copies of.
const peerBytes = 256 * 2 ** 20;

/** Copies from another GPU and to it, as its opening times them; none where there is no other GPU. */
export function peerFigures({ peer }: MemoryState): Figures {
    if (peer?.readBytesPerMs === undefined || peer.writeBytesPerMs === undefined) return {};
    return {
        device_peer_read_bytes_per_ms: measured(peer.readBytesPerMs),
        device_peer_write_bytes_per_ms: measured(peer.writeBytesPerMs)
    };
}

/** Takes a runtime of its own, whose first plan opens both. `debug`: which GPU is the other one. */
export async function measurePeer(debug: DebugKnobs = {}): Promise<Figures> {
    const figures = await ifPossible(async () => {
        const memory = { device: deviceBytesLeast, peer: peerBytes };
        await using runtime = await openRuntime({ device: "gpu", memory, debug });
        const few = await runtime.generate({ rows: 1, payload: 0, key: { type: "int32" } }, "memory");
        await runtime.join({ left: few, right: few, on: "key" }).explain();
        return peerFigures(runtime.memory());
    });
    return figures ?? {};
}

/** In a runtime of its own: sizes of such joins follow from the memory that they may use. */
export async function measureLink(rows: number, settler: Settler, signal: AbortSignal): Promise<Figures> {
    const device = Math.max(deviceBytesLeast, rows * deviceBytesPerRow);
    const figures = await ifPossible(async () => {
        await using runtime = await openRuntime({ device: "gpu", memory: { device } });
        return await measure(runtime, rows, settler, signal);
    });
    return figures ?? {};
}
