// SPDX-License-Identifier: Apache-2.0
import { SpillwayError, type Query, type Relation, type Runtime, type RunReport } from "../../index.js";
import { Lab, measured, positive, stageMs, type Figures, type Phases } from "./lab.js";

export interface DeviceRequest {
    /** Opened for the GPU, which no query has used yet. */
    runtime: Runtime;
    rows: number;
    /** Figures of the GPU's cache, which no query tells: { device_cache_bytes }. */
    base: Figures;
    signal: AbortSignal;
    tell: (step: string) => void;
}

/** Steps of measureDevice, in this order. */
export const deviceSteps = ["opening the GPU", "copies", "partitions and sorts", "random accesses", "groups"];

interface Relations {
    build: Relation;
    probe: Relation;
    /** Build sides whose hash tables fit the cache, and are far beyond it. */
    near: Relation;
    far: Relation;
    probeFar: Relation;
}

const key = { type: "int32" } as const;
const columns = (side: string): { name: string; type: "int32" }[] =>
    ["0", "1"].map((number) => ({ name: `${side}${number}`, type: "int32" as const }));

async function generate({ runtime, rows, signal }: DeviceRequest): Promise<Relations> {
    signal.throwIfAborted();
    const nearRows = Math.ceil(rows / 16);
    const farRows = rows * 4;
    const foreign = (domainRows: number): object => ({ ...key, role: "foreign", domainRows });
    const make = async (options: object): Promise<Relation> => await runtime.generate({ rows, ...options }, "memory");
    return {
        build: await make({ key, payload: columns("b") }),
        probe: await make({ seed: 2, key: foreign(rows), payload: columns("p") }),
        near: await make({ rows: nearRows, key, payload: 0 }),
        far: await make({ rows: farRows, key, payload: 0 }),
        probeFar: await make({ rows: farRows, seed: 3, key: foreign(farRows), payload: 0 })
    };
}

/** Times of the phases of one algorithm; undefined where this version has no such algorithm, or does not time it. */
async function phasesOf(lab: Lab, make: () => Query, stage: string): Promise<Phases | undefined> {
    try {
        return await lab.phases(make(), stage);
    } catch (error) {
        const unknown = error instanceof SpillwayError && error.code === "INVALID_ARGUMENT";
        const refused = error instanceof SpillwayError && error.code === "UNSUPPORTED_TYPE";
        if (unknown || refused) return undefined;
        throw error;
    }
}

/** `algorithm` as an option of a query, which versions without it refuse. */
const algorithmOption = (algorithm: string): object => ({ algorithm });

async function copies(lab: Lab, { build, probe }: Relations): Promise<Figures> {
    const query = lab.runtime.join({ left: build, right: probe, on: "key" });
    const uploadMs = (report: RunReport): number =>
        report.stages.reduce((ms, { name, actualMs }) => ms + (name === "upload" ? actualMs : 0), 0);
    let bytes = 0;
    const ms = await lab.best(query, "count", (report) => {
        bytes = report.uploadedBytes;
        return uploadMs(report);
    });
    return { device_copy_bytes_per_ms: measured(bytes / positive(ms)) };
}

/** The first plan opens the GPU; an operation on a thousand rows is nothing but its start. */
async function starts(request: DeviceRequest): Promise<Figures> {
    const { runtime, signal } = request;
    const small = async (): Promise<Relation> => await runtime.generate({ rows: 1000, payload: 0 }, "memory");
    const query = runtime.join({ left: await small(), right: await small(), on: "key" });
    const start = performance.now();
    await query.explain();
    const openMs = performance.now() - start;
    const ms = await new Lab(runtime, signal).best(query, "count", stageMs("count"));
    return { device_open_ms: measured(openMs), device_stage_start_ms: measured(ms) };
}

/** Partition passes over 12-byte rows, and radix sorts of keys with row numbers (src/planner/device-cost). */
async function transforms(lab: Lab, { build, probe }: Relations, rows: number): Promise<Figures> {
    const join = (algorithm: string) => (): Query =>
        lab.runtime.join({ left: build, right: probe, on: "key", ...algorithmOption(algorithm) });
    const figures: Figures = {};
    const radix = await phasesOf(lab, join("phj-tr"), "join");
    const passes = rows > 8192 * 128 ? 2 : 1;
    if (radix !== undefined) {
        const rate = (2 * rows * (4 + 12 + 12 + (passes - 1) * 24)) / positive(radix.transform);
        const streamed = (rows * (12 + 12 + 20)) / rate;
        figures["device_partition_bytes_per_ms"] = measured(rate);
        figures["device_match_rows_per_ms"] = measured((2 * rows) / positive(radix.match - streamed));
    }
    const merge = await phasesOf(lab, join("smj-ur"), "join");
    if (merge !== undefined) {
        figures["device_sort_bytes_per_ms"] = measured((2 * rows * (4 + 4 * 16)) / positive(merge.transform));
        figures["device_merge_rows_per_ms"] = measured((2 * rows) / positive(merge.match));
    }
    const sorted = await phasesOf(lab, join("smj-tr"), "join");
    if (sorted !== undefined) {
        figures["device_memory_bytes_per_ms"] = measured((4 * rows * 12) / positive(sorted.materialize));
    }
    const mergeSort = await phasesOf(lab, join("smj-merge"), "join");
    if (mergeSort !== undefined) {
        const levels = 1 + Math.max(0, Math.ceil(Math.log2(rows / 2048)));
        figures["device_merge_sort_bytes_per_ms"] = measured((2 * rows * 16 * levels) / positive(mergeSort.transform));
    }
    return figures;
}

