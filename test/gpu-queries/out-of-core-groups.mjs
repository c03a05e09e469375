// SPDX-License-Identifier: Apache-2.0
// Group-bys of relations larger than GPU memory: keys and values of every width, NULLs, groups that stay in GPU memory
// and such that leave it, for host memory and disk, against the CPU engine; sizes and errors; how fast large ones are.

import { makeVector, Table } from "apache-arrow";
import { openRuntime } from "../../dist/index.js";
import { check, compareWith, knobs, options, reference } from "./checks.mjs";
import { randomNumbers, relation } from "./relations.mjs";

const mebibyte = 2 ** 20;
const keySets = [
    ["text"],
    ["text", "int32"],
    ["text", "text"],
    ["dictionaries"],
    ["int32"],
    ["int64"],
    ["float64"],
    ["timestamp"],
    ["bool"],
    ["int32", "bool"],
    ["int64", "int64"],
    ["decimal", "text", "int64"],
    ["binary of 6 bytes"],
    []
];
const aggregateSets = [
    { sum: { sum: "p_int64_l" } },
    { mean: { mean: "p_int32_l" }, least: { min: "p_int8_l" } },
    { least: { min: "p_float64_l" }, most: { max: "p_float64_l" } },
    { n: { count: "*" }, some: { count: "p_decimal_l" } },
    { words: { count: "p_dictionary_l" }, texts: { count: "p_text_l" } },
    { least: { min: "p_text_l" }, most: { max: "p_text_l" }, bytes: { max: "p_binary_l" } },
    { sum: { sum: "p_decimal_l" }, mean: { mean: "p_decimal_l" } },
    { least: { min: "p_decimal_l" }, most: { max: "p_decimal_l" }, first: { first: "p_decimal_l" } },
    { text: { first: "p_text_l" }, word: { first: "p_dictionary_l" }, flag: { first: "p_bool_l" } },
    { values: { countDistinct: "p_int16_l" }, texts: { countDistinct: "p_text_l" }, n: { count: "*" } },
    { bytes: { first: "p_binary_l" }, number: { first: "p_int64_l" }, short: { first: "p_int8_l" } },
    {}
];
const sharesAndBits = [
    { residentShare: 0, radixBits: 3 },
    { residentShare: 0.3, radixBits: 6, hostSpillBytes: 4096 },
    { residentShare: 1, radixBits: 0 },
    { residentShare: 0.1, radixBits: 11 }
];

const ranOutOfCore = ({ stages }) =>
    stages[0]?.device?.outOfCoreGroupBy === undefined ? "did not run out of core" : null;

async function types(cpu) {
    let seed = 8000;
    const sizes = options.small ? [300] : [0, 5000, 80_000];
    for (const sizesOfPlan of options.small ? sharesAndBits.slice(0, 2) : sharesAndBits) {
        const chunkRows = options.small ? 64 : 4096;
        const memory = { host: "2GiB", device: "512MiB" };
        const gpu = await openRuntime({
            device: "gpu",
            memory,
            ...knobs({ outOfCore: true, chunkRows, ...sizesOfPlan })
        });
        for (const keys of options.small ? keySets.slice(-7) : keySets) {
            for (const rows of sizes) {
                const random = randomNumbers(seed++);
                const domain = [2, Math.ceil(rows / 10) + 1, rows + 1][random(3)];
                const nullPercent = random(2) * 10;
                const table = relation(random, { keys, side: 0, rows, domain, nullPercent, suffix: "_l" });
                for (const aggregates of aggregateSets) {
                    if (keys.length === 0 && Object.keys(aggregates).length === 0) continue;
                    const make = (runtime) =>
                        runtime.groupBy(runtime.fromTable(table), { keys: keys.map((_, i) => `k${i}`), aggregates });
                    const what = `group-by out-of-core on ${keys.join(", ")}: ${rows} rows, ${domain} keys`;
                    const told = `${what}, ${Object.keys(aggregates).join(", ")}, ${JSON.stringify(sizesOfPlan)}`;
                    await check(told, () => compareWith(make(gpu), reference(make(cpu)), ranOutOfCore));
                }
            }
        }
        await gpu.close();
    }
}

