// SPDX-License-Identifier: Apache-2.0
// node test/gpu-queries/run.mjs [--small] [--filter TEXT] [--join-algorithm NAME] [--group-algorithm NAME]
//     [--part NAME]...           only these of the parts below, such as variants and out-of-core-large
//     [--out-of-core-bits 30]    logarithm of the rows of large joins, 25 or more; 30 takes 100 GiB of host memory
//     [--spill-directory FOLDER] of out-of-core-disk-large, on the disk that is to be measured
//     [--record FILE]            what passed and failed, on what, and what large joins measured, as JSON
// Queries on the GPU of this machine against the CPU engine of the same build, through the public API and the command
// line. Needs dist/, build/Release with addon, plugin and spillway_gpu_probe, and the packages that dist/ imports; no
// compiler, no network and no test framework. The last line is "N passed, N failed".
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { openRuntime } from "../../dist/index.js";
import { algorithms } from "./algorithms.mjs";
import { check, compare, counts, joinTypes, options, writeRecord } from "./checks.mjs";
import { largeJoins, outOfCore } from "./out-of-core.mjs";
import { coherentJoins, largeCoherentJoins } from "./out-of-core-coherent.mjs";
import { largeOnDisk, outOfCoreDisk } from "./out-of-core-disk.mjs";
import { largeGroupParts, outOfCoreGroupParts } from "./out-of-core-group-parts.mjs";
import { largeGroups, outOfCoreGroups } from "./out-of-core-groups.mjs";
import { outOfCorePeer } from "./out-of-core-peer.mjs";
import { outOfCoreStreams } from "./out-of-core-streams.mjs";
import { outOfCoreTrees } from "./out-of-core-trees.mjs";
import { namedJoins } from "./out-of-core-named.mjs";
import { openResults } from "./open-results.mjs";
import { outOfCoreVariants } from "./out-of-core-variants.mjs";
import { keyKinds, randomNumbers, relation } from "./relations.mjs";
import { residentMemory } from "./resident-memory.mjs";
import { wideRows } from "./wide.mjs";

const joinAlgorithm = options["join-algorithm"];
/** The CPU engine's own way is the reference of all of them. */
const named = (runtime, gpu, algorithm) => (runtime === gpu ? { algorithm } : {});

function keySets() {
    const single = Object.keys(keyKinds).map((kind) => [kind]);
    return [...single, ["int32", "bool"], ["int64", "int32", "float64"], ["text", "int32"], ["decimal", "text"]];
}

/** Many rows for a few keys: to make and sort them in JavaScript takes longer than all else. */
const isTriedWithMany = (keys) => ["int64", "text and dictionary", "int32,bool"].includes(keys.join(","));

function joinSizes(keys) {
    const small = [
        [0, 20],
        [60, 150]
    ];
    // Two keys make a pair of every second one.
    if (options.small || keys.join(",") === "bool") return small;
    const many = [70_000, 30_000];
    return [...small, [1, 1], [1000, 5000], ...(isTriedWithMany(keys) ? [many] : [])];
}

async function joins(gpu, cpu) {
    let seed = 1;
    for (const keys of keySets()) {
        for (const [left, right] of joinSizes(keys)) {
            const random = randomNumbers(seed++);
            const domain = Math.max(2, Math.ceil(Math.max(left, right) / 2));
            // NULLs that equal each other make pairs of all of them.
            const nullPercent = random(2) * (left > 10_000 ? 1 : 15);
            const tables = [left, right].map((rows, side) =>
                relation(random, { keys, side, rows, domain, nullPercent, suffix: side === 0 ? "_l" : "_r" })
            );
            const twoTypes = keys.some((kind) => keyKinds[kind][0].toString() !== keyKinds[kind][1].toString());
            for (const type of joinTypes) {
                // One column cannot hold the keys of two types.
                if (type === "full" && twoTypes) continue;
                const nullEquality = random(2) === 1;
                await check(`${type} join on ${keys.join(", ")}: ${left} x ${right}`, () =>
                    compare(gpu, cpu, (runtime) =>
                        runtime.join({
                            left: runtime.fromTable(tables[0]),
                            right: runtime.fromTable(tables[1]),
                            on: keys.map((_, i) => `k${i}`),
                            ...{ type, nullEquality },
                            ...named(runtime, gpu, joinAlgorithm)
                        })
                    )
                );
            }
        }
    }
}

