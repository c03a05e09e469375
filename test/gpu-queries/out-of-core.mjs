// SPDX-License-Identifier: Apache-2.0
// Joins of relations larger than GPU memory: every type of join on keys of every width, with partitions that stay in
// GPU memory and such that leave it, against the CPU engine; sizes and errors; how fast large ones are.
import { join } from "node:path";

import { openRuntime } from "../../dist/index.js";
import { check, compareWith, joinTypes, knobs, measure, onceMade, options, reference } from "./checks.mjs";
import { filteredJoins } from "./out-of-core-filter.mjs";
import { gatheredColumns } from "./out-of-core-gathered.mjs";
import { keyed, randomNumbers, relation } from "./relations.mjs";
import { compareHashes, hashOfRows } from "./row-hash.mjs";

const mebibyte = 2 ** 20;
const keySets = [
    ["int32"],
    ["int64"],
    ["int16 and int32"],
    ["float64"],
    ["float32 and float64"],
    ["date"],
    ["timestamp"],
    ["bool"],
    ["int32", "bool"],
    ["int32", "int16 and int32"]
];
const selects = {
    narrow: { left: ["k0", "p_int8_l", "p_int32_l"], right: ["p_int16_r", "p_bool_r"] },
    wide: { left: ["p_int64_l", "p_float64_l"], right: ["p_decimal_r"] }
};
const oneSided = (type) => type === "semi" || type === "anti";
const sharesAndBits = [
    { residentShare: 0, radixBits: 3 },
    { residentShare: 0.5, radixBits: 6, hostSpillBytes: 2000 },
    { residentShare: 1, radixBits: 0 },
    { residentShare: 0.9, radixBits: 11 }
];

const ranOutOfCore = ({ stages }) => (stages[0]?.device?.outOfCore === undefined ? "did not run out of core" : null);

async function types(cpu) {
    let seed = 7000;
    const sizes = options.small
        ? [[150, 200]]
        : [
              [0, 50],
              [1000, 3000],
              [60_000, 40_000]
          ];
    for (const sizesOfPlan of options.small ? sharesAndBits.slice(0, 2) : sharesAndBits) {
        const chunkRows = options.small ? 64 : 4096;
        const memory = { host: "2GiB", device: "512MiB" };
        const debug = { outOfCore: true, chunkRows, ...sizesOfPlan };
        const gpu = await openRuntime({ device: "gpu", memory, ...knobs(debug) });
        for (const keys of options.small ? keySets.slice(-5) : keySets) {
            for (const [left, right] of sizes) {
                const random = randomNumbers(seed++);
                const few = keys[0] === "bool";
                const rows = few ? [Math.min(left, 300), Math.min(right, 300)] : [left, right];
                const domain = Math.max(2, Math.ceil(Math.max(left, right) / 2));
                const tables = rows.map((count, side) =>
                    relation(random, {
                        ...{ keys, side, rows: count, domain, nullPercent: random(2) * 10 },
                        suffix: side === 0 ? "_l" : "_r"
                    })
                );
                for (const type of joinTypes) {
                    const twoTypes = keys.some((kind) => kind.includes(" and "));
                    const { left: l, right: r } = selects[random(2) === 0 ? "narrow" : "wide"];
                    const names = oneSided(type) ? l : [...l, ...r];
                    // One column cannot hold the keys of two types.
                    const select = type === "full" && twoTypes ? names.filter((name) => name !== "k0") : names;
                    if (type === "full" && twoTypes) continue;
                    const make = (runtime) => {
                        const [a, b] = tables.map((table) => runtime.fromTable(table));
                        return runtime.join({ left: a, right: b, on: keys.map((_, i) => `k${i}`), type, select });
                    };
                    const what = `${type} join out-of-core on ${keys.join(", ")}: ${rows.join(" x ")}`;
                    await check(`${what}, ${JSON.stringify(sizesOfPlan)}`, () =>
                        compareWith(make(gpu), reference(make(cpu)), ranOutOfCore)
                    );
                }
            }
        }
        await gpu.close();
    }
}

