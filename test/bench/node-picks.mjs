// SPDX-License-Identifier: Apache-2.0
/**
 * Joins and group-bys in GPU memory that are drawn at random, from Node: what the planner takes of its own accord and
 * what it predicts, beside the algorithms that can do the same, by the device time of the stage in the query's report.
 * node test/bench/node-picks.mjs [--seed 7] [--joins 24] [--groups 16] [--bytes 250000000] [--samples 2]
 *     [--experiment in-core-wide] [--algorithms phj-tr,hgb] [--memory 100GiB] [--record FILE --commit HASH]
 * Shapes are those of gpu-drawn.mjs from the seed, or those of an experiment that have a target; every other pair of
 * drawn joins is not inner. They are halved until inputs and results have at most so many bytes. Needs the built
 * package and a GPU; no network. Each query runs once more than samples are taken, first. Exit code 1: algorithms
 * disagree about the number of rows.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { openRuntime } from "../../dist/index.js";
import { drawnWorkloads, joinTypes } from "./gpu-drawn.mjs";
import { medianOf } from "./gpu-engine.mjs";
import { experimentParts } from "./gpu-grid.mjs";

const allAlgorithms = {
    join: ["phj-tr", "npj-perfect", "npj", "smj-ur", "smj-tr", "phj-ur"],
    "group-by": ["hgb", "pgb-tr", "sgb-ur", "sgb-tr"]
};
const types = joinTypes.slice(1).flatMap((type) => ["inner", type]);
const intTypes = { 1: "int8", 2: "int16", 4: "int32", 8: "int64" };
const round = (ms) => Number(ms.toFixed(4));
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

function readOptions() {
    const text = { type: "string" };
    const { values } = parseArgs({
        options: {
            ...{ seed: { ...text, default: "7" }, joins: { ...text, default: "24" } },
            ...{ groups: { ...text, default: "16" }, bytes: { ...text, default: "250000000" } },
            ...{ samples: { ...text, default: "2" }, memory: { ...text, default: "100GiB" } },
            ...{ experiment: text, algorithms: text, record: text, commit: text }
        }
    });
    const numbers = ["seed", "joins", "groups", "bytes", "samples"].map((name) => [name, Number(values[name])]);
    return { ...values, ...Object.fromEntries(numbers) };
}

function columns(widths, suffix) {
    return widths.map((width, i) => ({ name: `${suffix}${i}`, type: intTypes[width] }));
}

/** A drawn join whose inputs and result have at most so many bytes. */
function smallJoin(workload, bytesMax) {
    let { build_rows, probe_rows } = workload;
    const { key_bytes, payload_bytes, match_ratio, distinct_keys } = workload;
    const copies = distinct_keys === undefined ? 1 : Math.max(1, Math.round(workload.build_rows / distinct_keys));
    const widths = [key_bytes + sum(payload_bytes.build), key_bytes + sum(payload_bytes.probe)];
    const bytes = () => {
        const result = probe_rows * Math.min(copies, build_rows) * match_ratio * (widths[0] + widths[1]);
        return Math.max(build_rows * widths[0] + probe_rows * widths[1], result);
    };
    while (bytes() > bytesMax && probe_rows > 1024) {
        probe_rows = Math.ceil(probe_rows / 2);
        if (build_rows > 2 * copies) build_rows = Math.ceil(build_rows / 2);
    }
    return { ...workload, build_rows, probe_rows, copies: Math.min(copies, build_rows) };
}

/** "drawn 7.3": rows are fewer than the rest of the name says, and there are no hot keys but Zipf's. */
const labelOf = ({ name }) => name.replace(/^(drawn [\d.]+):.*/, "$1");

const inMemory = async (runtime, spec) => await runtime.generate(spec, "memory");

async function joinOf(runtime, drawn, options) {
    const workload = smallJoin(drawn, options.bytes);
    const { build_rows, probe_rows, key_bytes, payload_bytes, match_ratio, zipf, copies, type = "inner" } = workload;
    const key = { name: "key", type: intTypes[key_bytes] };
    const duplicates = copies > 1 ? { duplicates: copies } : {};
    const build = await inMemory(runtime, {
        ...{ rows: build_rows, seed: options.seed, key: { ...key, ...duplicates } },
        payload: columns(payload_bytes.build, "b")
    });
    const domainRows = Math.max(1, Math.floor(build_rows / copies));
    const probe = await inMemory(runtime, {
        ...{ rows: probe_rows, seed: options.seed + 1 },
        key: { ...key, role: "foreign", domainRows, zipf, matchRatio: match_ratio },
        payload: columns(payload_bytes.probe, "p")
    });
    // The left side is the probe side, except in semi and anti joins of build rows, which keep rows of their left side.
    const ofBuild = type.startsWith("right-");
    const [left, right] = ofBuild ? [build, probe] : [probe, build];
    const described = { key_bytes, payload_bytes, build_rows, probe_rows, match_ratio, zipf, copies, type };
    return {
        operator: "join",
        workload: { name: `${labelOf(drawn)}: ${build_rows} x ${probe_rows} rows, ${type}`, ...described },
        query: (algorithm) => runtime.join({ left, right, on: "key", type: type.replace("right-", ""), algorithm })
    };
}

