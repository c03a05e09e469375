// SPDX-License-Identifier: Apache-2.0
// Joins, group-bys and trees of them whose spilled rows go to disk, as the knob wants it, as host memory runs out that
// plans took for enough, and as no folder takes them; how fast large ones are with all, half and none of them there.
import { statfsSync } from "node:fs";
import { freemem } from "node:os";

import { Int64, makeVector, Table } from "apache-arrow";

import { openRuntime } from "../../dist/index.js";
import { check, compareWith, knobs, measure, options, reference } from "./checks.mjs";
import { keyed, randomNumbers, relation } from "./relations.mjs";

const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

/** What the operators of a query out of core spilled, and what of it went to disk; undefined: it ran another way. */
export function spillOf({ stages: [stage] }) {
    const device = stage?.device ?? {};
    const operators = device.outOfCoreTree?.operators ?? [device.outOfCore ?? device.outOfCoreGroupBy];
    if (operators[0] === undefined) return undefined;
    const bytesOf = ({ spilledBytes }) =>
        typeof spilledBytes === "number" ? spilledBytes : spilledBytes.build + spilledBytes.probe;
    return {
        operators,
        spilledBytes: sumOf(operators.map(bytesOf)),
        peerBytes: sumOf(operators.map((one) => one.peerBytes)),
        diskWrittenBytes: sumOf(operators.map((one) => one.diskWrittenBytes)),
        diskReadBytes: sumOf(operators.map((one) => one.diskReadBytes)),
        // Rows are written while inputs are read, and come back afterwards.
        writingMs: sumOf(operators.map((one) => one.readMs ?? one.buildMs + one.probeMs)),
        readingMs: sumOf(operators.map((one) => one.spilledMs))
    };
}

function wentToDisk(report) {
    const spilled = spillOf(report);
    if (spilled === undefined) return `ran ${report.stages[0]?.algorithm}`;
    const { diskWrittenBytes, diskReadBytes } = spilled;
    return diskWrittenBytes > 0 && diskReadBytes >= diskWrittenBytes ? null : "nothing went to disk";
}

/** Queries of three relations: a join, a group-by, a join of a join and a group-by of it. */
export function queriesOf(tables) {
    const of = (runtime) => tables.map((table) => runtime.fromTable(table));
    const joined = (runtime) => {
        const [a, b, c] = of(runtime);
        return a.join(b, { on: "k0" }).join(c, { on: "k0", select: ["k0", "p_int32_a", "p_int16_b", "p_int32_c"] });
    };
    const aggregates = { n: { count: "*" }, sum: { sum: "p_int32_a" } };
    return {
        join: (runtime) => {
            const [left, right] = of(runtime);
            return runtime.join({ left, right, on: "k0", select: ["k0", "p_int64_a", "p_int16_b"] });
        },
        "full join": (runtime) => {
            const [left, right] = of(runtime);
            return runtime.join({ left, right, on: "k0", type: "full", select: ["k0", "p_int64_a", "p_int16_b"] });
        },
        "group-by": (runtime) => runtime.groupBy(of(runtime)[0], { keys: ["k0"], aggregates }),
        "join of a join": joined,
        "group-by of a join of a join": (runtime) => joined(runtime).groupBy({ keys: ["k0"], aggregates })
    };
}

/** Every operator's rows on disk, all or some of them. */
async function asTheKnobWants(cpu, spillDirectory) {
    const rows = options.small ? 400 : 20_000;
    const random = randomNumbers(31);
    const tables = ["_a", "_b", "_c"].map((suffix, at) =>
        relation(random, { keys: ["int64"], side: at % 2, rows, domain: Math.ceil(rows / 2), nullPercent: 3, suffix })
    );
    for (const hostSpillBytes of [0, 2 ** 14]) {
        for (const radixBits of [0, 4]) {
            const spilling = { outOfCore: true, residentShare: 0, chunkRows: options.small ? 64 : 2048, radixBits };
            const inMemory = options.small ? hostSpillBytes / 16 : hostSpillBytes;
            const memory = { host: "1GiB", device: "512MiB", spillDirectory };
            const gpu = await openRuntime({
                ...{ device: "gpu", memory },
                ...knobs({ ...spilling, hostSpillBytes: inMemory })
            });
            for (const [name, make] of Object.entries(queriesOf(tables))) {
                const what = `${name} on disk: ${hostSpillBytes} bytes in memory, ${radixBits} radix bits`;
                await check(what, () => compareWith(make(gpu), reference(make(cpu)), wentToDisk));
            }
            await gpu.close();
        }
    }
}

