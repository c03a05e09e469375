// SPDX-License-Identifier: Apache-2.0
/**
 * Queries larger than GPU memory, from Node, beside the CPU engine: those of node-auto-queries.mjs over TPC-H-like
 * tables as Arrow files, and joins, sums, group-bys and stars of generated relations in memory, of 2, 6 and 12 columns
 * and with skewed keys.
 * node test/bench/node-out-of-core.mjs [--limits 64GiB,4GiB,1GiB] [--scale 10] [--large-limits 16GiB,4GiB] [--bits 28]
 *     [--wide-bits 26] [--samples 3] [--folder PATH] [--record FILE]
 * `--scale 0`, `--bits 0`, `--wide-bits 0`: without these. Needs the built package and a GPU; no network. Each query
 * runs once more than samples are taken, first. A record has the times, what was planned, the bytes on the link, and
 * what the CPU engine takes; a query that the GPU refuses has the reason. Exit code 1: the devices disagree about a
 * result.
 */
import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";

import { openRuntime } from "../../dist/index.js";
import { medianOf } from "./gpu-engine.mjs";
import { deviceName } from "./machine-name.mjs";
import { queriesOf } from "./node-auto-queries.mjs";
import { generateTables, openTables } from "./node-suite-tables.mjs";

const round = (ms) => Number(ms.toFixed(2));
const host = "80GiB";

function readOptions() {
    const text = { type: "string" };
    const { values } = parseArgs({
        options: {
            limits: { ...text, default: "64GiB,4GiB,1GiB" },
            "large-limits": { ...text, default: "16GiB,4GiB" },
            scale: { ...text, default: "10" },
            bits: { ...text, default: "28" },
            "wide-bits": { ...text, default: "26" },
            samples: { ...text, default: "3" },
            folder: { ...text, default: join(tmpdir(), "spillway-node-out-of-core") },
            ...{ record: text, commit: text }
        }
    });
    const number = (name) => Number(values[name]);
    return {
        ...values,
        limits: values.limits.split(","),
        largeLimits: values["large-limits"].split(","),
        ...{ scale: number("scale"), bits: number("bits"), wideBits: number("wide-bits"), samples: number("samples") }
    };
}

/** Columns of numbers beside the key. */
const numbers = (prefix, columns) => Array.from({ length: columns }, (_, i) => ({ name: `${prefix}${i}` }));

async function facts(runtime, rows, { domainRows = rows, columns = 1, zipf } = {}) {
    const key = { name: "k", role: "foreign", domainRows, ...(zipf > 0 ? { zipf } : {}) };
    return await runtime.generate({ rows, seed: 5, key, payload: numbers("f", columns) }, "memory");
}

async function dimensionOf(runtime, rows, name, columns = 1) {
    const key = { name: "k", role: "primary" };
    return await runtime.generate({ rows, seed: 5, key, payload: numbers(name, columns) }, "memory");
}

const count = async (query) => await query.count();
const table = async (query) => (await query.toTable()).numRows;

async function batches(query) {
    let rows = 0;
    for await (const batch of query.batches()) rows += batch.numRows;
    return rows;
}

/** Relations of one key and one column: the shapes of the paper, and stars. */
async function largeQueries(runtime, bits) {
    const rows = 2 ** bits;
    const few = rows / 4;
    const fact = await facts(runtime, rows, { domainRows: few });
    const [a, b] = [await dimensionOf(runtime, few, "a"), await dimensionOf(runtime, few, "b")];
    const joined = fact.join(a, { on: "k" });
    const star = joined.join(b, { on: "k" });
    const sums = { f: { sum: "f0" }, a: { sum: "a0" }, n: { count: "*" } };
    return [
        ["join, count", joined, count],
        ["sums over a join", joined.groupBy({ keys: [], aggregates: sums }), table],
        ["groups of a join", joined.groupBy({ keys: ["k"], aggregates: { f: { sum: "f0" } } }), count],
        ["sums over a star", star.groupBy({ keys: [], aggregates: { b: { sum: "b0" }, n: { count: "*" } } }), table],
        ["group-by, a group of four rows", fact.groupBy({ keys: ["k"], aggregates: { f: { sum: "f0" } } }), count]
    ].map(([name, query, run]) => ({ name: `${name}, 2^${bits} rows`, query, run }));
}

/** Of several columns, and with keys by Zipf's law. */
async function wideQueries(runtime, bits) {
    const rows = 2 ** bits;
    const made = [];
    for (const columns of [2, 6, 12]) {
        const fact = await facts(runtime, rows, { columns: columns / 2 });
        const dimension = await dimensionOf(runtime, rows, "d", columns / 2);
        const aggregates = Object.fromEntries(numbers("f", columns / 2).map(({ name }) => [name, { sum: name }]));
        made.push([`join of ${columns} columns as batches`, fact.join(dimension, { on: "k" }), batches]);
        made.push([`group-by of ${columns / 2} sums`, fact.groupBy({ keys: ["k"], aggregates }), count]);
    }
    for (const zipf of [0, 1, 1.5]) {
        const fact = await facts(runtime, rows, { zipf });
        const dimension = await dimensionOf(runtime, rows, "d");
        const aggregates = { f: { sum: "f0" } };
        made.push([`join, Zipf ${zipf}`, fact.join(dimension, { on: "k" }), count]);
        made.push([`group-by, Zipf ${zipf}`, fact.groupBy({ keys: ["k"], aggregates }), count]);
    }
    return made.map(([name, query, run]) => ({ name: `${name}, 2^${bits} rows`, query, run }));
}