/** The hash table of a no-partitioning join, in the cache and far beyond: each row is an insertion, or a search. */
async function randomAccesses(lab: Lab, relations: Relations, rows: number, cacheBytes: number): Promise<Figures> {
    const join = (left: Relation, right: Relation) => (): Query =>
        lab.runtime.join({ left, right, on: "key", hints: { buildSide: "left" }, ...algorithmOption("npj") });
    const near = await phasesOf(lab, join(relations.near, relations.probe), "join");
    const far = await phasesOf(lab, join(relations.far, relations.probeFar), "join");
    if (near === undefined || far === undefined) return {};
    const [nearRows, farRows] = [Math.ceil(rows / 16), rows * 4];
    const tableBytes = 2 ** Math.ceil(Math.log2(2 * farRows)) * 8;
    const cached = Math.min(0.9, cacheBytes / tableBytes);
    // ms per access in the cache, and what is left of the far table's time once its cached share is taken off.
    const beyond = (farMs: number, nearMs: number): number => positive((farMs - cached * nearMs) / (1 - cached), 1e-12);
    const inserts = [near.transform / nearRows, far.transform / farRows] as const;
    const reads = [near.match / rows, far.match / farRows] as const;
    return {
        device_cached_inserts_per_ms: measured(1 / positive(inserts[0], 1e-12)),
        device_random_inserts_per_ms: measured(1 / beyond(inserts[1], inserts[0])),
        device_cached_reads_per_ms: measured(1 / positive(reads[0], 1e-12)),
        device_random_reads_per_ms: measured(1 / beyond(reads[1], reads[0]))
    };
}

async function groupBys(lab: Lab, request: DeviceRequest): Promise<Figures> {
    const { runtime, rows } = request;
    const grouped = await runtime.generate(
        { rows, seed: 6, key: { ...key, role: "foreign", domainRows: 1000 }, payload: columns("v") },
        "memory"
    );
    const wide = await runtime.generate(
        { rows, seed: 7, key: { role: "foreign", domainRows: 1000 }, payload: 2 },
        "memory"
    );
    const most = { a: { max: "v0" }, b: { max: "v1" } };
    const sums = { a: { sum: "payload0" }, b: { sum: "payload1" } };
    const group = (from: Relation, aggregates: object, algorithm: string) => (): Query =>
        runtime.groupBy(from, { keys: ["key"], aggregates: aggregates as never, ...algorithmOption(algorithm) });
    const figures: Figures = {};
    const extreme = await phasesOf(lab, group(grouped, most, "hgb"), "group");
    if (extreme !== undefined) figures["device_group_extreme_rows_per_ms"] = measured(rows / positive(extreme.match));
    const other = await phasesOf(lab, group(wide, sums, "hgb"), "group");
    if (other !== undefined) figures["device_group_rows_per_ms"] = measured(rows / positive(other.match));
    const parts = await phasesOf(lab, group(grouped, most, "pgb-tr"), "group");
    if (parts !== undefined) figures["device_group_partition_rows_per_ms"] = measured(rows / positive(parts.match));
    return figures;
}

/** Figures of the GPU that runs of it tell; those of phases that are not timed are missing. */
export async function measureDevice(request: DeviceRequest): Promise<Figures> {
    const { runtime, rows, base, signal, tell } = request;
    const lab = new Lab(runtime, signal);
    tell("opening the GPU");
    const opened = await starts(request);
    tell("copies");
    const relations = await generate(request);
    const copied = await copies(lab, relations);
    tell("partitions and sorts");
    const transformed = await transforms(lab, relations, rows);
    tell("random accesses");
    const cacheBytes = base["device_cache_bytes"]?.value ?? 0;
    const random = await randomAccesses(lab, relations, rows, cacheBytes);
    tell("groups");
    return { ...opened, ...copied, ...transformed, ...random, ...(await groupBys(lab, request)) };
}
