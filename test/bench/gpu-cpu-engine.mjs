// SPDX-License-Identifier: Apache-2.0
/**
 * Spillway's CPU engine, a radix join on all cores of the host, for the joins that the GPU benchmark times: count and
 * sums of an equi-join of two Arrow tables in memory, the ones of gpu-duckdb.mjs: unique int64 build keys in a shuffled
 * order, foreign probe keys, an int64 payload each. The sums are those of a group-by without keys over the join: the
 * API has none of a join itself, so that joined payloads pass through the host's memory, in 24 bytes a row.
 * Beside them the time of count(), which writes no row and needs no payload, so that the planner may take another join.
 * node test/bench/gpu-cpu-engine.mjs --build-rows N --probe-rows N [--samples N] [--warmup N] [--threads N]
 * Writes one JSON object. Exit code 1: the result is wrong; 3: there is no built package here, or too little memory, as
 * the last line of stderr says.
 */
import { freemem } from "node:os";
import { performance } from "node:perf_hooks";

import { medianOf, notHere, readNumbers, writeOutcome } from "./gpu-engine.mjs";

const batchRows = 2 ** 20;
const rowBytes = 16;

function leaveOut(why) {
    process.stderr.write(`${why}\n`);
    process.exit(notHere);
}

/** The engine is opened too: its addon may be missing, or made for another system. */
async function loadSpillway({ buildRows, probeRows, threads }) {
    const inputs = rowBytes * (buildRows + probeRows);
    // Inputs are not counted; partitions of both sides take as much again, joined payloads up to three quarters of it.
    const host = 2 ** 30 + 2 * inputs;
    const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);
    if (inputs + host > freemem()) {
        leaveOut(`The CPU engine takes ${gib(inputs + host)} GiB for this join and ${gib(freemem())} GiB are free.`);
    }
    try {
        const [arrow, { openRuntime }] = await Promise.all([import("apache-arrow"), import("../../dist/index.js")]);
        return { arrow, runtime: await openRuntime({ device: "cpu", threads, memory: { host } }) };
    } catch (error) {
        return leaveOut(`The CPU engine cannot be loaded here: ${error.message.split("\n")[0]}`);
    }
}

// Odd, below 2^32.
const factors = [2654435761, 2246822519];

/** Fills a batch with a bijection of 0 ... 2^bits - 1, without order: odd factors modulo 2^bits, and the upper bits. */
function* buildBatches({ buildRows }, batch) {
    const bits = Math.max(1, Math.ceil(Math.log2(buildRows)));
    const mask = 2 ** bits - 1;
    const half = Math.ceil(bits / 2);
    for (let row = 0; row < 2 ** bits;) {
        const { keys, values } = batch.next();
        let [rows, sum] = [0, 0];
        for (; rows < batchRows && row < 2 ** bits; ++row) {
            const first = (Math.imul(row, factors[0]) & mask) >>> 0;
            const key = (Math.imul(first ^ (first >>> half), factors[1]) & mask) >>> 0;
            if (key >= buildRows) continue; // the others are 0 ... buildRows - 1, each once
            keys[2 * rows] = key;
            values[2 * rows] = key + 1;
            sum += key;
            ++rows;
        }
        yield { rows, sum };
    }
}

/** Fills a batch with keys of the build side, at random: a mix of the row's number as a fraction of all. */
function* probeBatches({ buildRows, probeRows }, batch) {
    for (let begin = 0; begin < probeRows; begin += batchRows) {
        const { keys, values } = batch.next();
        const rows = Math.min(batchRows, probeRows - begin);
        let sum = 0;
        for (let index = 0; index < rows; ++index) {
            const row = begin + index;
            const first = Math.imul(row ^ (row >>> 16), 0x85ebca6b);
            const second = Math.imul(first ^ (first >>> 13), 0xc2b2ae35);
            const key = Math.floor((((second ^ (second >>> 16)) >>> 0) * buildRows) / 2 ** 32);
            keys[2 * index] = key;
            values[2 * index] = row;
            sum += key;
        }
        yield { rows, sum };
    }
}

/** Arrow batches of two int64 columns whose values are below 2^32: the lower words are filled. And the keys' sum. */
function tableOf(arrow, [keyName, valueName], batches, given) {
    let words;
    const next = () => {
        words = [new Uint32Array(2 * batchRows), new Uint32Array(2 * batchRows)];
        return { keys: words[0], values: words[1] };
    };
    const all = [];
    let keys = 0n;
    // Sums of a batch are exact as numbers.
    for (const { rows, sum } of batches(given, { next })) {
        const [key, value] = words.map(({ buffer }) => arrow.makeVector(new BigInt64Array(buffer, 0, rows)));
        if (rows > 0) all.push(...new arrow.Table({ [keyName]: key, [valueName]: value }).batches);
        keys += BigInt(sum);
    }
    return { batches: all, keys };
}

/** Both relations, and the row that the query must give: every probe row has one partner, whose payload is key + 1. */
function makeTables(arrow, given) {
    if (Math.max(given.buildRows, given.probeRows) >= 2 ** 32) throw new Error("Expected less than 2^32 rows a side.");
    const build = tableOf(arrow, ["r_key", "r_value"], buildBatches, given);
    const probe = tableOf(arrow, ["s_key", "s_value"], probeBatches, given);
    const rows = BigInt(given.probeRows);
    return { tables: [build.batches, probe.batches], expected: [rows, probe.keys + rows, (rows * (rows - 1n)) / 2n] };
}

function queriesOf(runtime, [left, right]) {
    const relations = [runtime.fromTable(left, { name: "r" }), runtime.fromTable(right, { name: "s" })];
    const join = relations[0].join(relations[1], { on: { r_key: "s_key" }, select: ["r_value", "s_value"] });
    const aggregates = { rows: { count: "*" }, build: { sum: "r_value" }, probe: { sum: "s_value" } };
    return { join, sums: join.groupBy({ keys: [], aggregates }) };
}

const milliseconds = (value) => Number(value.toFixed(3));

/** Times of all runs but the first ones, what the last one gave, and what it did by stage. */
async function measure(query, { warmup, samples }, run) {
    const samples_ms = [];
    let found;
    for (let done = 0; done < warmup + samples; ++done) {
        const start = performance.now();
        found = await run();
        if (done >= warmup) samples_ms.push(milliseconds(performance.now() - start));
    }
    const { stages, peakBytes, spilledBytes } = query.report();
    return {
        ...{ found, median_ms: medianOf(samples_ms), samples_ms, peakBytes, spilledBytes },
        stages: stages.map(({ name, algorithm, actualMs }) => ({ name, algorithm, ms: milliseconds(actualMs) }))
    };
}

async function main() {
    const given = readNumbers();
    const { arrow, runtime } = await loadSpillway(given);
    const { tables, expected } = makeTables(arrow, given);
    const { join, sums } = queriesOf(runtime, tables);
    const counted = await measure(join, given, () => join.count());
    const { found, samples_ms, stages, peakBytes, spilledBytes } = await measure(sums, given, async () => {
        const table = await sums.toTable();
        return ["rows", "build", "probe"].map((name) => table.getChild(name).get(0));
    });
    await runtime.close();
    writeOutcome(given, {
        ...{ algorithm: "cpu-radix", samples_ms, stages },
        ...{ found: [...found, counted.found], expected: [...expected, expected[0]] },
        count: { median_ms: counted.median_ms, samples_ms: counted.samples_ms, stages: counted.stages },
        ...{ bytes_to_disk: spilledBytes, peak_bytes: { host: peakBytes } }
    });
}

await main();
