// SPDX-License-Identifier: Apache-2.0
// Joins of joins and group-bys of joins of relations larger than GPU memory: trees drawn at random against the CPU
// engine, with NULLs, keys of several columns and rows that leave GPU memory; stars, and how fast large ones are.
import {
    Bool,
    DateDay,
    Decimal,
    Dictionary,
    Float64,
    Int16,
    Int32,
    Int64,
    Table,
    Utf8,
    vectorFromArray
} from "apache-arrow";

import { openRuntime } from "../../dist/index.js";
import { check, compareWith, joinTypes, knobs, options, reference } from "./checks.mjs";
import { randomNumbers } from "./relations.mjs";

const ranAsTree = ({ stages }) =>
    stages[0]?.device?.outOfCoreTree === undefined ? `ran ${stages[0]?.algorithm}` : null;

const dictionary = new Dictionary(new Utf8(), new Int32());
/** A decimal of 128 bits as Arrow JS takes it: four words, the lowest first. */
const decimal = (number) => Uint32Array.from([0n, 32n, 64n, 96n], (bit) => Number((number >> bit) & 0xffff_ffffn));
const kinds = {
    i16: [new Int16(), (i) => i % 300],
    i32: [new Int32(), (i) => i - 9],
    i64: [new Int64(), (i) => (BigInt(i) << 33n) - 5n],
    f64: [new Float64(), (i) => [NaN, -0, 0][i % 50] ?? i / 4],
    bool: [new Bool(), (i) => i % 2 === 1],
    date: [new DateDay(), (i) => i * 86_400_000],
    word: [dictionary, (i) => `word ${i % 20}`],
    text: [new Utf8(), (i) => (i % 7 === 0 ? "" : `text ${i}${"x".repeat(i % 30)}`)],
    decimal: [new Decimal(2, 15, 128), (i) => decimal(BigInt(i - 40) * 1_000_000_007n)]
};

function column(random, kind, rows, domain, nullPercent) {
    const [type, value] = kinds[kind];
    const cells = Array.from({ length: rows }, () => (random(100) < nullPercent ? null : value(random(domain))));
    return vectorFromArray(cells, type);
}

/** Columns named after the relation: keys a_i32 and a_i64, values a_v16, a_v64 and so on. */
function relation(random, name, rows, domain, nullPercent) {
    const of = (kind, among = domain, nulls = nullPercent) => column(random, kind, rows, among, nulls);
    return new Table({
        [`${name}_i32`]: of("i32"),
        [`${name}_i64`]: of("i64"),
        [`${name}_v16`]: of("i16", 100),
        [`${name}_v64`]: of("i64", 1000),
        [`${name}_float`]: of("f64", 100, 0),
        [`${name}_flag`]: of("bool", 2),
        [`${name}_day`]: of("date", 50),
        [`${name}_word`]: of("word", 20),
        [`${name}_text`]: of("text"),
        [`${name}_price`]: of("decimal", 90)
    });
}

const keyPairs = [
    ["_i32", "_i32"],
    ["_i64", "_i64"],
    ["_day", "_day"],
    ["_i32", "_v16"],
    ["_float", "_float"]
];
/** Text passes operators where groups come out of the last one. */
const textPair = ["_text", "_text"];
const payloads = ["_v16", "_v64", "_float", "_flag", "_day", "_word"];
/** Four of these fit a row of 32 bytes beside a key, each with a byte that says whether it is NULL. */
const narrowPayloads = ["_v16", "_flag", "_day", "_word"];
/** Keys of groups, and their bytes: 8 are the most, with one for NULLs. */
const groupKeys = { _v16: 2, _flag: 1, _day: 4, _word: 4, _text: 4 };
const groupKeyBytes = 7;

/** Joins one relation after the other, to the result so far or it to them; what it gives, and its text. */
function drawnJoins(random, names, grouped) {
    const pairs = grouped ? [...keyPairs, textPair] : keyPairs;
    let tree = { text: names[0], columns: [names[0]], make: (tables) => tables[names[0]] };
    for (const name of names.slice(1)) {
        const before = tree;
        const [theirs, own] = pairs[random(pairs.length)];
        const from = before.columns[random(before.columns.length)];
        const drawn = random(3) === 0 ? joinTypes[random(joinTypes.length)] : "inner";
        // Keys that may be NULL on both sides of a full join are refused in a tree: those of the first join are not.
        const type = drawn === "full" && (before.columns.length > 1 || own !== "_float") ? "left" : drawn;
        const swapped = random(3) === 0;
        const on = swapped ? { [`${name}${own}`]: `${from}${theirs}` } : { [`${from}${theirs}`]: `${name}${own}` };
        const once = type === "semi" || type === "anti";
        const keeps = !once ? [...before.columns, name] : swapped ? [name] : before.columns;
        tree = {
            text: swapped ? `(${name} ${type} ${before.text})` : `(${before.text} ${type} ${name})`,
            columns: keeps,
            make: (tables, more = {}) => {
                const [left, right] = [before.make(tables), tables[name]];
                return swapped ? right.join(left, { on, type, ...more }) : left.join(right, { on, type, ...more });
            }
        };
    }
    return tree;
}

