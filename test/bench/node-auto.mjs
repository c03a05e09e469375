// SPDX-License-Identifier: Apache-2.0
/**
 * Does device "auto" take the faster device? The queries of node-auto-queries.mjs over TPC-H-like tables as Arrow files
 * in the page cache, one after the other in one process for each device, opening the GPU included.
 * node test/bench/node-auto.mjs [--scale 10] [--samples 3] [--folder PATH] [--record FILE]
 * Needs the built package and a GPU; no network. Each sample is a process for each of cpu, gpu and auto, in turn. In it
 * all queries run twice: the first pass begins with the opening of the runtime, the second finds a GPU that is open.
 * `faster_device_ms` of a record is what a process would take that runs each query on the faster device.
 * Exit code 1: devices disagree about a result.
 */
import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { openRuntime } from "../../dist/index.js";
import { deviceName } from "./machine-name.mjs";
import { medianOf as median } from "./gpu-engine.mjs";
import { queriesOf } from "./node-auto-queries.mjs";
import { generateTables, openTables } from "./node-suite-tables.mjs";

const devices = ["cpu", "gpu", "auto"];
const round = (ms) => Number(ms.toFixed(2));

function readOptions() {
    const text = { type: "string" };
    const { values } = parseArgs({
        options: {
            scale: { ...text, default: "10" },
            samples: { ...text, default: "3" },
            folder: { ...text, default: join(tmpdir(), "spillway-node-auto") },
            ...{ record: text, worker: text, commit: text }
        }
    });
    return { ...values, scale: Number(values.scale), samples: Number(values.samples) };
}

/** Runs all queries twice; writes what they took as JSON. */
async function work({ worker: device, folder, scale }) {
    const output = join(folder, `result-${process.pid}.arrow`);
    const begin = performance.now();
    const runtime = await openRuntime({ device, memory: { host: "32GiB" } });
    const relations = await openTables(runtime, { folder, scale });
    const queries = queriesOf(relations, output);
    const passes = [];
    for (let pass = 0; pass < 2; pass++) {
        const results = [];
        for (const { name, query, run } of queries) {
            const start = performance.now();
            let told;
            try {
                told = { rows: await run(query) };
            } catch (error) {
                // What a GPU cannot run is no time of the GPU.
                if (device !== "gpu" || !["UNSUPPORTED_TYPE", "BUDGET_TOO_SMALL"].includes(error.code)) throw error;
                told = { refused: error.message };
            }
            const ms = performance.now() - start;
            const report = told.refused === undefined ? query.report() : undefined;
            const { device: ran, deviceReason: reason, predictedMs } = report ?? {};
            results.push({ name, ms, ...told, ran, reason, predictedMs });
            rmSync(output, { force: true });
        }
        passes.push({
            results,
            totalMs: performance.now() - (pass === 0 ? begin : passes[0].endMs),
            endMs: performance.now()
        });
    }
    await runtime.close();
    const { maxRSS } = process.resourceUsage();
    process.stdout.write(
        `${JSON.stringify({ passes, closeMs: performance.now() - passes[1].endMs, peakBytes: maxRSS * 1024 })}\n`
    );
}

function runWorker(device, { folder, scale }) {
    const args = [fileURLToPath(import.meta.url), "--worker", device, "--folder", folder, "--scale", String(scale)];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", maxBuffer: 2 ** 28 });
    if (status !== 0) throw new Error(`The process for ${device} ended with ${status}: ${stderr}`);
    return JSON.parse(stdout);
}

/** Median of each query and of the total over the samples of one device. */
function summary(samples, pass) {
    const of = (i) => samples.map(({ passes }) => passes[pass].results[i]);
    const queries = samples[0].passes[pass].results.map(({ name, rows, refused }, i) => ({
        name,
        median_ms: refused === undefined ? round(median(of(i).map(({ ms }) => ms))) : null,
        rows: rows ?? null,
        ...(refused === undefined
            ? {
                  ran_on: of(i)
                      .map(({ ran }) => ran)
                      .join(" ")
              }
            : { refused }),
        ...(of(i).at(-1).reason == null ? {} : { reason: of(i).at(-1).reason }),
        predicted_ms: round(of(i).at(-1).predictedMs ?? 0)
    }));
    return { queries, totals: samples.map(({ passes }) => passes[pass].totalMs) };
}

/** The rows that devices disagree about. */
function disagreements(of) {
    const rowsOf = (device) => new Map(of[device].queries.map(({ name, rows }) => [name, rows]));
    const cpu = rowsOf("cpu");
    return ["gpu", "auto"].flatMap((device) =>
        [...rowsOf(device)]
            .filter(([name, rows]) => rows !== null && rows !== cpu.get(name))
            .map(([name, rows]) => `${name}: ${rows} rows on ${device}, ${cpu.get(name)} on the CPU`)
    );
}

