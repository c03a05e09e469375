// SPDX-License-Identifier: Apache-2.0
// Values of every aggregate by every group-by, and rows of every type of join by every join, by their names; and which
// names are refused for what.
import { Float64, Int32, Table, Utf8, vectorFromArray } from "apache-arrow";

import { groupByAlgorithms, joinAlgorithms, outOfCoreJoinAlgorithms } from "../../dist/index.js";
import { check, compareWith, joinTypes, options, reference, refusal } from "./checks.mjs";
import { groupTable, randomNumbers, relation } from "./relations.mjs";

const named = (algorithms) => algorithms.filter((name) => name !== "auto" && name !== "cpu-radix");
const tableJoins = named(joinAlgorithms).filter((name) => !outOfCoreJoinAlgorithms.includes(name));

/** Looks for an operation in a report: that it ran by this algorithm, or by one that its name gives way to. */
function ranBy(stageName, algorithm, waysOut = []) {
    return ({ stages }) => {
        const device = stages.find(({ name }) => name === stageName)?.device;
        if (device?.algorithm !== algorithm || device.chosenBy !== "user") {
            return `was made by ${device?.algorithm} (${device?.chosenBy})`;
        }
        const { ranAs } = device;
        return ranAs === undefined || waysOut.includes(ranAs) ? null : `gave way to ${ranAs}`;
    };
}

const all = (functions, columns) =>
    Object.fromEntries(columns.flatMap((column) => functions.map((name) => [`${name} ${column}`, { [name]: column }])));
const numbers = ["sum", "mean", "min", "max", "count", "countDistinct", "first"];
const values = ["min", "max", "count", "countDistinct", "first"];
/** No more than the GPU takes in one group-by, with what sums and means of decimals are made of. */
const aggregateLists = {
    "narrow integers": { rows: { count: "*" }, ...all(numbers, ["int8", "uint16"]) },
    "wide integers": all(numbers, ["uint32", "int64"]),
    floats: all(numbers, ["float32", "float64"]),
    "decimals and durations": { ...all(numbers, ["decimal"]), ...all(["sum", "count", "max"], ["duration"]) },
    "texts, bytes and large decimals": all(values, ["text", "binary", "decimal256"]),
    "fixed bytes, dates and truth values": all(values, ["fixed", "date", "bool"]),
    "floats without a place in sums": all(values, ["special"]),
    dictionaries: {
        ...all(["count", "countDistinct", "first"], ["textDictionary"]),
        ...all(["sum", "mean", "count", "countDistinct", "first"], ["numberDictionary"])
    }
};
/** `any` has one answer where a group's values are all the same, but for NULL. */
const anyOf = { int: "ofInt", text: "ofText" };

const groupKeys = [[], ["int"], ["text"], ["int", "text"]];
const groupCases = options.small
    ? [
          [0, 3],
          [200, 10]
      ]
    : [
          [0, 3],
          [1, 3],
          [2500, 5],
          [4000, 1500]
      ];

async function groupBysByName(gpu, cpu) {
    let seed = 5000;
    for (const [rows, domain] of groupCases) {
        const table = groupTable(randomNumbers(seed++), rows, domain);
        for (const keys of groupKeys) {
            if (rows < 2 && keys.length === 1) continue;
            const any = all(["any", "count"], [...keys.map((key) => anyOf[key]), "constant"]);
            for (const [list, aggregates] of Object.entries({ ...aggregateLists, "any value": any })) {
                const grouped = (runtime, name) =>
                    runtime.groupBy(runtime.fromTable(table), { keys, aggregates, ...name });
                const expected = reference(grouped(cpu, {}));
                for (const algorithm of named(groupByAlgorithms)) {
                    const by = keys.length === 0 ? "no key" : keys.join(" and ");
                    const waysOut = algorithm === "hgb" ? ["hgb-global"] : [];
                    await check(`${algorithm} of ${list} by ${by}: ${rows} rows, ${domain} keys`, () =>
                        compareWith(grouped(gpu, { algorithm }), expected, ranBy("group", algorithm, waysOut))
                    );
                }
            }
        }
    }
}

/** Left keys once each where an array is to hold them. */
const joinKeys = [
    { keys: ["int32"], unique: true },
    { keys: ["int64"], unique: false },
    { keys: ["text and dictionary"], unique: false },
    { keys: ["int64", "int32", "float64"], unique: false },
    { keys: ["decimal", "text"], unique: false }
];