const aggregates = {
    rows: { count: "*" },
    values: { count: "p_text_l" },
    sum8: { sum: "p_int8_l" },
    sum64: { sum: "p_int64_l" },
    mean: { mean: "p_int32_l" },
    sumFloat: { sum: "p_float64_l" },
    min: { min: "p_int16_l" },
    max: { max: "p_float64_l" },
    first: { first: "p_text_l" },
    firstDecimal: { first: "p_decimal_l" },
    distinctText: { countDistinct: "p_text_l" },
    distinctDecimal: { countDistinct: "p_decimal_l" }
};

function groupRows(keys) {
    if (options.small) return [0, 200];
    return [0, 1, 5000, ...(isTriedWithMany(keys) ? [100_000] : [])];
}

async function groups(gpu, cpu) {
    let seed = 1000;
    for (const keys of [[], ...keySets()]) {
        for (const rows of groupRows(keys)) {
            for (const domain of options.small ? [10] : [3, 40_000]) {
                const random = randomNumbers(seed++);
                const table = relation(random, { keys, side: 0, rows, domain, nullPercent: 10, suffix: "_l" });
                await check(`group-by ${keys.join(", ") || "without keys"}: ${rows} rows, ${domain} keys`, () =>
                    compare(gpu, cpu, (runtime) =>
                        runtime.groupBy(runtime.fromTable(table), {
                            keys: keys.map((_, i) => `k${i}`),
                            aggregates,
                            ...named(runtime, gpu, options["group-algorithm"])
                        })
                    )
                );
            }
        }
    }
}

async function chains(gpu, cpu) {
    for (const rows of options.small ? [100] : [100, 20_000]) {
        const random = randomNumbers(rows);
        const common = { keys: ["int32"], rows, domain: rows, nullPercent: 5 };
        const tables = ["_l", "_r", "_x"].map((suffix, i) => relation(random, { ...common, side: i % 2, suffix }));
        const make = (runtime, type) => {
            const [a, b, c] = tables.map((table) => runtime.fromTable(table));
            return a
                .join(b, { on: "k0", type })
                .join(c, { on: "k0", select: ["k0", "p_text_l", "p_int32_l", "p_text_x"] });
        };
        for (const type of ["inner", "left"]) {
            await check(`join of a ${type} join: ${rows} rows each`, () => compare(gpu, cpu, (on) => make(on, type)));
            const grouped = (on) =>
                make(on, type).groupBy({
                    keys: ["p_text_x"],
                    aggregates: { n: { count: "*" }, s: { sum: "p_int32_l" } }
                });
            await check(`group-by of it: ${rows} rows each`, () => compare(gpu, cpu, grouped));
        }
    }
}

/** A right key column that is the partner of two left ones. */
async function keyTwice(gpu, cpu) {
    const random = randomNumbers(77);
    const rows = options.small ? 100 : 20_000;
    const common = { rows, domain: 50, nullPercent: 5 };
    const left = relation(random, { ...common, keys: ["int32", "int32"], side: 0, suffix: "_l" });
    const right = relation(random, { ...common, rows: 60, keys: ["int32"], side: 0, suffix: "_r" });
    for (const type of joinTypes) {
        await check(`${type} join on a right column twice: ${rows} x 60`, () =>
            compare(gpu, cpu, (runtime) =>
                runtime.join({
                    ...{ left: runtime.fromTable(left), right: runtime.fromTable(right), type },
                    on: { k0: "k0", k1: "k0" }
                })
            )
        );
    }
}

/** Results that leave the GPU in pieces. */
async function pieces(cpu) {
    const pieceRows = options.small ? 100 : 3000;
    const memory = { host: "4GiB", device: "1GiB" };
    const gpu = await openRuntime({ device: "gpu", memory, debug: { pieceRows } });
    let seed = 3000;
    for (const keys of [["int32"], ["int64", "int32"], ["text"]]) {
        const random = randomNumbers(seed++);
        const rows = options.small ? 150 : 10_000;
        const common = { keys, rows, domain: Math.ceil(rows / 3), nullPercent: 1 };
        const tables = ["_l", "_r"].map((suffix, side) => relation(random, { ...common, side, suffix }));
        for (const type of joinTypes) {
            await check(`${type} join in pieces on ${keys.join(", ")}: ${rows} rows each`, () =>
                compare(gpu, cpu, (runtime) => {
                    const [left, right] = tables.map((table) => runtime.fromTable(table));
                    return runtime.join({ left, right, on: keys.map((_, i) => `k${i}`), type });
                })
            );
        }
    }
    await gpu.close();
}

