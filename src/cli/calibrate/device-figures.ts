// SPDX-License-Identifier: Apache-2.0
import {
    type GroupByAlgorithm,
    type JoinAlgorithm,
    type Query,
    type Relation,
    type Runtime,
    type RunReport
} from "../../index.js";
import { DeviceSolver, keyRepeats, type Accesses, type DeviceRuns } from "./device-solver.js";
import { ifPossible, Lab, measured, positive, stageMs, type Figures, type Phases } from "./lab.js";
import { measureLink, measurePeer } from "./link-figures.js";
import type { Settler } from "./settler.js";

export interface DeviceRequest {
    /** Opened for the GPU, which no query has used yet. */
    runtime: Runtime;
    rows: number;
    /** Figures of another GPU, for those that no query tells, such as device_cache_bytes. */
    base: Figures;
    signal: AbortSignal;
    settler: Settler;
    tell: (step: string) => void;
}

/** Steps of measureDevice, in this order. */
export const deviceSteps = ["opening the GPU", "copies", "link", "joins", "random accesses", "groups"];

const int32 = { type: "int32" } as const;
const columns = (side: string): { name: string; type: "int32" }[] =>
    ["0", "1"].map((number) => ({ name: `${side}${number}`, type: "int32" as const }));
const fewRows = 1000;

/** What the steps have in common. */
class DeviceLab {
    public readonly lab: Lab;

    public constructor(private readonly request: DeviceRequest) {
        this.lab = new Lab(request.runtime, request.signal, request.settler);
    }

    public async relation(options: object): Promise<Relation> {
        this.request.signal.throwIfAborted();
        return await this.request.runtime.generate({ rows: this.request.rows, payload: 0, ...options }, "memory");
    }

    /** Values cross the link as they are, but for `packLink`. */
    public join(left: Relation, right: Relation, algorithm: JoinAlgorithm, packLink = false): Query {
        const hints = { buildSide: "left" } as const;
        return this.request.runtime.join({ left, right, on: "key", hints, algorithm, debug: { packLink } });
    }

    public async phases(query: Query, sink: "count" | "batches" = "batches"): Promise<Phases | undefined> {
        return await ifPossible(async () => await this.lab.phases(query, sink));
    }
}

const uploadsOf = ({ stages }: RunReport) => stages.filter(({ name }) => name === "upload");
const movedBytes = (device: RunReport["stages"][number]["device"]): number => device?.movedBytes ?? 0;

/** The first plan opens the GPU; an operation on a thousand rows is nothing but its start. */
async function starts({ lab }: DeviceLab, query: Query): Promise<Figures> {
    const start = performance.now();
    await query.explain();
    const openMs = performance.now() - start;
    let [inputMs, besideMs] = [Infinity, Infinity];
    const ms = await lab.best(query, "count", (report) => {
        const { elapsedMs, stages } = report;
        inputMs = Math.min(inputMs, ...uploadsOf(report).map(({ actualMs }) => actualMs));
        besideMs = Math.min(besideMs, elapsedMs - stages.reduce((ms, { actualMs }) => ms + actualMs, 0));
        return stageMs("count")(report);
    });
    return {
        device_open_ms: measured(openMs),
        device_stage_start_ms: measured(ms),
        device_query_start_ms: measured(besideMs),
        device_input_start_ms: measured(inputMs)
    };
}

/**
 * Copies go at the speed of the faster direction: the other one waits for the threads that make record batches of what
 * comes back. Pinned memory is filled no faster than the rows of uploads come.
 */
async function copies({ lab }: DeviceLab, query: Query, packed: Query): Promise<Figures> {
    let fillMsPerByte = Infinity;
    const uploadMs = (report: RunReport): number =>
        Math.min(
            ...uploadsOf(report).map(
                ({ device, actualMs }) => (actualMs * report.threads) / positive(movedBytes(device))
            )
        );
    const packMsPerByte = await lab.best(packed, "count", uploadMs);
    const msPerByte = (report: RunReport): number => {
        fillMsPerByte = Math.min(fillMsPerByte, uploadMs(report));
        return Math.min(
            ...report.stages.map(({ device }) => {
                if (device === undefined || device.algorithm !== undefined) return Infinity;
                return device.elapsedMs / positive(movedBytes(device));
            })
        );
    };
    const copyMsPerByte = await lab.best(query, "batches", msPerByte);
    return {
        device_copy_bytes_per_ms: measured(1 / positive(copyMsPerByte, 1e-12)),
        device_memory_fill_bytes_per_ms: measured(1 / positive(fillMsPerByte, 1e-12)),
        device_memory_pack_bytes_per_ms: measured(1 / positive(packMsPerByte, 1e-12))
    };
}

