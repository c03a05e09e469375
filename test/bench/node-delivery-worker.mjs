// SPDX-License-Identifier: Apache-2.0
/**
 * The process of some cells of node-delivery.mjs: makes or opens their inputs, runs each result, and writes a line of
 * JSON for each on stdout as soon as it has it. Argument: the job as JSON. Needs --expose-gc, so that results are let
 * go between runs and what stays resident is no garbage.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout } from "node:timers/promises";

import { openRuntime } from "../../dist/index.js";
import { measure } from "./measure.mjs";
import { batches, count } from "./node-auto-queries.mjs";
import { specsOf } from "./node-delivery-cells.mjs";
import { peakResidentBytes, resetPeak } from "./resident-memory.mjs";

const refusals = ["UNSUPPORTED_TYPE", "BUDGET_TOO_SMALL", "OUT_OF_MEMORY"];
const collect = globalThis.gc;

/** The relations of a job by their names. */
async function relationsOf(runtime, { from, paths, ...shape }) {
    const relations = {};
    for (const [name, spec] of Object.entries(specsOf(shape))) {
        relations[name] =
            from === "memory" ? await runtime.generate(spec, "memory") : await runtime.fromArrowFile(paths[name]);
    }
    return relations;
}

const payloadOf = (query) => query.schema.fields.map(({ name }) => name).filter((name) => name !== "k");
const sumsOf = (query) => Object.fromEntries(payloadOf(query).map((name) => [name, { sum: name }]));

function queryOf(result, { rows, probe, build }) {
    if (result === "group-by") return rows.groupBy({ keys: ["k"], aggregates: sumsOf(rows) });
    const joined = probe.join(build, { on: "k" });
    return result === "sums" ? joined.groupBy({ keys: [], aggregates: sumsOf(joined) }) : joined;
}

/** Sums of all columns but the key, modulo 2^32, of rows that JavaScript has: what every engine must agree about. */
class Checksum {
    #sums = new Map();

    add(batch) {
        for (const [index, { name }] of batch.schema.fields.entries()) {
            if (name === "k") continue;
            const { values, length } = batch.getChildAt(index).data[0];
            const words = new Int32Array(values.buffer, values.byteOffset, length * 2);
            let sum = this.#sums.get(name) ?? 0;
            for (let i = 0; i < words.length; i += 2) sum = (sum + words[i]) | 0;
            this.#sums.set(name, sum);
        }
    }

    toString() {
        return [...this.#sums].map(([name, sum]) => `${name} ${(sum >>> 0).toString(16)}`).join(", ");
    }
}

async function checksumOf(rows) {
    const checksum = new Checksum();
    for await (const batch of rows) checksum.add(batch);
    return String(checksum);
}

/** Rows of a file as the CPU engine adds them up. */
async function fileChecksum(path) {
    const runtime = await openRuntime({ device: "cpu" });
    try {
        const file = await runtime.fromArrowFile(path);
        return await checksumOf((await file.groupBy({ keys: [], aggregates: sumsOf(file) }).toTable()).batches);
    } finally {
        await runtime.close();
    }
}

/** How a result is taken: `run` tells its rows, `drop` lets it go, `check` tells the checksum of the last one. */
function takerOf(result, query, path) {
    let table;
    const tables = {
        run: async () => (table = await query.toTable()).numRows,
        drop: () => (table = undefined),
        check: async () => await checksumOf(table.batches)
    };
    const nothing = () => undefined;
    return {
        count: { run: async () => await count(query), drop: nothing, check: nothing },
        batches: { run: async () => await batches(query), drop: nothing, check: async () => await checksumOf(query) },
        file: {
            run: async () => Number(await query.toArrowFile(path)),
            drop: () => rmSync(path, { force: true }),
            check: async () => await fileChecksum(path)
        },
        ...{ sums: tables, table: tables, "group-by": tables }
    }[result];
}

/** Runs a result: once, which is its cold run, then as often as samples are taken. */
async function timesOf({ run, drop }, name, samples) {
    let [calls, rows, coldMs] = [0, 0];
    const operation = async () => {
        const start = performance.now();
        rows = Number(await run());
        coldMs ??= performance.now() - start;
        calls++;
    };
    const times = await measure(name, samples, operation, () => {
        if (calls > samples) return; // The last one is there to be checked.
        drop();
        collect();
    });
    return { times, coldMs, rows };
}

/** Waits until what nobody refers to is freed, and tells what is resident then. */
async function residentBytes() {
    for (let i = 0; i < 3; i++) {
        collect();
        await setTimeout(20);
    }
    return process.memoryUsage.rss();
}

async function measureCell(result, query, { samples, folder }) {
    const path = join(folder, `result-${process.pid}.arrow`);
    const taker = takerOf(result, query, path);
    try {
        const before = await residentBytes();
        resetPeak();
        // Where the kernel does not forget the peak, that of making the inputs may hide this one.
        const known = peakResidentBytes() <= before * 1.02 + 2 ** 20;
        const measured = await timesOf(taker, result, samples);
        const peak = known ? peakResidentBytes() : undefined;
        const report = query.report();
        const checkedFirst = result === "batches" ? undefined : await taker.check();
        taker.drop();
        const after = await residentBytes();
        // A run of its own, since the others have let their rows go.
        const checksum = result === "batches" ? await taker.check() : checkedFirst;
        return { ...measured, report, checksum, resident: { before, peak, after } };
    } catch (error) {
        if (!refusals.includes(error.code)) throw error;
        return { refused: error.message };
    } finally {
        rmSync(path, { force: true });
    }
}

async function main(job) {
    const memory = { host: job.hostBytes, spillDirectory: job.folder };
    const ofDevice = job.limit === undefined ? {} : { device: job.limit };
    const runtime = await openRuntime({ device: job.device, memory: { ...memory, ...ofDevice } });
    const gpuName = runtime.devices().find(({ kind, used }) => kind === "gpu" && used)?.name;
    const relations = await relationsOf(runtime, job);
    const told = { threads: runtime.threads, ...(job.device === "gpu" ? { gpuName } : {}) };
    let coldOf = "process";
    for (const result of job.results) {
        if (Date.now() > job.deadline) break;
        const query = queryOf(result, relations);
        const measured = await measureCell(result, query, job);
        process.stdout.write(`${JSON.stringify({ result, coldOf, ...told, ...measured })}\n`);
        coldOf = "query";
    }
    await runtime.close();
}

await main(JSON.parse(process.argv[2]));