/** Names of columns that the join may have: a key of both sides bears the left one's name alone. */
const present = (query, names) => names.filter((name) => query.schema.fields.some((field) => field.name === name));

function drawnGroup(random, tree) {
    const named = (suffixes) => tree.columns.flatMap((name) => suffixes.map((suffix) => `${name}${suffix}`));
    const pick = (from, count) => Array.from({ length: count }, () => from[random(from.length)]);
    const keys = [];
    let left = groupKeyBytes;
    for (const key of new Set(pick(named(Object.keys(groupKeys)), random(4)))) {
        const bytes = groupKeys[key.slice(1)];
        if (bytes <= left) keys.push(key);
        left -= bytes <= left ? bytes : 0;
    }
    const sums = [...new Set(pick(named(["_v16", "_v64", "_price"]), 1 + random(2)))];
    const [least] = pick(named(["_v16", "_float", "_price"]), 1);
    return (query) => {
        const aggregates = { n: { count: "*" } };
        for (const name of present(query, sums)) aggregates[`sum_${name}`] = { sum: name };
        for (const name of present(query, [least])) aggregates[`least_${name}`] = { min: name };
        return query.groupBy({ keys: present(query, keys), aggregates });
    };
}

const sharesAndBits = [
    { residentShare: 1, radixBits: 0 },
    { residentShare: 0.4, radixBits: 4 },
    { residentShare: 0, radixBits: 3 },
    { residentShare: 0.2, radixBits: 6, hostSpillBytes: 4096 }
];

/** Relations, a tree of joins of them, and perhaps a group-by of it. */
function drawnQuery(random) {
    const rows = options.small ? 200 : 1000;
    const names = ["a", "b", "c", "d"].slice(0, 3 + random(2));
    const tables = names.map((name) =>
        relation(random, name, [rows, rows / 4, 0][random(20) === 0 ? 2 : random(2)], rows, random(2) * 5)
    );
    const grouped = random(2) === 0;
    const tree = drawnJoins(random, names, grouped);
    const group = grouped ? drawnGroup(random, tree) : undefined;
    const among = names.length > 3 ? narrowPayloads : payloads;
    const few = tree.columns.map((name) => `${name}${among[random(among.length)]}`);
    const make = (runtime) => {
        const of = Object.fromEntries(names.map((name, n) => [name, runtime.fromTable(tables[n])]));
        const joined = tree.make(of);
        return group === undefined ? tree.make(of, { select: present(joined, few) }) : group(joined);
    };
    return { text: `${tree.text}${group === undefined ? "" : ", grouped"}`, make };
}

/** Rows on the GPU have 32 bytes; trees that have wider ones are drawn again. */
async function isTooWide(query) {
    try {
        await query.explain();
        return false;
    } catch ({ message }) {
        return /a row of a join of a join has \d+ bytes/.test(message);
    }
}

async function drawnTrees(cpu) {
    const trees = options.small ? 12 : 100;
    for (const [at, more] of sharesAndBits.entries()) {
        const chunkRows = options.small ? 64 : 1024;
        const memory = { host: "2GiB", device: "1GiB" };
        const gpu = await openRuntime({ device: "gpu", memory, ...knobs({ outOfCore: true, chunkRows, ...more }) });
        let seed = 5000 + at * 1000;
        for (let tried = 0; tried < trees; ++seed) {
            const { text, make } = drawnQuery(randomNumbers(seed));
            if (await isTooWide(make(gpu))) continue;
            ++tried;
            await check(`tree out-of-core, seed ${seed}: ${text}, ${JSON.stringify(more)}`, () =>
                compareWith(make(gpu), reference(make(cpu)), ranAsTree)
            );
        }
        await gpu.close();
    }
}

export async function outOfCoreTrees(cpu) {
    await drawnTrees(cpu);
}