async function joinsByName(gpu, cpu) {
    const [left, right] = options.small ? [60, 150] : [900, 2000];
    let seed = 6000;
    for (const { keys, unique } of joinKeys) {
        const random = randomNumbers(seed++);
        const common = { keys, domain: left, nullPercent: 3 };
        const tables = [
            relation(random, { ...common, side: 0, rows: left, suffix: "_l", unique }),
            relation(random, { ...common, side: 1, rows: right, suffix: "_r" })
        ];
        const twoTypes = keys.includes("text and dictionary");
        for (const [turn, type] of joinTypes.entries()) {
            if (type === "full" && twoTypes) continue;
            const nullEquality = !unique && turn % 2 === 1;
            const joined = (runtime, name) =>
                runtime.join({
                    left: runtime.fromTable(tables[0]),
                    right: runtime.fromTable(tables[1]),
                    on: keys.map((_, i) => `k${i}`),
                    ...{ type, nullEquality, ...name }
                });
            const expected = reference(joined(cpu, {}));
            for (const algorithm of tableJoins) {
                if (algorithm === "npj-perfect" && !unique) continue;
                await check(`${algorithm}, ${type} join on ${keys.join(", ")}${unique ? ", unique" : ""}`, () =>
                    compareWith(joined(gpu, { algorithm }), expected, ranBy("join", algorithm))
                );
            }
        }
    }
}

const column = (rows, type, make) =>
    vectorFromArray(
        Array.from({ length: rows }, (_, i) => make(i)),
        type
    );

/** Names that do not fit the keys, whatever the GPU is. */
async function refusedJoins(gpu, cpu) {
    const keyed = (type, make) => new Table({ k: column(300, type, make), l: column(300, new Int32(), (i) => i) });
    const dense = keyed(new Int32(), (i) => i);
    const cases = [
        ["texts", keyed(new Utf8(), String), {}, /no integer/],
        ["floats", keyed(new Float64(), (i) => i), {}, /no integer/],
        ["repeated keys", keyed(new Int32(), (i) => i >> 1), {}, /may come twice/],
        ["sparse keys", keyed(new Int32(), (i) => i * 1_000_000), {}, /not dense/],
        ["two keys", dense, { on: ["k", "l"] }, /one key column, not by 2/],
        ["equal NULLs", dense, { nullEquality: true }, /NULL has no place/]
    ];
    for (const [what, table, more, text] of cases) {
        await check(`npj-perfect refuses ${what}`, () => {
            const [left, right] = [gpu.fromTable(table), gpu.fromTable(table)];
            const query = gpu.join({ left, right, on: "k", algorithm: "npj-perfect", ...more });
            return refusal(() => query.toTable(), "INVALID_ARGUMENT", text);
        });
    }
    for (const algorithm of named(joinAlgorithms)) {
        await check(`${algorithm} is no algorithm of the CPU engine`, () => {
            const [left, right] = [cpu.fromTable(dense), cpu.fromTable(dense)];
            return refusal(() => cpu.join({ left, right, on: "k", algorithm }), "INVALID_ARGUMENT", /runs on a GPU/);
        });
    }
    // Only a GPU sees it; the one that tests have in its place does not.
    if (options.small) return;
    const repeated = new Table({ k: column(20_000, new Int32(), () => 7) });
    const joined = (algorithm) =>
        gpu.join({
            ...{ left: gpu.fromTable(repeated), right: gpu.fromTable(dense), on: "k", algorithm },
            hints: { buildSide: "left" }
        });
    await check("npj refuses one key in very many rows of the build side", () =>
        refusal(() => joined("npj").count(), "UNSUPPORTED_TYPE", /linear probing: .* partition the relations instead/)
    );
    for (const algorithm of tableJoins) {
        if (algorithm.startsWith("npj")) continue;
        await check(`${algorithm} takes one key in very many rows of the build side`, async () => {
            const rows = await joined(algorithm).count();
            return rows === 20_000 ? null : `${rows} rows`;
        });
    }
}

/** What the GPU has no implementation for is refused by whatever name, and not answered with other values. */
async function refusedGroupBys(gpu, cpu) {
    const table = groupTable(randomNumbers(7000), 100, 5);
    const cases = [
        ["the sum of short floats", { sum: "float16" }],
        ["the greatest short float", { max: "float16" }],
        ["distinct short floats", { countDistinct: "float16" }],
        ["the sum of decimals of 256 bits", { sum: "decimal256" }],
        ["the least value of a dictionary", { min: "textDictionary" }]
    ];
    for (const algorithm of named(groupByAlgorithms)) {
        const grouped = (runtime, aggregate) =>
            runtime.groupBy(runtime.fromTable(table), { keys: ["int"], aggregates: { it: aggregate }, algorithm });
        for (const [what, aggregate] of cases) {
            await check(`${algorithm} refuses ${what}`, () =>
                refusal(() => grouped(gpu, aggregate).toTable(), "UNSUPPORTED_TYPE", /has no implementation there/)
            );
        }
        await check(`${algorithm} is no algorithm of the CPU engine`, () =>
            refusal(() => grouped(cpu, { count: "*" }), "INVALID_ARGUMENT", /runs on a GPU/)
        );
    }
}

export async function algorithms(gpu, cpu) {
    await groupBysByName(gpu, cpu);
    await joinsByName(gpu, cpu);
    await refusedJoins(gpu, cpu);
    await refusedGroupBys(gpu, cpu);
}
