// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import type { MachineInfo, Query, Relation, Runtime, RunReport } from "../../index.js";
import { fileRates } from "./file-rates.js";
import type { Settler } from "./settler.js";
import { Lab, measured, splitNs, stageMs, stageOf, type Figures } from "./lab.js";

export interface HostRequest {
    /** One worker: its speeds are what a profile says. */
    single: Runtime;
    /** As many workers as there are. */
    all: Runtime;
    folder: string;
    rows: number;
    signal: AbortSignal;
    settler: Settler;
    tell: (step: string) => void;
}

interface Relations {
    left: Relation;
    /** A quarter of the keys. */
    quarter: Relation;
    right: Relation;
    /** A key of a thousand values. */
    grouped: Relation;
}

const payload = ["payload0", "payload1", "payload2", "payload3"];
const nsPerMs = 1e6;

/** Steps of measureHost, in this order. */
export const hostSteps = [
    "relations",
    "files",
    "partition passes",
    "hash tables",
    "array join",
    "results",
    "group-by",
    "last-level cache",
    "memory",
    "spill files",
    "stages"
];

async function generate({ single, folder, rows, signal }: HostRequest): Promise<Relations> {
    const make = async (name: string, options: object): Promise<Relation> =>
        await single.generate({ rows, payload: 4, ...options }, { path: join(folder, `${name}.arrow`), signal });
    const foreign = (domainRows: number): object => ({ key: { role: "foreign", domainRows } });
    return {
        left: await make("left", {}),
        quarter: await make("quarter", { rows: Math.ceil(rows / 4), payload: 0 }),
        right: await make("right", { seed: 2, ...foreign(rows) }),
        grouped: await make("grouped", { seed: 3, ...foreign(1000) })
    };
}

/** A join whose rows pass the radix partitioning; `columns` of the probe side are in its result. */
function radixJoin(runtime: Runtime, keys: Relation, rows: Relation, columns: number, debug: object = {}): Query {
    const select = ["key", ...payload.slice(0, columns)];
    // Where both sides have a name, it is the left one's in the result: the left side is the one that is probed.
    const hints = { buildSide: "right" } as const;
    return runtime.join({ left: rows, right: keys, on: "key", select, hints, debug: { algorithm: "radix", ...debug } });
}

interface Passes {
    partitionNsPerRow: number;
    partitionBytesPerMs: number;
    /** Join stage of a count, in ms: the time that results add is measured against it. */
    countMs: number;
}

/** Two widths of rows give the time per row and the time per byte. */
async function passes(lab: Lab, { left, right }: Relations, rows: number, readPerMs: number): Promise<Passes> {
    const count = radixJoin(lab.runtime, left, right, 0);
    const wide = radixJoin(lab.runtime, left, right, 4);
    const ns = async (query: Query, sink: "count" | "batches", bytes: number): Promise<number> => {
        const ms = await lab.best(query, sink, stageMs("partition probe"));
        return (ms * nsPerMs) / rows - (bytes * nsPerMs) / readPerMs;
    };
    const narrow = { bytes: 8, ns: await ns(count, "count", 8) };
    const { perRow, perByte } = splitNs(narrow, { bytes: 40, ns: await ns(wide, "batches", 40) });
    return {
        partitionNsPerRow: perRow,
        partitionBytesPerMs: nsPerMs / perByte,
        countMs: await lab.best(count, "count", stageMs("join"))
    };
}

/** Two sizes of the build side give the time per row of each side. */
async function tables(lab: Lab, { left, quarter, right }: Relations, rows: number): Promise<[number, number]> {
    const full = await lab.best(radixJoin(lab.runtime, left, right, 0), "count", stageMs("join"));
    const part = await lab.best(radixJoin(lab.runtime, quarter, right, 0), "count", stageMs("join"));
    const build = lab.difference(((full - part) * nsPerMs) / (rows * 0.75), 0.1);
    return [build, lab.difference((part * nsPerMs) / rows - build / 4, 0.1)];
}

async function output(lab: Lab, relations: Relations, rows: number, countMs: number): Promise<[number, number]> {
    const { left, right } = relations;
    const ns = async (columns: number): Promise<number> => {
        const ms = await lab.best(radixJoin(lab.runtime, left, right, columns), "batches", stageMs("join"));
        return ((ms - countMs) * nsPerMs) / rows;
    };
    const { perRow, perByte } = splitNs({ bytes: 16, ns: await ns(1) }, { bytes: 40, ns: await ns(4) });
    return [perRow, nsPerMs / perByte];
}

/** Bytes of a row in the tables of a count (cost.ts): key, and slot. */
const tableRowBytes = 28;

/** What an access beyond the L2 cache takes, in a table of about these bytes that all probe rows look into. */
async function missNs(lab: Lab, request: HostRequest, tableBytes: number, knownNs: number): Promise<[number, number]> {
    const rows = Math.min(4 * request.rows, Math.max(1000, Math.ceil(tableBytes / tableRowBytes)));
    const path = (name: string): { path: string; overwrite: true } => ({
        path: join(request.folder, `${name}.arrow`),
        overwrite: true
    });
    const build = await lab.runtime.generate({ rows, payload: 0, seed: 4 }, path("keys"));
    const key = { role: "foreign", domainRows: rows } as const;
    const probe = await lab.runtime.generate({ rows, payload: 0, seed: 5, key }, path("probes"));
    const debug = { algorithm: "streaming" } as const;
    const query = lab.runtime.join({ left: build, right: probe, on: "key", hints: { buildSide: "left" }, debug });
    const ms = await lab.best(query, "count", stageMs("join"));
    // Both sides have as many rows: each is one access.
    return [rows * tableRowBytes, lab.difference(((ms * nsPerMs) / rows - knownNs) / 2, 0.1)];
}

