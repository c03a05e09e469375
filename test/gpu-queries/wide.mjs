// SPDX-License-Identifier: Apache-2.0
// Joins of many columns and group-bys of many aggregates in GPU memory, across the widths at which rows, packs and
// parts of aggregates change.
import {
    Bool,
    DateDay,
    Decimal,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    Table,
    Uint8,
    Utf8,
    vectorFromArray
} from "apache-arrow";

import { joinAlgorithms, openRuntime } from "../../dist/index.js";
import { check, compare, compareWith, joinTypes, options, reference } from "./checks.mjs";
import { randomNumbers } from "./relations.mjs";

const text = (longest) => (i) => "short or not so short".slice(i % 5, (i % 5) + (i % (longest + 1)));
const decimal = (i) => Uint32Array.from([i * 977, i, 0, 0]);

/** Types that columns take in turns: all widths that travel with rows, and texts that do and do not. */
const turns = [
    [new Int32(), (i) => i - 500],
    [new Int64(), (i) => BigInt(i) << 21n],
    [new Utf8(), text(3)],
    [new Int16(), (i) => i],
    [new Decimal(2, 30, 128), decimal],
    [new Int8(), (i) => i % 100],
    [new Utf8(), text(7)],
    [new Float64(), (i) => i / 8],
    [new Bool(), (i) => i % 3 === 0],
    [new DateDay(), (i) => i * 86_400_000],
    [new Utf8(), text(15)],
    [new Int32(), (i) => i * 7],
    [new Uint8(), (i) => i % 251],
    [new Utf8(), text(16)]
];

function cells(random, rows, value, nullPercent) {
    return Array.from({ length: rows }, () => (random(100) < nullPercent ? null : value(random(4000))));
}

/** A key from `domain`, and `columns` more. */
function wideTable(random, { rows, domain, columns, suffix, types = turns }) {
    const table = {
        k: vectorFromArray(
            cells(random, rows, (i) => i % domain, 2),
            new Int32()
        )
    };
    for (let at = 0; at < columns; ++at) {
        const [type, value] = types[at % types.length];
        const nullPercent = at % 3 === 2 ? 10 : 0;
        table[`c${at}${suffix}`] = vectorFromArray(cells(random, rows, value, nullPercent), type);
    }
    return new Table(table);
}

function pair(seed, columns, types) {
    const random = randomNumbers(seed);
    const [left, right] = options.small ? [60, 150] : [2000, 5000];
    const of = (rows, count, suffix) => wideTable(random, { rows, domain: left, columns: count, suffix, types });
    return [of(left, columns[0], "_l"), of(right, columns[1], "_r")];
}

const joinOf = (tables, more) => (runtime) => {
    const [left, right] = tables.map((table) => runtime.fromTable(table));
    return runtime.join({ left, right, on: "k", ...more });
};

async function joins(gpu, cpu) {
    const widths = options.small ? [8, 24] : [1, 5, 6, 7, 8, 9, 12, 16, 24, 40];
    for (const [turn, columns] of widths.entries()) {
        const tables = pair(9000 + turn, [columns, columns]);
        for (const type of joinTypes) {
            await check(`phj-tr, ${type} join of ${columns} + ${columns} columns`, () =>
                compare(gpu, cpu, (runtime) =>
                    joinOf(tables, { type, ...(runtime === gpu ? { algorithm: "phj-tr" } : {}) })(runtime)
                )
            );
        }
    }
    const words = [[new Int32(), (i) => i]];
    for (const columns of [
        [7, 7],
        [8, 8],
        [1, 24],
        [24, 1]
    ]) {
        const tables = pair(9100 + columns[0], columns, words);
        await check(`inner join of ${columns.join(" + ")} columns of 4 bytes, as planned`, () =>
            compare(gpu, cpu, joinOf(tables, {}))
        );
    }
    const tables = pair(9200, [24, 24]);
    const expected = reference(joinOf(tables, { type: "full" })(cpu));
    for (const algorithm of joinAlgorithms.filter((name) => /^(phj|smj)-/.test(name) || name === "npj")) {
        await check(`${algorithm}, full join of 24 + 24 columns`, () =>
            compareWith(joinOf(tables, { type: "full", algorithm })(gpu), expected)
        );
    }
}

async function pieces(cpu) {
    const memory = { host: "4GiB", device: "1GiB" };
    const gpu = await openRuntime({ device: "gpu", memory, debug: { pieceRows: options.small ? 40 : 1500 } });
    const tables = pair(9300, [12, 12]);
    for (const type of joinTypes) {
        await check(`${type} join of 12 + 12 columns in pieces`, () => compare(gpu, cpu, joinOf(tables, { type })));
    }
    await gpu.close();
}

/** As many aggregates of numbers, of all kinds in turns. */
function aggregatesOf(count, columns) {
    const kinds = ["sum", "min", "max", "mean", "count", "any"];
    const list = Array.from({ length: count }, (_, at) => {
        const kind = kinds[(at + Math.floor(at / columns)) % kinds.length];
        return [`a${at}`, kind === "any" ? { min: `c${at % columns}` } : { [kind]: `c${at % columns}` }];
    });
    return Object.fromEntries(list);
}

async function groups(gpu, cpu) {
    const numbers = [
        [new Int32(), (i) => i - 500],
        [new Int64(), (i) => BigInt(i) << 21n],
        [new Int16(), (i) => i],
        [new Float64(), (i) => i / 8]
    ];
    const rows = options.small ? 200 : 20_000;
    const columns = 48;
    for (const domain of [7, 3000]) {
        const table = wideTable(randomNumbers(9400 + domain), { rows, domain, columns, suffix: "", types: numbers });
        for (const count of options.small ? [10, 64] : [1, 4, 5, 8, 10, 16, 28, 29, 33, 64, 100, 256]) {
            const aggregates = aggregatesOf(count, columns);
            const grouped = (runtime, more) =>
                runtime.groupBy(runtime.fromTable(table), { keys: ["k"], aggregates, ...more });
            const expected = reference(grouped(cpu, {}));
            for (const algorithm of ["auto", "hgb", "hgb-global", "pgb-tr", "sgb-tr"]) {
                await check(`${algorithm}, ${count} aggregates of ${domain} keys`, () =>
                    compareWith(grouped(gpu, { algorithm }), expected)
                );
            }
        }
    }
}

export async function wideRows(gpu, cpu) {
    await joins(gpu, cpu);
    await pieces(cpu);
    await groups(gpu, cpu);
}
