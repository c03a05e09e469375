// SPDX-License-Identifier: Apache-2.0
// Streams of batches, of which no plan knows how many rows they have, as inputs of operators on the GPU: joins,
// group-bys and trees, with rows that stay in GPU memory and rows that leave it, also where the estimate of their
// number is wrong, against the CPU engine; and files and streams that are larger than the budgets.
import { readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

import { Table, makeVector, tableFromIPC } from "apache-arrow";

import { openRuntime } from "../../dist/index.js";
import { check, compareWith, joinTypes, knobs, options, reference } from "./checks.mjs";
import { randomNumbers, relation } from "./relations.mjs";

const mebibyte = 2 ** 20;

/** Pieces of a relation, each with dictionaries of its own, as batches that come one after the other. */
function pieces(random, count, rowsOf, more) {
    return Array.from({ length: count }, () => relation(random, { ...more, rows: rowsOf(random) }));
}

function streamOf(runtime, tables, { rows, name }) {
    const given = rows === undefined ? { name } : { name, rows };
    return runtime.fromBatches(
        tables[0].schema,
        async function* batches() {
            for (const table of tables) {
                await Promise.resolve();
                yield* table.batches;
            }
        },
        given
    );
}

const rowsIn = (tables) => tables.reduce((sum, { numRows }) => sum + numRows, 0);

/** What is said of the number of rows: nothing, the truth, or ten times too few or too many. */
const estimates = {
    none: () => undefined,
    right: (rows) => rows,
    "ten times too low": (rows) => Math.ceil(rows / 10),
    "ten times too high": (rows) => rows * 10
};

/** The report must count the rows that came, whatever was planned. */
const countsRows = (wanted) => (report) => {
    const { stages, rowsIn: found } = report;
    const ran = stages[0]?.device?.outOfCore ?? stages[0]?.device?.outOfCoreGroupBy ?? stages[0]?.device?.outOfCoreTree;
    if (ran === undefined) return `ran ${stages[0]?.algorithm}`;
    return found === wanted ? null : `the report counts ${found} rows in instead of ${wanted}`;
};

const plans = [
    ["in GPU memory", {}],
    ["all leave", { outOfCore: true, residentShare: 0, radixBits: 3, chunkRows: 64 }],
    ["some go to disk", { outOfCore: true, residentShare: 0.5, radixBits: 6, chunkRows: 128, hostSpillBytes: 2000 }]
];

const keySets = [["int32"], ["text and dictionary"], ["int16 and int32"], ["text", "int32"], ["float64"], ["bool"]];
const selects = {
    numbers: { left: ["p_int8_l", "p_int32_l"], right: ["p_int16_r", "p_bool_r"] },
    texts: { left: ["p_text_l"], right: ["p_text_r", "p_binary_r"] }
};

function readers(tables, estimate) {
    const [left, right] = tables;
    const stream = (runtime, side) => {
        const rows = estimate(rowsIn(tables[side]));
        return streamOf(runtime, tables[side], { name: side === 0 ? "left" : "right", rows });
    };
    const whole = (runtime, side) => runtime.fromTable(side === 0 ? left : right);
    return {
        "stream x table": (runtime) => [stream(runtime, 0), whole(runtime, 1)],
        "table x stream": (runtime) => [whole(runtime, 0), stream(runtime, 1)],
        "stream x stream": (runtime) => [stream(runtime, 0), stream(runtime, 1)]
    };
}

async function joins(cpu) {
    let seed = 9100;
    const names = Object.keys(estimates);
    for (const [placed, turned] of plans) {
        const gpu = await openRuntime({ device: "gpu", memory: { host: "1GiB", device: "256MiB" }, ...knobs(turned) });
        for (const keys of options.small ? keySets.slice(0, 3) : keySets) {
            const random = randomNumbers(seed++);
            const many = keys[0] === "bool" ? 40 : options.small ? 90 : 3000;
            const tables = ["_l", "_r"].map((suffix, side) =>
                pieces(random, 5, (draw) => draw(many), {
                    ...{ keys, side, domain: many * 2, nullPercent: 5 * (seed % 2), suffix }
                })
            );
            const texts = seed % 2 === 0 ? "texts" : "numbers";
            for (const type of joinTypes) {
                const twoTypes = keys.some((kind) => kind.includes(" and "));
                if (type === "full" && twoTypes) continue;
                const estimate = names[seed % names.length];
                for (const [inputs, make] of Object.entries(readers(tables, estimates[estimate]))) {
                    const { left, right } = selects[texts];
                    const select = type === "semi" || type === "anti" ? left : [...left, ...right];
                    const query = (runtime) => {
                        const [a, b] = make(runtime);
                        return runtime.join({ left: a, right: b, on: keys.map((_, i) => `k${i}`), type, select });
                    };
                    const what = `${type} join of ${inputs} on ${keys.join(", ")}, ${texts}, ${placed}`;
                    const wanted = rowsIn(tables[0]) + rowsIn(tables[1]);
                    await check(`${what}, estimate: ${estimate}`, () =>
                        compareWith(query(gpu), reference(query(cpu)), countsRows(wanted))
                    );
                }
            }
        }
        await gpu.close();
    }
}

const groupSets = [
    [["int32"], { n: { count: "*" }, sum: { sum: "p_int64_l" }, mean: { mean: "p_float64_l" } }],
    [["text"], { n: { count: "p_text_l" }, most: { max: "p_int16_l" } }],
    [["dictionaries"], { n: { count: "*" }, least: { min: "p_int32_l" } }],
    [["dictionaries", "bool"], { sum: { sum: "p_int8_l" } }],
    [[], { n: { count: "*" }, sum: { sum: "p_int64_l" } }]
];

async function groups(cpu, folder) {
    let seed = 9300;
    for (const [placed, turned] of plans) {
        const gpu = await openRuntime({ device: "gpu", memory: { host: "1GiB", device: "256MiB" }, ...knobs(turned) });
        for (const [keys, aggregates] of groupSets) {
            const random = randomNumbers(seed++);
            const many = options.small ? 90 : 4000;
            const tables = pieces(random, 6, (draw) => draw(many), {
                ...{ keys, side: 0, domain: many, nullPercent: 4, suffix: "_l" }
            });
            for (const [estimate, of] of Object.entries(estimates)) {
                const query = (runtime) =>
                    streamOf(runtime, tables, { name: "left", rows: of(rowsIn(tables)) }).groupBy({
                        keys: keys.map((_, i) => `k${i}`),
                        aggregates
                    });
                const what = `group-by of a stream on ${keys.join(", ") || "nothing"}, ${placed}`;
                await check(`${what}, estimate: ${estimate}`, () =>
                    compareWith(query(gpu), reference(query(cpu)), countsRows(rowsIn(tables)))
                );
            }
            const file = join(folder, `stream-groups-${seed}.arrow`);
            await check(`group-by of a stream on ${keys.join(", ") || "nothing"}, ${placed}, into a file`, () => {
                const query = (runtime) => {
                    const input = streamOf(runtime, tables, { name: "left" });
                    return input.groupBy({ keys: keys.map((_, i) => `k${i}`), aggregates });
                };
                const written = {
                    toTable: async () => {
                        const made = query(gpu);
                        await made.toArrowFile(file, { overwrite: true });
                        written.report = () => made.report();
                        return tableFromIPC(readFileSync(file));
                    },
                    count: () => query(gpu).count()
                };
                return compareWith(written, reference(query(cpu)), countsRows(rowsIn(tables)));
            });
        }
        await gpu.close();
    }
}

async function trees(cpu) {
    const random = randomNumbers(9500);
    const many = options.small ? 90 : 3000;
    const common = { keys: ["int32"], domain: many, nullPercent: 3 };
    const tables = ["_l", "_r", "_x"].map((suffix) =>
        pieces(random, 4, (draw) => draw(many), { ...common, suffix, side: 0 })
    );
    for (const [placed, turned] of plans) {
        const gpu = await openRuntime({ device: "gpu", memory: { host: "1GiB", device: "256MiB" }, ...knobs(turned) });
        for (const [estimate, of] of Object.entries(estimates)) {
            for (const streamed of [1, 2, 4, 7]) {
                // Bit i: is the relation a stream? Texts pass operators where they come from one.
                const isStream = (i) => (streamed >> i) % 2 === 1;
                const rows = (runtime) => {
                    const [a, b, c] = tables.map((each, i) => {
                        if (!isStream(i)) return runtime.fromTable(each);
                        return streamOf(runtime, each, { name: `r${i}`, rows: of(rowsIn(each)) });
                    });
                    const select = ["k0", "p_int16_l", "p_int8_r", ...(isStream(1) ? ["p_text_r"] : [])];
                    return a.join(b, { on: "k0", select }).join(c, { on: "k0", select });
                };
                const grouped = (runtime) =>
                    rows(runtime).groupBy({
                        keys: ["p_int16_l"],
                        aggregates: { n: { count: "*" }, s: { sum: "p_int8_r" } }
                    });
                const all = tables.reduce((sum, each) => sum + rowsIn(each), 0);
                const what = `join of a join, streams ${streamed.toString(2)}, ${placed}, estimate: ${estimate}`;
                for (const [kind, query] of Object.entries({ rows, groups: grouped })) {
                    await check(`${what}, ${kind}`, () =>
                        compareWith(query(gpu), reference(query(cpu)), countsRows(all))
                    );
                }
            }
        }
        await gpu.close();
    }
}

/**
 * Rows of a stream, without any memory for all of them: each key below `rows`, a power of two, once, in an order of
 * its own, and numbers below 97.
 */
function numbersOf(runtime, name, rows, stated) {
    const most = 2 ** 18;
    const batch = (at, count) => {
        const keys = new Int32Array(count);
        const values = new Int32Array(count);
        for (let i = 0; i < count; ++i) {
            keys[i] = Math.imul(at + i, 2_654_435_761) & (rows - 1);
            values[i] = (at + i) % 97;
        }
        return new Table({ k: makeVector(keys), [`v_${name}`]: makeVector(values) });
    };
    return runtime.fromBatches(
        batch(0, 1).schema,
        async function* batches() {
            for (let at = 0; at < rows; at += most) {
                await Promise.resolve();
                yield batch(at, Math.min(most, rows - at));
            }
        },
        { name, rows: stated }
    );
}

const sumBelow97 = (rows) => {
    const [whole, rest] = [Math.floor(rows / 97), rows % 97];
    return whole * ((97 * 96) / 2) + (rest * (rest - 1)) / 2;
};

/** What one row of a result tells, as text; every value is a whole number. */
const onlyRow = (table) => JSON.stringify(table.toArray().map((row) => Object.values(row.toJSON()).map(Number))[0]);

const differs = (found, wanted) => (String(found) === String(wanted) ? null : `${found} instead of ${wanted}`);

/** Queries of two relations of so many rows whose keys come once on each side, and what they give. */
function questions(a, b, rows, values) {
    const joined = () => a.join(b, { on: "k" });
    const sums = { n: { count: "*" }, a: { sum: values[0] }, b: { sum: values[1] } };
    return {
        "join, counted": [() => joined(), async (query) => await query.count(), rows],
        "group-by, counted": [
            () => a.groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } }),
            async (query) => await query.count(),
            rows
        ],
        "tree of a join and a group-by": [
            () => joined().groupBy({ keys: [], aggregates: sums }),
            async (query) => onlyRow(await query.toTable())
        ]
    };
}