/** Every key of both sides comes so often that a join makes many times the rows which it reads. */
async function asRowsMultiply(cpu, spillDirectory) {
    const repeats = options.small ? 8 : 64;
    const rows = options.small ? 2 ** 13 : 2 ** 18;
    const column = (value) => makeVector({ type: new Int64(), data: BigInt64Array.from({ length: rows }, value) });
    const side = (name) =>
        new Table({
            k: column((_, row) => BigInt(Math.floor(row / repeats))),
            [name]: column((_, row) => BigInt((row * 7919) % rows) << 20n)
        });
    const tables = [side("a"), side("b")];
    const make = (runtime) => {
        const [left, right] = tables.map((table) => runtime.fromTable(table));
        const pairs = runtime.join({ left, right, on: "k" });
        return pairs.groupBy({ keys: ["a"], aggregates: { n: { count: "*" }, sum: { sum: "b" } } });
    };
    const memory = { host: "96MiB", device: "128MiB", spillDirectory };
    const spilling = { outOfCore: true, residentShare: 0, hostSpillBytes: options.small ? 2 ** 15 : 2 ** 20 };
    const gpu = await openRuntime({ device: "gpu", memory, ...knobs(spilling) });
    await check(`group-by on disk: ${rows * repeats} rows of a join of ${rows} by ${rows}`, () =>
        compareWith(make(gpu), reference(make(cpu)), wentToDisk)
    );
    await gpu.close();
}

/** Where no rows leave, a knob that leaves them no memory does no harm. */
async function whereNothingLeaves(cpu, spillDirectory) {
    const rows = options.small ? 400 : 20_000;
    const random = randomNumbers(32);
    const tables = ["_a", "_b", "_c"].map((suffix, at) =>
        relation(random, { keys: ["int64"], side: at % 2, rows, domain: rows, nullPercent: 3, suffix })
    );
    const memory = { host: "1GiB", device: "512MiB", spillDirectory };
    const resident = { outOfCore: true, residentShare: 1, hostSpillBytes: 0 };
    const gpu = await openRuntime({ device: "gpu", memory, ...knobs(resident) });
    for (const [name, make] of Object.entries(queriesOf(tables))) {
        await check(`${name} that is resident writes nothing`, () =>
            compareWith(make(gpu), reference(make(cpu)), (report) =>
                spillOf(report)?.diskWrittenBytes === 0 ? null : "something went to disk"
            )
        );
    }
    await gpu.close();
}

export async function outOfCoreDisk(cpu, spillDirectory) {
    await asTheKnobWants(cpu, spillDirectory);
    await asRowsMultiply(cpu, spillDirectory);
    await whereNothingLeaves(cpu, spillDirectory);
}

/** Rows of both relations, or of the one; how their result is told to be right. */
function largeQueries(rows) {
    const counts = { n: { count: "*" }, sum: { sum: "p1" } };
    const joined = (gpu, { left, right }) => gpu.join({ left, right, on: "k" });
    const totals = async (query) => {
        let total = 0;
        for await (const batch of query.batches()) {
            // The low words of counts below 2^32: 2^26 numbers as BigInt take 20 s, for which the query waits.
            const { buffer, byteOffset, length } = batch.getChild("n").toArray();
            const words = new Uint32Array(buffer, byteOffset, 2 * length);
            for (let i = 0; i < words.length; i += 2) total += words[i];
        }
        return total;
    };
    const delivered = async (query) => {
        let found = 0;
        for await (const batch of query.batches()) found += batch.numRows;
        return found;
    };
    return [
        ["join, counted", 2 * rows, joined, (query) => query.count()],
        ["join, batches", 2 * rows, joined, delivered],
        [
            "group-by of a group per row",
            rows,
            (gpu, { left }) => gpu.groupBy(left, { keys: ["k"], aggregates: counts }),
            totals
        ],
        [
            "group-by of a join",
            2 * rows,
            (gpu, sides) => joined(gpu, sides).groupBy({ keys: ["p2"], aggregates: counts }),
            totals
        ]
    ];
}