/** The bytes that crossed the link; nothing where no stage of the GPU told of it. */
function linkOf(report) {
    const told = report.stages.flatMap(({ device }) => {
        const { outOfCore, outOfCoreGroupBy, outOfCoreTree } = device ?? {};
        return [outOfCore, outOfCoreGroupBy, ...(outOfCoreTree?.operators ?? [])].filter((of) => of !== undefined);
    });
    const sum = (name) => told.reduce((bytes, of) => bytes + (of[name] ?? 0), 0);
    return told.length === 0 ? {} : { link_bytes: { h2d: sum("h2dBytes"), d2h: sum("d2hBytes") } };
}

/** Times of a query on one device, the first run left out, or why the device does not run it. */
async function timesOf({ query, run }, samples) {
    try {
        const times = [];
        let rows;
        for (let i = 0; i <= samples; i++) {
            const start = performance.now();
            rows = await run(query);
            times.push(performance.now() - start);
        }
        const report = query.report();
        const algorithm = report.stages.map((stage) => stage.algorithm).join("; ");
        const told = { rows: Number(rows), predicted_ms: round(report.predictedMs), algorithm, ...linkOf(report) };
        return { samples_ms: times.slice(1).map(round), ...told };
    } catch (error) {
        if (!["UNSUPPORTED_TYPE", "BUDGET_TOO_SMALL", "OUT_OF_MEMORY"].includes(error.code)) throw error;
        return { refused: error.message };
    }
}

/** All queries of a set, with the relations of one runtime. */
async function measure(runtime, set, options) {
    const output = join(options.folder, `result-${process.pid}.arrow`);
    const queries = await set.make(runtime, output);
    const told = new Map();
    for (const query of queries) {
        told.set(query.name, await timesOf(query, options.samples));
        rmSync(output, { force: true });
        const { samples_ms: times, refused, predicted_ms: planned } = told.get(query.name);
        const what = refused ?? `${times.join(", ")} ms, ${planned} planned`;
        process.stderr.write(`${set.name}: ${query.name}: ${what}\n`);
    }
    return told;
}

function setsOf(options) {
    const { scale, bits, wideBits, limits, largeLimits } = options;
    const suite = async (runtime, output) => queriesOf(await openTables(runtime, options), output);
    const sets = [
        { name: `suite, TPC-H-like scale ${scale}`, limits, make: suite, size: scale },
        { name: "one column a side", limits: largeLimits, make: (runtime) => largeQueries(runtime, bits), size: bits },
        { name: "widths and skew", limits: ["2GiB"], make: (runtime) => wideQueries(runtime, wideBits), size: wideBits }
    ];
    return sets.filter(({ size }) => size > 0);
}

async function main() {
    const options = readOptions();
    if (options.scale > 0) await generateTables(options);
    const records = [];
    for (const set of setsOf(options)) {
        const cpu = await openRuntime({ device: "cpu", memory: { host } });
        const onCpu = await measure(cpu, set, options);
        await cpu.close();
        for (const limit of set.limits) {
            const gpu = await openRuntime({ device: "gpu", memory: { host, device: limit } });
            const { name: gpuName } = gpu.devices().find(({ kind }) => kind === "gpu");
            const onGpu = await measure(gpu, set, options);
            await gpu.close();
            for (const [name, { rows, samples_ms: times, ...told }] of onGpu) {
                const { samples_ms: cpuTimes, rows: cpuRows, refused } = onCpu.get(name);
                records.push({
                    experiment: "node-out-of-core",
                    workload: { name, set: set.name, device_limit: limit, runs: options.samples },
                    ...(times === undefined ? {} : { median_ms: round(medianOf(times)), samples_ms: times }),
                    ...{ rows_out: rows, ...told },
                    ...(refused === undefined ? { cpu_engine_ms: round(medianOf(cpuTimes)) } : {}),
                    ...(times === undefined || refused !== undefined ? {} : { verified: rows === cpuRows }),
                    ...{ device: `${gpuName}; ${deviceName()}`, date: new Date().toISOString(), commit: options.commit }
                });
            }
            if (options.record !== undefined) writeFileSync(options.record, `${JSON.stringify(records, null, 4)}\n`);
        }
    }
    for (const { workload, verified } of records.filter((of) => of.verified === false)) {
        process.stderr.write(`${workload.name}: another number of rows than the CPU engine has\n`);
        if (!verified) process.exitCode = 1;
    }
}

await main();