async function groupByOf(runtime, drawn, options) {
    const { key_bytes, payload_bytes, zipf, aggregate = "max" } = drawn;
    const width = key_bytes + sum(payload_bytes);
    const rows = Math.min(drawn.rows, Math.floor(options.bytes / width));
    const groups = Math.max(1, Math.min(drawn.groups, rows));
    const relation = await inMemory(runtime, {
        ...{ rows, seed: options.seed },
        key: { name: "key", type: intTypes[key_bytes], role: "foreign", domainRows: groups, zipf },
        payload: columns(payload_bytes, "v")
    });
    const aggregates = Object.fromEntries(payload_bytes.map((_, i) => [`a${i}`, { [aggregate]: `v${i}` }]));
    return {
        operator: "group-by",
        workload: {
            name: `${labelOf(drawn)}: ${rows} rows, g = ${groups}`,
            key_bytes,
            payload_bytes,
            rows,
            groups,
            zipf,
            aggregate
        },
        query: (algorithm) => relation.groupBy({ keys: ["key"], aggregates, algorithm })
    };
}

/** Device times of the operation, what ran, and how many rows came; undefined where the GPU does not do it so. */
async function timesOf(query, samples) {
    try {
        const times = [];
        let rows = 0;
        for (let run = 0; run <= samples; run++) {
            rows = 0;
            for await (const batch of query.batches()) rows += batch.numRows;
            const stage = query.report().stages.find(({ device }) => device?.phases !== undefined);
            if (stage === undefined) return undefined;
            times.push(sum(Object.values(stage.device.phases)));
        }
        const { device, predictedMs } = query.report().stages.find((one) => one.device?.phases !== undefined);
        const samples_ms = times.slice(1).map(round);
        const { algorithm, ranAs } = device;
        return { algorithm, ...(ranAs && { ranAs }), median_ms: medianOf(samples_ms), samples_ms, rows, predictedMs };
    } catch (error) {
        if (!["UNSUPPORTED_TYPE", "INVALID_ARGUMENT", "OUT_OF_MEMORY"].includes(error.code)) throw error;
        return undefined;
    }
}

/** What the planner took, beside all that can do it. */
async function measure({ operator, workload, query }, { experiment, algorithms, samples }) {
    const auto = await timesOf(query("auto"), samples);
    if (auto === undefined) return undefined;
    const others = [];
    for (const name of algorithms?.split(",") ?? allAlgorithms[operator]) {
        if (!allAlgorithms[operator].includes(name)) continue;
        const times = await timesOf(query(name), samples);
        if (times !== undefined && times.ranAs === undefined) others.push({ ...times, algorithm: name });
    }
    const agrees = others.every(({ rows }) => rows === auto.rows);
    const pick = auto.ranAs ?? auto.algorithm;
    // The pick once more by its name: the better of both is what it takes.
    const named = others.find(({ algorithm }) => algorithm === pick);
    const pick_ms = Math.min(auto.median_ms, named?.median_ms ?? Infinity);
    const best = others.reduce((least, one) => (one.median_ms < least.median_ms ? one : least), {
        algorithm: pick,
        median_ms: pick_ms
    });
    return {
        ...{
            experiment: `node-${experiment ?? "in-core-picks"}`,
            workload,
            pick,
            pick_ms,
            predicted_ms: round(auto.predictedMs)
        },
        ...{ best: best.algorithm, best_ms: best.median_ms, ratio: round(pick_ms / best.median_ms) },
        algorithms: Object.fromEntries(others.map(({ algorithm, samples_ms }) => [algorithm, samples_ms])),
        ...{ auto_ms: auto.samples_ms, rows_out: auto.rows, verified: agrees }
    };
}

/** Operators and workloads of an experiment, those with a target; or drawn ones. */
function workloadsOf({ experiment, seed, joins, groups }) {
    if (experiment === undefined) {
        const drawn = (operator, cells) => drawnWorkloads({ operator, drawn: [{ seed, cells, types }] });
        return [
            ["join", drawn("join", joins)],
            ["group-by", drawn("group-by", groups)]
        ];
    }
    const file = new URL(`../../configs/experiments/${experiment}.json`, import.meta.url);
    const parts = experimentParts(JSON.parse(readFileSync(file, "utf8")));
    return parts.map(({ operator = "join", workloads }) => [
        operator,
        workloads.filter(({ target_ms }) => target_ms !== undefined)
    ]);
}

/** Makes the inputs of each workload when its turn comes. */
function shapesOf(runtime, options) {
    return workloadsOf(options).flatMap(([operator, workloads]) => {
        const make = operator === "group-by" ? groupByOf : joinOf;
        return workloads.map((one) => () => make(runtime, one, options));
    });
}

async function main() {
    const options = readOptions();
    const runtime = await openRuntime({ device: "gpu", memory: { device: options.memory, host: "60GiB" } });
    const device = runtime.devices().find(({ kind }) => kind === "gpu")?.name;
    const told = { device, date: new Date().toISOString().slice(0, 10), commit: options.commit };
    const records = [];
    // What is measured stays so, should the time for all of it end.
    const keep = () => {
        if (options.record === undefined) return;
        const all = records.map((record) => ({ ...record, ...told }));
        writeFileSync(options.record, `${JSON.stringify(all, null, 4)}\n`);
    };
    for (const shape of shapesOf(runtime, options)) {
        const record = await measure(await shape(), options);
        if (record === undefined) continue;
        records.push(record);
        keep();
        const { workload, pick, pick_ms, best, best_ms, ratio, predicted_ms, verified } = record;
        const line = `${pick} ${pick_ms} ms (stage planned ${predicted_ms}), best ${best} ${best_ms}, ratio ${ratio}`;
        process.stderr.write(`${workload.name}: ${line}${verified ? "" : ", ROWS DIFFER"}\n`);
    }
    await runtime.close();
    const good = records.filter(({ ratio }) => ratio <= 1.1).length;
    const far = records.filter(({ ratio }) => ratio > 1.3).length;
    process.stdout.write(`seed ${options.seed}: ${good} of ${records.length} picks within 1.1 of the best, `);
    process.stdout.write(`${far} beyond 1.3\n`);
    if (records.some(({ verified }) => !verified)) process.exitCode = 1;
}

await main();