/** Times of the two levels beyond the L2 cache, as the planner spreads accesses over them (cost.ts). */
async function misses(
    lab: Lab,
    request: HostRequest,
    machine: MachineInfo,
    knownNs: number
): Promise<[l3: number, memory: number]> {
    const { l2Bytes } = machine;
    const l3Bytes = Math.max(machine.l3Bytes, l2Bytes);
    request.tell("last-level cache");
    const [near, nearNs] = await missNs(
        lab,
        request,
        Math.max(4 * l2Bytes, Math.min(l3Bytes / 2, 16 * l2Bytes)),
        knownNs
    );
    const l3 = nearNs / Math.max(0.1, 1 - l2Bytes / near);
    request.tell("memory");
    const [far, farNs] = await missNs(lab, request, 4 * l3Bytes, knownNs);
    const inL2 = Math.min(1, l2Bytes / far);
    const inL3 = Math.min(1, l3Bytes / far);
    // A cache that holds nearly all of the largest table leaves nothing of memory to be seen.
    const memory = inL3 > 0.8 ? farNs : (farNs - (inL3 - inL2) * l3) / (1 - inL3);
    return [l3, Math.max(l3, memory)];
}

/** What spilling adds to both stages of the same join, with all workers. */
async function spill(request: HostRequest, { left, right }: Relations): Promise<[write: number, read: number]> {
    const lab = new Lab(request.all, request.signal, request.settler);
    let bytes = 0;
    const partitions = (report: RunReport): number => {
        const stages = ["partition build", "partition probe"].map((name) => stageOf(report, name));
        bytes = Math.max(
            bytes,
            stages.reduce((sum, stage) => sum + stage.spilledBytes, 0)
        );
        return stages.reduce((ms, stage) => ms + stage.actualMs, 0);
    };
    const query = (forceSpill: boolean): Query => radixJoin(request.all, left, right, 1, { forceSpill });
    const [kept, spilled] = [query(false), query(true)];
    const ms = async (of: Query, pick: (report: RunReport) => number): Promise<number> =>
        await lab.best(of, "batches", pick);
    const writeMs = (await ms(spilled, partitions)) - (await ms(kept, partitions));
    const keptMs = await ms(kept, stageMs("join"));
    const readMs = (await ms(spilled, stageMs("join"))) - keptMs;
    // Workers hide some of it behind their own work: a tenth of that at least is left.
    return [bytes / lab.difference(writeMs, keptMs / 100), bytes / lab.difference(readMs, keptMs / 100)];
}

async function stageStart(request: HostRequest): Promise<number> {
    const lab = new Lab(request.all, request.signal, request.settler);
    const key = { role: "foreign", domainRows: 1000 } as const;
    const left = await request.all.generate({ rows: 1000, payload: 0 }, "memory");
    const right = await request.all.generate({ rows: 1000, payload: 0, seed: 2, key }, "memory");
    const stage = (report: RunReport): number => Math.min(...report.stages.map(({ actualMs }) => actualMs));
    return await lab.best(radixJoin(request.all, left, right, 0), "count", stage);
}

/** Speeds of one worker, and of what all workers share, each from runs of this machine's own. */
export async function measureHost(request: HostRequest): Promise<Figures> {
    const { single, rows, folder, signal, tell } = request;
    const lab = new Lab(single, signal, request.settler);
    tell("relations");
    const relations = await generate(request);
    tell("files");
    const files = await fileRates(folder, rows * 40, request.settler, request.signal);
    tell("partition passes");
    const { partitionNsPerRow, partitionBytesPerMs, countMs } = await passes(lab, relations, rows, files.read);
    tell("hash tables");
    const [build, probe] = await tables(lab, relations, rows);
    const readNs = (8 * nsPerMs) / files.read;
    tell("array join");
    const array = single.join({
        left: relations.left,
        right: relations.right,
        on: "key",
        debug: { algorithm: "array" }
    });
    const arrayMs = await lab.best(array, "count", stageMs("join"));
    const arrayNs = lab.difference((arrayMs * nsPerMs) / (2 * rows) - readNs, 0.1);
    tell("results");
    const [outputNs, outputBytes] = await output(lab, relations, rows, countMs);
    tell("group-by");
    const aggregates = { a: { sum: "payload0" }, b: { sum: "payload1" }, c: { sum: "payload2" } };
    const groups = single.groupBy(relations.grouped, { keys: ["key"], aggregates, debug: { algorithm: "hash" } });
    const allNs = ((await lab.best(groups, "batches", stageMs("group"))) * nsPerMs) / rows;
    const groupNs = lab.difference((allNs - partitionNsPerRow - 4 * readNs) / 4, allNs / 40);
    const [l3, memory] = await misses(lab, request, single.machine(), build + probe + partitionNsPerRow + readNs);
    tell("spill files");
    const [spillWrite, spillRead] = await spill(request, relations);
    tell("stages");
    return {
        read_bytes_per_ms: measured(files.read),
        partition_ns_per_row: measured(partitionNsPerRow),
        partition_bytes_per_ms: measured(partitionBytesPerMs),
        build_ns_per_row: measured(build),
        probe_ns_per_row: measured(probe),
        array_ns_per_key: measured(arrayNs),
        l3_miss_ns: measured(l3),
        memory_miss_ns: measured(memory),
        output_ns_per_row: measured(outputNs),
        output_bytes_per_ms: measured(outputBytes),
        // Four states, and the four columns that are read.
        group_ns_per_row: measured(groupNs),
        spill_write_bytes_per_ms: measured(spillWrite),
        spill_read_bytes_per_ms: measured(spillRead),
        file_write_bytes_per_ms: measured(files.write),
        stage_start_ms: measured(await stageStart(request))
    };
}