/** Bytes of a file system, and whether it is one of memory, which says nothing of disks. */
function aboutFolder(folder) {
    const { type, bavail, bsize } = statfsSync(folder);
    return { type: `0x${type.toString(16)}`, freeBytes: bavail * bsize, systemFreeBytes: freemem() };
}

function toldOf(query, rowsIn, { place, folder }) {
    const report = query.report();
    const spilled = spillOf(report);
    if (spilled === undefined) return `ran ${report.stages[0].algorithm}`;
    const { spilledBytes, diskWrittenBytes, diskReadBytes, writingMs, readingMs } = spilled;
    const [stage] = report.stages;
    const figures = {
        ...{ place, elapsedMs: report.elapsedMs, stageMs: stage.actualMs, predictedMs: stage.predictedMs },
        gTuplesPerSecond: rowsIn / stage.actualMs / 1e6,
        ...{ spilledBytes, diskWrittenBytes, diskReadBytes, writingMs, readingMs },
        diskWriteGbPerSecond: diskWrittenBytes / writingMs / 1e6,
        diskReadGbPerSecond: readingMs === 0 ? 0 : diskReadBytes / readingMs / 1e6
    };
    measure({ ...figures, folder: aboutFolder(folder), link: stage.device });
    const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(2)} GB`;
    console.log(
        `    ${stage.actualMs.toFixed(0)} ms, predicted ${stage.predictedMs.toFixed(0)}; ` +
            `${figures.gTuplesPerSecond.toFixed(2)} G tuples/s; ${gigabytes(spilledBytes)} spilled; disk: ` +
            `${gigabytes(diskWrittenBytes)} written at ${figures.diskWriteGbPerSecond.toFixed(2)} GB/s of the phase, ` +
            `${gigabytes(diskReadBytes)} read at ${figures.diskReadGbPerSecond.toFixed(2)} GB/s`
    );
    if (place === "memory") return diskWrittenBytes === 0 ? null : "something went to disk";
    return wentToDisk(report);
}

/** With all, half and none of the spilled rows in host memory, three times each, as files are written over. */
export async function largeOnDisk(folder) {
    const spillDirectory = options["spill-directory"] ?? folder;
    const bits = options.small ? 15 : Number(options["out-of-core-bits"]);
    const rows = 2 ** bits;
    const host = `${Math.ceil(2 ** (bits - 24)) + (options.small ? 1 : 8)}GiB`;
    const foreign = { key: { name: "k", role: "foreign", domainRows: rows } };
    const spilledBytes = new Map();
    for (const place of ["memory", "half", "disk"]) {
        for (const [name, rowsIn, make, run] of largeQueries(rows)) {
            // A tree of few rows needs more than leaves a group-by of them anything to spill.
            const few = name === "group-by of a join" ? "128MiB" : "64MiB";
            // Without any resident pages a partition of many groups would come back several times, half of its keys
            // at a time: group-bys spill most of their rows with a quarter of what they take, too.
            const isGroup = name.startsWith("group-by");
            const device = options.small ? few : `${2 ** (bits - 20 + (isGroup ? 3 : 1))}MiB`;
            const all = spilledBytes.get(name) ?? 0;
            const kept = { memory: {}, half: { hostSpillBytes: Math.floor(all / 2) }, disk: { hostSpillBytes: 0 } };
            const resident = isGroup && !options.small ? {} : { residentShare: 0 };
            const spilling = knobs({ outOfCore: true, ...resident, ...kept[place] });
            const gpu = await openRuntime({ device: "gpu", memory: { host, device, spillDirectory }, ...spilling });
            const left = await gpu.generate(keyed(rows, 1), "memory");
            const right = await gpu.generate(keyed(rows, 2, foreign), "memory");
            const query = make(gpu, { left, right });
            for (const time of ["first", "second", "third"]) {
                await check(`on disk: 2^${bits} rows, ${device}, ${name}, spilled to ${place}, ${time}`, async () => {
                    const found = await run(query);
                    if (found !== rows) return `${found} rows`;
                    spilledBytes.set(name, spillOf(query.report())?.spilledBytes ?? 0);
                    return toldOf(query, rowsIn, { place, folder: spillDirectory });
                });
            }
            await gpu.close();
        }
    }
}
