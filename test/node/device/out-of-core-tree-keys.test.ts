// SPDX-License-Identifier: Apache-2.0
// Joins of joins larger than GPU memory, with and without a group-by on top, on keys that pass operators in another
// form than chunks of a source have: decimals of few digits, which group-bys take in 64 bits, and floats of 16 bits.
import { Decimal, Float16, Int32, Table, vectorFromArray, type DataType } from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";

useGpu();

/** Enough for three operators at once. */
const memory = { host: "512MiB", device: "256MiB" };
let cpu: Runtime;
let gpu: Runtime;

beforeAll(async () => {
    cpu = await openRuntime({ device: "cpu", threads: 2, memory });
    const turned = knobs({ outOfCore: true, chunkRows: 128, radixBits: 3, residentShare: 0.5 });
    gpu = await openRuntime({ device: "gpu", threads: 2, memory, ...turned });
});
afterAll(async () => {
    await cpu.close();
    await gpu.close();
});

/** The four words of 32 bits of a decimal of 128. */
const decimalOf = (value: bigint): Uint32Array =>
    Uint32Array.from([0n, 32n, 64n, 96n], (bit) => Number(BigInt.asUintN(32, value >> bit)));

const keys: Record<string, [DataType, (value: number) => unknown]> = {
    narrow: [new Decimal(2, 15, 128), (value) => decimalOf(BigInt(value - 20) * 1_000_007n)],
    digits: [new Decimal(2, 20, 128), (value) => decimalOf(BigInt(value - 20) * 1_000_007n)],
    half: [new Float16(), (value) => value / 4 - 3]
};

/** Keys of all kinds and a number of each row, their names behind that of the table. */
function table(random: Random, name: string, rows: number, nulls: number): Table {
    const columns = Object.entries(keys).map(([kind, [type, make]]) => {
        const cells = Array.from({ length: rows }, () => (random.chance(nulls) ? null : make(random.below(40))));
        return [`${name}_${kind}`, vectorFromArray(cells, type)] as const;
    });
    const numbers = Array.from({ length: rows }, () => random.below(9));
    return new Table({ ...Object.fromEntries(columns), [`${name}_n`]: vectorFromArray(numbers, new Int32()) });
}

type On = Record<string, string>;

/** Both joins by these keys of `a` with `b`, and of what comes out with `c`. */
const chains: Record<string, [On, On]> = {
    "decimals of few digits": [{ a_narrow: "b_narrow" }, { a_narrow: "c_narrow" }],
    "decimals of few digits, with what joins them": [{ a_n: "b_n", a_half: "b_half" }, { a_narrow: "c_narrow" }],
    "decimals of few and of more digits": [{ a_narrow: "b_digits" }, { a_narrow: "c_narrow", b_digits: "c_digits" }],
    "floats of 16 bits": [{ a_half: "b_half" }, { a_half: "c_half" }],
    "floats of 16 bits beside others": [{ a_half: "b_half" }, { a_n: "c_n", a_half: "c_half" }]
};

const groupings: Record<string, (joined: Query) => Query> = {
    none: (joined) => joined,
    "one group": (joined) => joined.groupBy({ keys: [], aggregates: { n: { count: "*" } } }),
    "values of the key": (joined) =>
        joined.groupBy({
            keys: ["a_n"],
            aggregates: {
                ...{ n: { count: "*" }, s: { sum: "a_narrow" }, mean: { mean: "a_narrow" } },
                ...{ least: { min: "a_narrow" }, most: { max: "a_narrow" }, many: { count: "a_narrow" } }
            }
        })
};

for (const [index, [name, [first, second]]] of Object.entries(chains).entries()) {
    test(`joins of joins on ${name}`, async () => {
        for (const [at, type] of joinTypes.entries()) {
            const random = new Random(100 * index + at);
            const nulls = random.pick([0, 0.1]);
            const tables = ["a", "b", "c"].map((of) => table(random, of, 90, nulls));
            const isReadable = !Object.keys(second).some((key) => key.startsWith("b")) || !/semi|anti/.test(type);
            const [lower, upper] =
                isReadable && random.chance(0.5) ? [type, "inner" as const] : (["inner", type] as const);
            const nullEquality = random.chance(0.3);
            for (const [what, grouped] of Object.entries(groupings)) {
                const on = (runtime: Runtime): Query => {
                    const [a, b, c] = tables.map((given) => runtime.fromTable(given));
                    const below = a!.join(b!, { on: first, type: lower, nullEquality });
                    const joined = below.join(c!, { on: second, type: upper, nullEquality });
                    return grouped(joined);
                };
                const expected = rowTexts(cellTable(await on(cpu).toTable()));
                const told = `${lower}, then ${upper}, ${nulls} NULLs, ${what}`;
                expectSameRows(rowTexts(cellTable(await on(gpu).toTable())), expected, told);
                expect(await on(gpu).count(), told).toBe(expected.length);
            }
        }
    });
}