/** Sums of so many 64-bit columns, whose partial rows have 40 to 208 bytes: all, a part and none of them spilled. */
async function wide(cpu) {
    const rows = options.small ? 700 : 60_000;
    const chunkRows = options.small ? 64 : 4096;
    const memory = { host: "2GiB", device: "512MiB" };
    for (const more of sharesAndBits.slice(0, options.small ? 2 : 4)) {
        const gpu = await openRuntime({ device: "gpu", memory, ...knobs({ outOfCore: true, chunkRows, ...more }) });
        for (const sums of [2, 4, 6, 12]) {
            for (const groups of [1, Math.ceil(rows / 3)]) {
                const random = randomNumbers(9000 + sums);
                const value = () => BigInt(random(2 ** 31)) * 2n ** 20n - 2n ** 50n;
                const column = () => makeVector(BigInt64Array.from({ length: rows }, value));
                const names = Array.from({ length: sums }, (_, i) => `v${i}`);
                const key = makeVector(BigInt64Array.from({ length: rows }, () => BigInt(random(groups))));
                const table = new Table({ k: key, ...Object.fromEntries(names.map((name) => [name, column()])) });
                const aggregates = Object.fromEntries(names.map((name) => [name, { sum: name }]));
                for (const more of [{}, { n: { count: "*" }, mean: { mean: "v0" } }]) {
                    const make = (runtime) => {
                        const wanted = { keys: ["k"], aggregates: { ...aggregates, ...more } };
                        return runtime.groupBy(runtime.fromTable(table), wanted);
                    };
                    const what = `group-by out-of-core: ${sums} sums of 64 bits and ${Object.keys(more).length} more`;
                    const told = `${what}, ${groups} keys, ${JSON.stringify(more)}`;
                    await check(told, () => compareWith(make(gpu), reference(make(cpu)), ranOutOfCore));
                }
            }
        }
        await gpu.close();
    }
}

/** Of two columns: a key among so many, and a number. */
const keyed = (rows, groups) => ({
    rows,
    seed: 5,
    key: { name: "k", role: "foreign", domainRows: groups },
    payload: [{ name: "p" }]
});

