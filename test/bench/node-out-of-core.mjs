// SPDX-License-Identifier: Apache-2.0
/**
 * Queries larger than GPU memory, from Node, beside the CPU engine and DuckDB: those of node-auto-queries.mjs over
 * TPC-H-like tables as Arrow files, and joins, sums, group-bys and stars of generated relations in memory, of 2, 6 and
 * 12 columns and with skewed keys.
 * node test/bench/node-out-of-core.mjs [--limits 64GiB,4GiB,1GiB] [--scale 10] [--large-limits 16GiB,4GiB] [--bits 28]
 *     [--wide-bits 26] [--named-bits 28] [--samples 3] [--duckdb on|off] [--folder PATH]
 *     [--record FILE --commit HASH]
 * `--scale 0`, `--bits 0`, `--wide-bits 0`, `--named-bits 0`: without these. Needs the built package and a GPU; no
 * network. Each query runs once more than samples are taken, first. A record has the times, what was planned, the bytes
 * on the link, and what the CPU engine takes; a query that the GPU refuses has the reason. DuckDB has the same cores,
 * and the tables of one set at a time in its memory: of the same shape as those of Spillway, not of the same values
 * (node-duckdb-tables.mjs). Its batches are read chunk by chunk, its files are Parquet. Records of other queries that
 * FILE has already stay in it if they are of the same commit. Exit code 1: the devices disagree about a result.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";

import { openRuntime } from "../../dist/index.js";
import { loadDuckdb, medianOf } from "./gpu-engine.mjs";
import { deviceName } from "./machine-name.mjs";
import { queriesOf } from "./node-auto-queries.mjs";
import { largeTables, namedTables, suiteTables, wideTables } from "./node-duckdb-tables.mjs";
import { measureDuckdb } from "./node-duckdb.mjs";
import { largeQueries, namedQueries, wideQueries } from "./node-generated-queries.mjs";
import { linkOf } from "./node-report.mjs";
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
            "named-bits": { ...text, default: "28" },
            samples: { ...text, default: "3" },
            duckdb: { ...text, default: "on" },
            folder: { ...text, default: join(tmpdir(), "spillway-node-out-of-core") },
            ...{ record: text, commit: text }
        }
    });
    if (!["on", "off"].includes(values.duckdb)) {
        throw new Error(`Expected 'on' or 'off' for --duckdb but received '${values.duckdb}'.`);
    }
    const number = (name) => Number(values[name]);
    return {
        ...values,
        limits: values.limits.split(","),
        largeLimits: values["large-limits"].split(","),
        ...{ scale: number("scale"), bits: number("bits"), wideBits: number("wide-bits") },
        ...{ namedBits: number("named-bits"), samples: number("samples") }
    };
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
async function measure(device, memory, set, options) {
    const runtime = await openRuntime({ device, memory });
    const output = join(options.folder, `result-${process.pid}.arrow`);
    const queries = await set.make(runtime, output, device);
    const told = new Map();
    for (const query of queries) {
        told.set(query.name, await timesOf(query, options.samples));
        rmSync(output, { force: true });
        const { samples_ms: times, refused, predicted_ms: planned } = told.get(query.name);
        const what = refused ?? `${times.join(", ")} ms, ${planned} planned`;
        process.stderr.write(`${set.name}: ${query.name}: ${what}\n`);
    }
    const gpuName = runtime.devices().find(({ kind }) => kind === "gpu")?.name;
    await runtime.close();
    return { told, gpuName };
}

function setsOf(options) {
    const { scale, bits, wideBits, namedBits, limits, largeLimits } = options;
    const suite = async (runtime, output) => queriesOf(await openTables(runtime, options), output);
    const sets = [
        {
            name: `suite, TPC-H-like scale ${scale}`,
            ...{ limits, make: suite, size: scale, duckdbTables: () => suiteTables(scale) }
        },
        {
            name: "one column a side",
            make: (runtime) => largeQueries(runtime, bits),
            ...{ limits: largeLimits, size: bits, duckdbTables: () => largeTables(bits) }
        },
        {
            name: "widths and skew",
            make: (runtime) => wideQueries(runtime, wideBits),
            ...{ limits: ["2GiB"], size: wideBits, duckdbTables: () => wideTables(wideBits) }
        },
        {
            name: "joins by name",
            make: (runtime, _output, device) => namedQueries(runtime, namedBits, device),
            ...{ limits: largeLimits, size: namedBits, duckdbTables: () => namedTables(namedBits) }
        }
    ];
    return sets.filter(({ size }) => size > 0);
}

/** What DuckDB took for a query, or why it did not run it. */
function duckdbOf(measured, name) {
    const { samples_ms: times, rows, refused } = measured.queries.get(name);
    const told = refused === undefined ? { duckdb_ms: round(medianOf(times)), duckdb_rows: rows } : {};
    return { ...told, ...(refused === undefined ? {} : { duckdb_refused: refused }), duckdb_version: measured.version };
}

/** All queries of a set on the GPU under one limit, beside what the CPU engine took. */
async function recordsOf(set, limit, onCpu, options) {
    const { told: onGpu, gpuName } = await measure("gpu", { host, device: limit }, set, options);
    return [...onGpu].map(([name, { rows, samples_ms: times, ...told }]) => {
        const { samples_ms: cpuTimes, rows: cpuRows, refused } = onCpu.get(name);
        return {
            experiment: "node-out-of-core",
            workload: { name, set: set.name, device_limit: limit, runs: options.samples },
            ...(times === undefined ? {} : { median_ms: round(medianOf(times)), samples_ms: times }),
            ...{ rows_out: rows, ...told },
            ...(refused === undefined ? { cpu_engine_ms: round(medianOf(cpuTimes)) } : {}),
            ...(times === undefined || refused !== undefined ? {} : { verified: rows === cpuRows }),
            ...{ device: `${gpuName}; ${deviceName()}`, date: new Date().toISOString(), commit: options.commit }
        };
    });
}

/** Sets may be measured by several runs, side by side on machines with more than one GPU. */
function record(records, { record: file, commit }) {
    if (file === undefined) return;
    const before = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
    const keyOf = ({ workload }) => `${workload.set}; ${workload.device_limit}; ${workload.name}`;
    const measured = new Set(records.map(keyOf));
    const kept = before.filter((of) => of.commit === commit && !measured.has(keyOf(of)));
    writeFileSync(file, `${JSON.stringify([...kept, ...records], null, 4)}\n`);
}

async function main() {
    const options = readOptions();
    const duckdb = options.duckdb === "on" ? await loadDuckdb() : undefined;
    if (options.scale > 0) await generateTables(options);
    const records = [];
    for (const set of setsOf(options)) {
        const { told: onCpu } = await measure("cpu", { host }, set, options);
        const ofSet = [];
        for (const limit of set.limits) {
            ofSet.push(...(await recordsOf(set, limit, onCpu, options)));
            record([...records, ...ofSet], options);
        }
        if (duckdb !== undefined) {
            const onDuckdb = await measureDuckdb(duckdb, set.duckdbTables(), [...onCpu.keys()], options);
            for (const told of ofSet) Object.assign(told, duckdbOf(onDuckdb, told.workload.name));
        }
        records.push(...ofSet);
        record(records, options);
    }
    for (const { workload, verified } of records.filter((of) => of.verified === false)) {
        process.stderr.write(`${workload.name}: another number of rows than the CPU engine has\n`);
        if (!verified) process.exitCode = 1;
    }
}

await main();