/** What the first query waits for with device gpu: the rest of opening the GPU, which began with the runtime. */
function waitMs(passes) {
    const [first, second] = passes.map((of) => of.gpu.queries[0].median_ms);
    return first - second;
}

/**
 * What a process would take that runs each query on the faster device: the total of the one on the GPU, with what it
 * takes to open that, less what the CPU saves, and with the queries that only the CPU can run.
 */
function fasterMs(of, waitedMs) {
    const savedMs = of.cpu.queries.map(({ median_ms }, i) => {
        const onGpu = of.gpu.queries[i].median_ms;
        return onGpu === null ? -median_ms : Math.max(0, onGpu - (i === 0 ? waitedMs : 0) - median_ms);
    });
    return median(of.gpu.totals) - savedMs.reduce((sum, ms) => sum + ms, 0);
}

/** By how much a query took longest with auto, in times of the faster device for it. */
function slowestQuery({ cpu, gpu, auto }) {
    const times = auto.queries.map(({ name, median_ms }, i) => {
        const faster = Math.min(cpu.queries[i].median_ms, gpu.queries[i].median_ms ?? Infinity);
        return { name, times_faster_device: Number((median_ms / faster).toFixed(3)) };
    });
    return times.reduce((most, each) => (each.times_faster_device > most.times_faster_device ? each : most));
}

function recordsOf(options, samples, gpuName) {
    const passes = [0, 1].map((pass) =>
        Object.fromEntries(devices.map((device) => [device, summary(samples[device], pass)]))
    );
    const waitedMs = waitMs(passes);
    const faster = passes.map((of, pass) => fasterMs(of, pass === 0 ? waitedMs : 0));
    const setting = { device: `${gpuName}; ${deviceName()}`, date: new Date().toISOString(), commit: options.commit };
    return passes.flatMap((of, pass) =>
        devices.map((device) => ({
            experiment: "node-auto",
            workload: {
                name:
                    `${of.cpu.queries.length} queries, TPC-H-like scale ${options.scale}, ` +
                    (pass === 0 ? "opening included" : "second pass"),
                ...{ scale: options.scale, queries: of.cpu.queries.length },
                ...{ pass: pass + 1, threads: availableParallelism() }
            },
            algorithm: `device ${device}`,
            median_ms: round(median(of[device].totals)),
            samples_ms: of[device].totals.map(round),
            faster_device_ms: round(faster[pass]),
            times_faster_device: Number((median(of[device].totals) / faster[pass]).toFixed(3)),
            ...(device === "auto" && pass === 1 ? { slowest_query: slowestQuery(of) } : {}),
            verified: disagreements(of).length === 0,
            peak_bytes: { host: Math.max(...samples[device].map(({ peakBytes }) => peakBytes)) },
            queries: of[device].queries,
            ...setting
        }))
    );
}

function print(records) {
    const first = records.filter(({ workload }) => workload.pass === 2);
    for (const [i, { name }] of first[0].queries.entries()) {
        const cells = first.map(({ queries }) => String(queries[i].median_ms ?? "-").padStart(9));
        const auto = records.find(({ workload, algorithm }) => workload.pass === 1 && algorithm === "device auto");
        console.log(
            `${name.padEnd(52)}${cells.join("")}  first pass ${auto.queries[i].median_ms} on ${auto.queries[i].ran_on}`
        );
    }
    for (const { workload, algorithm, median_ms, times_faster_device, slowest_query } of records) {
        console.log(`${algorithm}, ${workload.name}: ${median_ms} ms, ${times_faster_device} of the faster device`);
        if (slowest_query !== undefined) console.log(slowest_query);
    }
}

async function main() {
    const options = readOptions();
    if (options.worker !== undefined) return await work(options);
    await generateTables(options);
    const runtime = await openRuntime({ device: "auto" });
    const gpuName = runtime.devices().find(({ kind }) => kind === "gpu").name;
    await runtime.close();
    const samples = Object.fromEntries(devices.map((device) => [device, []]));
    for (let i = 0; i < options.samples; i++)
        for (const device of devices) samples[device].push(runWorker(device, options));
    const records = recordsOf(options, samples, gpuName);
    if (options.record !== undefined) writeFileSync(options.record, `${JSON.stringify(records, null, 4)}\n`);
    print(records);
    if (!records.every(({ verified }) => verified)) process.exitCode = 1;
}

await main();