/** Relations whose groups fit GPU memory, and do not; prints the rates. */
export async function largeGroups() {
    const bits = options.small ? 15 : Number(options["out-of-core-bits"]);
    const rows = 2 ** bits;
    const device = options.small ? "64MiB" : `${2 ** (bits - 20 + 2)}MiB`;
    const memory = { host: `${Math.ceil(2 ** (bits - 24)) + (options.small ? 1 : 8)}GiB`, device };
    for (const share of [2 ** 10, 16, 1]) {
        const groups = Math.ceil(rows / share);
        const gpu = await openRuntime({ device: "gpu", memory, debug: { outOfCore: true } });
        const input = await gpu.generate(keyed(rows, groups), "memory");
        const query = gpu.groupBy(input, { keys: ["k"], aggregates: { n: { count: "*" }, sum: { sum: "p" } } });
        const told = () => {
            const report = query.report();
            const link = report.stages[0].device?.outOfCoreGroupBy;
            if (link === undefined) throw new Error(`ran ${report.stages[0].algorithm}`);
            const { readMs, residentMs, spilledMs, predicted, h2dBytes, d2hBytes } = link;
            const phases = (of) => [of.readMs, of.residentMs, of.spilledMs].map((ms) => ms.toFixed(0)).join(" + ");
            const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(2)} GB`;
            const rate = (rows / (readMs + residentMs + spilledMs) / 1e6).toFixed(2);
            console.log(
                `    ${report.elapsedMs.toFixed(0)} ms; GPU ${phases(link)} ms (${rate} G rows/s), predicted ` +
                    `${phases(predicted)}; ${gigabytes(h2dBytes)} in (${gigabytes(predicted.h2dBytes)}), ` +
                    `${gigabytes(d2hBytes)} out (${gigabytes(predicted.d2hBytes)}); ${link.groupedChunks} of ` +
                    `${link.chunks} chunks grouped, ${link.spilledRows} rows spilled, ${link.compactedRows} compacted`
            );
            const limit = Number.parseInt(device, 10) * mebibyte;
            return report.devicePeakBytes <= limit ? null : `took ${report.devicePeakBytes} bytes of GPU memory`;
        };
        const what = `out-of-core: 2^${bits} rows of 16 bytes among ${groups} keys in ${device}`;
        let counted = 0;
        for (const run of ["first", "second"]) {
            await check(`${what}, counted, ${run}`, async () => {
                counted = await query.count();
                return counted > 0 && counted <= groups ? told() : `${counted} groups`;
            });
        }
        await check(`${what}, batches`, async () => {
            let [found, total] = [0, 0n];
            for await (const batch of query.batches()) {
                found += batch.numRows;
                for (const n of batch.getChild("n").toArray()) total += n;
            }
            return found === counted && total === BigInt(rows) ? told() : `${found} groups of ${total} rows`;
        });
        await gpu.close();
    }
}

/** Host memory holds a part of what is spilled: the rest goes to disk, and comes back. */
async function disk() {
    const rows = options.small ? 2 ** 15 : 2 ** 24;
    const more = options.small ? { chunkRows: 2 ** 12, residentShare: 0, hostSpillBytes: 2 ** 16 } : {};
    const memory = { host: "96MiB", device: options.small ? "64MiB" : "128MiB" };
    const gpu = await openRuntime({ device: "gpu", memory, ...knobs({ outOfCore: true, ...more }) });
    const input = await gpu.generate(keyed(rows, rows), "memory");
    const aggregates = { n: { count: "*" }, sum: { sum: "p" } };
    const of = (groups) => gpu.groupBy(input, { keys: ["k"], aggregates, hints: { groups } });
    const groups = await gpu.groupBy(input, { keys: ["k"], aggregates: {} }).count();
    for (const expected of [groups, 1000]) {
        await check(`out-of-core group-by: ${groups} groups, ${expected} expected, go to disk`, async () => {
            const query = of(expected);
            let [found, total] = [0, 0n];
            for await (const batch of query.batches()) {
                found += batch.numRows;
                for (const n of batch.getChild("n").toArray()) total += n;
            }
            if (found !== groups || total !== BigInt(rows)) return `${found} groups of ${total} rows`;
            const told = query.report().stages[0].device.outOfCoreGroupBy;
            const { diskWrittenBytes, diskReadBytes, spilledMs, predicted } = told;
            const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
            console.log(
                `    disk: ${megabytes(diskWrittenBytes)} written (${megabytes(predicted.diskBytes)}), ` +
                    `${megabytes(diskReadBytes)} read; spilled partitions ${spilledMs.toFixed(0)} ms`
            );
            return diskWrittenBytes > 0 && diskReadBytes >= diskWrittenBytes ? null : "nothing went to disk";
        });
    }
    await gpu.close();
}

async function failures() {
    const memory = { host: "4GiB", device: "256MiB" };
    const gpu = await openRuntime({ device: "gpu", memory, debug: { outOfCore: true } });
    const rows = options.small ? 2 ** 14 : 2 ** 24;
    const input = await gpu.generate(keyed(rows, rows), "memory");
    const query = gpu.groupBy(input, { keys: ["k"], aggregates: { n: { count: "*" } } });
    const groups = await query.count();
    for (const ms of [0, 5, 20, 60]) {
        await check(`out-of-core group-by: aborted after ${ms} ms, then run`, async () => {
            const controller = new AbortController();
            setTimeout(() => controller.abort(), ms);
            const start = performance.now();
            const outcome = await query.count({ signal: controller.signal }).catch((error) => error.name);
            const took = performance.now() - start;
            if (outcome !== "AbortError" && outcome !== groups) return String(outcome);
            if (took > ms + 2000) return `took ${took.toFixed(0)} ms`;
            const counted = await query.count();
            return counted === groups ? null : `${counted} groups`;
        });
    }
    await check("out-of-core group-by: a reader that stops early, and another", async () => {
        for await (const batch of query.batches()) if (batch.numRows > 0) break;
        let found = 0;
        for await (const batch of query.batches()) found += batch.numRows;
        return found === groups ? null : `${found} groups`;
    });
    await gpu.close();
}

export async function outOfCoreGroups(cpu) {
    await types(cpu);
    await wide(cpu);
    await failures();
    await disk();
}