async function askAll(what, asked) {
    for (const [question, [make, ask, wanted]] of Object.entries(asked)) {
        await check(`${question} of ${what}`, async () => {
            const query = make();
            const difference = differs(await ask(query), wanted);
            return difference ?? (query.report().device === "gpu" ? null : `ran on the ${query.report().device}`);
        });
    }
}

/** Streams and files that neither GPU memory nor the host's budget has room for. */
async function beyondBudgets(cpu, folder) {
    const bits = options.small ? 18 : 26;
    const rows = 2 ** bits;
    const memory = options.small
        ? { host: "64MiB", device: "128MiB", spillDirectory: folder }
        : { host: "256MiB", device: "256MiB", spillDirectory: folder };
    const gpu = await openRuntime({ device: "gpu", memory });
    for (const [estimate, stated] of Object.entries({ right: rows, "too low": rows / 10, "too high": rows * 10 })) {
        const [a, b] = ["a", "b"].map((name) => numbersOf(gpu, name, rows, Math.ceil(stated)));
        const asked = questions(a, b, rows, ["v_a", "v_b"]);
        asked["tree of a join and a group-by"].push(JSON.stringify([rows, sumBelow97(rows), sumBelow97(rows)]));
        await askAll(`streams of 2^${bits} rows, estimate: ${estimate}`, asked);
    }
    // Columns that no query reads make files large.
    const wide = options.small ? Array.from({ length: 40 }, (_, i) => ({ name: `w${i}` })) : [];
    const paths = await Promise.all(
        [1, 2].map(async (seed) => {
            const path = join(folder, `beyond-${seed}.arrow`);
            const payload = [{ name: `p${seed}` }, ...wide];
            await cpu.generate({ rows, seed, key: { name: "k" }, payload }, { path, overwrite: true });
            return path;
        })
    );
    const [a, b] = await Promise.all(paths.map((path) => gpu.fromArrowFile(path)));
    const asked = questions(a, b, rows, ["p1", "p2"]);
    const [left, right] = await Promise.all(paths.map((path) => cpu.fromArrowFile(path)));
    const [make, ask] = questions(left, right, rows, ["p1", "p2"])["tree of a join and a group-by"];
    asked["tree of a join and a group-by"].push(await ask(make()));
    await askAll(`files of ${Math.round(statSync(paths[0]).size / mebibyte)} MiB`, asked);
    const output = join(folder, "beyond-result.arrow");
    await check("join of such files into a file", async () => {
        const query = a.join(b, { on: "k", select: ["k", "p1", "p2"] });
        await query.toArrowFile(output, { overwrite: true });
        const written = await cpu.fromArrowFile(output);
        return differs(await written.groupBy({ keys: ["k"], aggregates: { n: { count: "*" } } }).count(), rows);
    });
    const leftOver = readdirSync(folder).filter((name) => !name.endsWith(".arrow"));
    await check("no spill files stay", () => differs(leftOver.join(", "), ""));
    await gpu.close();
    for (const path of [...paths, output]) rmSync(path, { force: true });
}

export async function outOfCoreStreams(cpu, folder) {
    await joins(cpu);
    await groups(cpu, folder);
    await trees(cpu);
    await beyondBudgets(cpu, folder);
}