/**
 * Joins of relations of which all rows match. Keys are scattered over all of their bits, since sorts leave out those in
 * which no two keys differ.
 */
async function joinRuns(device: DeviceLab, build: Relation, rows: number): Promise<DeviceRuns> {
    const foreign = { ...int32, role: "foreign", sparse: true };
    const probe = await device.relation({ seed: 2, key: { ...foreign, domainRows: rows }, payload: columns("p") });
    const repeated = await device.relation({ key: { ...int32, sparse: true, duplicates: keyRepeats } });
    const once = await device.relation({ rows: Math.floor(rows / keyRepeats), key: { ...int32, sparse: true } });
    const phases = async (algorithm: JoinAlgorithm): Promise<Phases | undefined> =>
        await device.phases(device.join(build, probe, algorithm));
    return {
        phjTr: await phases("phj-tr"),
        smjUr: await phases("smj-ur"),
        smjTr: await phases("smj-tr"),
        smjMerge: await phases("smj-merge"),
        counted: await device.phases(device.join(build, probe, "phj-tr"), "count"),
        repeated: await device.phases(device.join(repeated, once, "phj-tr"), "count")
    };
}

/** Each build row is an insertion into the table of npj, each probe row a search. */
async function accesses(device: DeviceLab, few: Relation, buildRows: number, probeRows: number): Promise<Accesses> {
    const build = await device.relation({ rows: buildRows, key: int32 });
    const foreign = { ...int32, role: "foreign", domainRows: buildRows };
    const many = await device.relation({ rows: probeRows, seed: 3, key: foreign });
    return {
        buildRows,
        probeRows,
        fewProbes: await device.phases(device.join(build, few, "npj"), "count"),
        manyProbes: await device.phases(device.join(build, many, "npj"), "count")
    };
}

async function groupRuns(device: DeviceLab): Promise<DeviceRuns> {
    const key = { role: "foreign", domainRows: 1000 };
    const narrow = await device.relation({ seed: 6, key: { ...int32, ...key }, payload: columns("v") });
    const long = await device.relation({ seed: 7, key, payload: 1 });
    const least = { a: { min: "v0" }, b: { min: "v1" } } as const;
    // An aggregate that the kernels for the commonest shapes do not have.
    const any = { a: { any: "payload0" } } as const;
    const group = async (from: Relation, aggregates: typeof least | typeof any, algorithm: GroupByAlgorithm) =>
        await device.phases(from.groupBy({ keys: ["key"], aggregates, algorithm }));
    return {
        extremes: await group(narrow, least, "hgb"),
        others: await group(long, any, "hgb"),
        partitioned: await group(long, any, "pgb-tr")
    };
}

/** Figures of the GPU that runs on it tell; the others are missing. */
export async function measureDevice(request: DeviceRequest): Promise<Figures> {
    const { rows, base, tell } = request;
    const device = new DeviceLab(request);
    tell("opening the GPU");
    const small = await device.relation({ rows: fewRows, key: int32 });
    const nothing = device.join(small, small, "npj");
    const opened = await starts(device, nothing);
    tell("copies");
    const build = await device.relation({ key: { ...int32, sparse: true }, payload: columns("b") });
    const copied = await copies(device, device.join(build, build, "phj-tr"), device.join(build, build, "phj-tr", true));
    tell("link");
    const link = { ...(await measureLink(rows, request.settler, request.signal)), ...(await measurePeer()) };
    tell("joins");
    const start = await device.phases(nothing, "count");
    const joins = await joinRuns(device, build, rows);
    tell("random accesses");
    const near = await accesses(device, small, Math.ceil(rows / 16), rows);
    const far = await accesses(device, small, rows * 4, rows * 4);
    tell("groups");
    const runs = { start, near, far, ...joins, ...(await groupRuns(device)) };
    return { ...opened, ...copied, ...link, ...new DeviceSolver(runs, rows, base).solve() };
}