async function commandLine(folder) {
    const run = (...words) => {
        const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
        const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...words], { encoding: "utf8" });
        if (status !== 0) throw new Error(`${words.join(" ")}: ${stderr}`);
        return stdout;
    };
    const [orders, lines] = [join(folder, "orders.arrow"), join(folder, "lineitem.arrow")];
    const scale = options.small ? "0.01" : "1";
    run("generate", "tpch", folder, "--scale", scale);
    const words = ["join", orders, lines, "--on", "o_orderkey=l_orderkey"];
    await check("command line: join --count", () => {
        const [found, wanted] = ["gpu", "cpu"].map((device) => run(...words, "--count", "--device", device));
        return found === wanted ? null : `${found} instead of ${wanted}`;
    });
    await check("command line: join --explain names the GPU", () => {
        const text = run(...words, "--explain", "--device", "gpu", "--device-memory", "4GiB");
        return text.includes("gpu: ") && text.includes("uploaded") ? null : text;
    });
}

const parts = {
    joins,
    groups,
    algorithms,
    chains,
    wide: wideRows,
    "key-twice": keyTwice,
    pieces: (_, cpu) => pieces(cpu),
    "out-of-core": (_, cpu) => outOfCore(cpu),
    "out-of-core-large": (_, cpu, folder) => largeJoins(cpu, folder),
    "out-of-core-named": (_, cpu) => namedJoins(cpu),
    coherent: (_, cpu) => coherentJoins(cpu),
    "coherent-large": (_, cpu) => largeCoherentJoins(cpu),
    "out-of-core-groups": (_, cpu) => outOfCoreGroups(cpu),
    "out-of-core-groups-large": largeGroups,
    "out-of-core-group-parts": (_, cpu) => outOfCoreGroupParts(cpu),
    "out-of-core-group-parts-large": largeGroupParts,
    "out-of-core-disk": (_, cpu, folder) => outOfCoreDisk(cpu, folder),
    "out-of-core-disk-large": (_gpu, _cpu, folder) => largeOnDisk(folder),
    "out-of-core-peer": (_, cpu, folder) => outOfCorePeer(cpu, folder),
    "out-of-core-trees": (_, cpu) => outOfCoreTrees(cpu),
    "out-of-core-streams": (_, cpu, folder) => outOfCoreStreams(cpu, folder),
    "open-results": (_, cpu) => openResults(cpu),
    "resident-memory": (_, cpu, folder) => residentMemory(cpu, folder),
    variants: (_, cpu) => outOfCoreVariants(cpu),
    "command-line": (_gpu, _cpu, folder) => commandLine(folder)
};

function chosenParts() {
    const unknown = options.part.find((name) => parts[name] === undefined);
    if (unknown === undefined) return Object.keys(parts).flatMap((name) => (wants(name) ? [parts[name]] : []));
    throw new Error(`Expected ${Object.keys(parts).join(", ")} for --part but received '${unknown}'.`);
}

const wants = (name) => options.part.length === 0 || options.part.includes(name);

const folder = mkdtempSync(join(tmpdir(), "spillway-gpu-queries-"));
const memory = { host: "4GiB", device: options.small ? "256MiB" : "16GiB", spillDirectory: folder };
const gpu = await openRuntime({ device: "gpu", memory });
const cpu = await openRuntime({ device: "cpu", memory });
try {
    console.log(
        gpu
            .devices()
            .map(({ kind, name, used }) => `${kind} ${name}${used ? ", used" : ""}`)
            .join("; ")
    );
    for (const run of chosenParts()) await run(gpu, cpu, folder);
} finally {
    writeRecord(gpu.devices().find(({ kind }) => kind === "gpu")?.name ?? null);
    await gpu.close();
    await cpu.close();
    rmSync(folder, { recursive: true, force: true });
}
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