/** Few rows would fit. */
function memoryOf(device, bits) {
    const memory = { host: `${Math.ceil(2 ** (bits - 24)) + (options.small ? 1 : 8)}GiB`, device };
    return options.small ? { memory, debug: { outOfCore: true } } : { memory };
}

/** Relations that do not fit the limit, from memory and files, counted and delivered; prints the rates. */
export async function largeJoins(cpu, folder) {
    const bits = options.small ? 15 : Number(options["out-of-core-bits"]);
    const rows = 2 ** bits;
    // A thirty-second of the inputs, an eighth, half.
    const limits = options.small ? ["64MiB"] : [0, 2, 4].map((more) => `${2 ** (bits - 20 + more)}MiB`);
    const tuplesPerSecond = (ms) => `${((2 * rows) / ms / 1e6).toFixed(2)} G tuples/s`;
    const foreign = { key: { name: "k", role: "foreign", domainRows: rows } };
    const expected = onceMade(async () => {
        const left = await cpu.generate(keyed(rows, 1), "memory");
        const right = await cpu.generate(keyed(rows, 2, foreign), "memory");
        return await hashOfRows(cpu.join({ left, right, on: "k" }));
    });
    for (const device of limits) {
        const gpu = await openRuntime({ device: "gpu", ...memoryOf(device, bits) });
        const left = await gpu.generate(keyed(rows, 1), "memory");
        const right = await gpu.generate(keyed(rows, 2, foreign), "memory");
        const query = gpu.join({ left, right, on: "k" });
        const what = `out-of-core: 2^${bits} x 2^${bits} rows of 16 bytes in ${device}`;
        const told = () => {
            const report = query.report();
            const stage = report.stages[0];
            const link = stage.device?.outOfCore;
            if (link === undefined) throw new Error(`ran ${stage.algorithm}`);
            const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(2)} GB`;
            const { h2dBytes, d2hBytes, buildMs, probeMs, spilledMs, predicted } = link;
            const phases = [buildMs, probeMs, spilledMs].map((ms) => ms.toFixed(0)).join(" + ");
            const expected = [predicted.buildMs, predicted.probeMs, predicted.spilledMs];
            console.log(
                `    ${stage.name}: ${report.elapsedMs.toFixed(0)} ms, ${tuplesPerSecond(stage.actualMs)}; GPU ` +
                    `${phases} ms, predicted ${expected.map((ms) => ms.toFixed(0)).join(" + ")}; ` +
                    `${gigabytes(h2dBytes)} in (${gigabytes(predicted.h2dBytes)}), ` +
                    `${gigabytes(d2hBytes)} out (${gigabytes(predicted.d2hBytes)}); ` +
                    `${link.residentPartitions} of ${link.partitions} partitions stayed`
            );
            measure({ elapsedMs: report.elapsedMs, gTuplesPerSecond: (2 * rows) / stage.actualMs / 1e6, link });
            const limit = Number.parseInt(device, 10) * mebibyte;
            return report.devicePeakBytes <= limit ? null : `took ${report.devicePeakBytes} bytes of GPU memory`;
        };
        const counted = () => query.count();
        const delivered = async () => {
            let found = 0;
            for await (const batch of query.batches()) found += batch.numRows;
            return found;
        };
        // The first pins host memory, which the others find there.
        for (const [name, run] of Object.entries({ counted, batches: delivered })) {
            for (const time of ["first", "second", "third"]) {
                await check(`${what}, ${name}, ${time}`, async () => {
                    const found = await run();
                    return found === rows ? told() : `${found} rows`;
                });
            }
        }
        // The CPU engine and this process take too long for more rows.
        if (bits <= 26) await check(`${what}, hash of all rows`, () => compareHashes(query, expected, ranOutOfCore));
        if (bits <= 26 && device === limits[0]) {
            const probe = await cpu.generate(keyed(rows, 2, foreign), "memory");
            await toFile(cpu, query, folder, `${what}, into a file`, rows, probe);
        }
        await gpu.close();
    }
}

/** Each row of the probe side comes once: the sum of its keys is that of the file. */
async function toFile(cpu, query, folder, what, rows, probe) {
    const path = join(folder, "out-of-core.arrow");
    const sumsOf = async (relation) => {
        const aggregates = { n: { count: "*" }, sum: { sum: "k" } };
        const { n, sum } = (await cpu.groupBy(relation, { keys: [], aggregates }).toTable()).get(0);
        return `${n} rows, sum ${sum}`;
    };
    await check(what, async () => {
        const written = await query.toArrowFile(path, { overwrite: true });
        if (written !== rows) return `${written} rows`;
        const [found, wanted] = [await sumsOf(await cpu.fromArrowFile(path)), await sumsOf(probe)];
        return found === wanted ? ranOutOfCore(query.report()) : `${found} instead of ${wanted}`;
    });
}

async function failures() {
    const memory = { host: "4GiB", device: "256MiB" };
    const gpu = await openRuntime({ device: "gpu", memory, debug: { outOfCore: true } });
    const rows = options.small ? 2 ** 14 : 2 ** 24;
    const left = await gpu.generate(keyed(rows, 1), "memory");
    const right = await gpu.generate(keyed(rows, 2), "memory");
    const query = gpu.join({ left, right, on: "k" });
    for (const ms of [0, 5, 20, 60]) {
        await check(`out-of-core: aborted after ${ms} ms, then run`, async () => {
            const controller = new AbortController();
            setTimeout(() => controller.abort(), ms);
            const start = performance.now();
            const outcome = await query.count({ signal: controller.signal }).catch((error) => error.name);
            const took = performance.now() - start;
            if (outcome !== "AbortError" && outcome !== rows) return String(outcome);
            if (took > ms + 2000) return `took ${took.toFixed(0)} ms`;
            const counted = await query.count();
            return counted === rows ? null : `${counted} rows`;
        });
    }
    await check("out-of-core: a reader that stops early, and one with queries of its own", async () => {
        for await (const batch of query.batches()) if (batch.numRows > 0) break;
        let found = 0;
        let first = true;
        for await (const batch of query.batches()) {
            found += batch.numRows;
            if (
                first &&
                (await gpu
                    .join({ left, right: left, on: "k" })
                    .count()
                    .catch(() => rows)) !== rows
            )
                return "wrong";
            first = false;
        }
        return found === rows ? null : `${found} rows`;
    });
    await gpu.close();
    await disk(rows);
}

/** Host memory holds a part of what is spilled: the rest goes to disk, and comes back. */
async function disk(rows) {
    const device = options.small ? "64MiB" : "256MiB";
    // Counting takes keys alone, which would stay.
    const debug = { outOfCore: true, residentShare: 0, ...(options.small ? { hostSpillBytes: 2 ** 16 } : {}) };
    const tight = await openRuntime({ device: "gpu", memory: { host: "96MiB", device }, ...knobs(debug) });
    const left = await tight.generate(keyed(rows, 1), "memory");
    const right = await tight.generate(keyed(rows, 2), "memory");
    const query = tight.join({ left, right, on: "k" });
    const told = () => {
        const { diskWrittenBytes, diskReadBytes, spilledMs, predicted } = query.report().stages[0].device.outOfCore;
        const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
        console.log(
            `    disk: ${megabytes(diskWrittenBytes)} written (${megabytes(predicted.diskBytes)}), ` +
                `${megabytes(diskReadBytes)} read; spilled partitions ${spilledMs.toFixed(0)} ms`
        );
        return diskWrittenBytes > 0 && diskReadBytes >= diskWrittenBytes ? null : "nothing went to disk";
    };
    await check("out-of-core: what host memory has no room for goes to disk, counted", async () => {
        const counted = await query.count();
        return counted === rows ? told() : `${counted} rows`;
    });
    await check("out-of-core: what host memory has no room for goes to disk, batches", async () => {
        let found = 0;
        for await (const batch of query.batches()) found += batch.numRows;
        return found === rows ? told() : `${found} rows`;
    });
    await tight.close();
}

export async function outOfCore(cpu) {
    await types(cpu);
    await gatheredColumns(cpu, ranOutOfCore);
    await filteredJoins(cpu);
    await failures();
}
