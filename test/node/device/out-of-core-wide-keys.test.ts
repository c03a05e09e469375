// SPDX-License-Identifier: Apache-2.0
// Joins larger than GPU memory on keys of more than 8 bytes, which are compared in words, against the CPU engine: every
// type of join, NULLs, text beside numbers, keys that are in the result and keys that are not.
import {
    Decimal,
    FixedSizeBinary,
    Float64,
    Int16,
    Int32,
    Int64,
    makeVector,
    Table,
    Utf8,
    vectorFromArray,
    type DataType
} from "apache-arrow";
import { openRuntime, type Query, type Runtime } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { cellTable } from "../../support/cells.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";

useGpu();

const memory = { host: "256MiB", device: "96MiB" };
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
function decimalOf(value: bigint): Uint32Array {
    return Uint32Array.from([0n, 32n, 64n, 96n], (bit) => Number(BigInt.asUintN(32, value >> bit)));
}

/** Bytes of 20 of which the values differ in the last one alone. */
function bytesOf(value: number): Uint8Array {
    const bytes = new Uint8Array(20).fill(7);
    bytes[19] = value;
    return bytes;
}

const kinds: Record<string, [DataType, number, (value: number) => unknown]> = {
    long: [new Int64(), 24, (value) => BigInt(value - 9) << 33n],
    other: [new Int64(), 12, (value) => BigInt(value) - 3n],
    int: [new Int32(), 5, (value) => value - 2],
    short: [new Int16(), 3, (value) => value - 1],
    float: [new Float64(), 6, (value) => (value === 0 ? -0 : value / 8)],
    text: [new Utf8(), 9, (value) => `text ${value}`],
    decimal: [new Decimal(2, 30, 128), 15, (value) => decimalOf(BigInt(value - 7) << 66n)],
    bytes: [new FixedSizeBinary(20), 15, bytesOf]
};

function table(seed: number, rows: number, nulls: number): Table {
    const random = new Random(seed);
    const suffix = seed % 2 === 0 ? "l" : "r";
    const keys = Object.entries(kinds).map(([name, [type, domain, make]]) => {
        const values = Array.from({ length: rows }, () => (random.chance(nulls) ? null : make(random.below(domain))));
        return [name, vectorFromArray(values, type)] as const;
    });
    const numbers = BigInt64Array.from({ length: rows }, (_, row) => BigInt(row));
    return new Table({ ...Object.fromEntries(keys), [`row_${suffix}`]: makeVector(numbers) });
}

/** Keys, and words behind the first one. */
const keySets: [string[], number][] = [
    [["long", "other"], 1],
    [["long", "int"], 1],
    [["int", "long", "short"], 1],
    [["text", "long"], 1],
    [["float", "text", "other"], 2],
    [["long", "other", "int", "text"], 2],
    [["decimal"], 1],
    [["decimal", "short"], 2],
    [["bytes"], 2]
];

const stageOf = async (query: Query): Promise<OutOfCoreStage> =>
    (await query.explain()).plan.stages[0] as OutOfCoreStage;

describe("joins on keys of several words have the rows of the CPU engine", () => {
    for (const [index, [key, words]] of keySets.entries()) {
        test(`on ${key.join(", ")}`, async () => {
            for (const [at, type] of joinTypes.entries()) {
                const random = new Random(100 * index + at);
                const nulls = random.pick([0, 0.1]);
                const tables = [table(2 * at, 500, nulls), table(2 * at + 1, 700, nulls)];
                const rows = type === "semi" || type === "anti" ? ["row_l"] : ["row_l", "row_r"];
                // Some keys are in the result.
                const wanted = [...key.filter(() => type !== "full" && random.chance(0.5)), ...rows];
                const on = (runtime: Runtime): Query => {
                    const [left, right] = tables.map((given) => runtime.fromTable(given));
                    const hints = { buildSide: random.pick(["left", "right"] as const) };
                    return runtime.join({ left: left!, right: right!, on: key, type, select: wanted, hints });
                };
                const expected = rowTexts(cellTable(await on(cpu).toTable()));
                const query = on(gpu);
                const what = `${type} join on ${key.join(", ")}, with ${wanted.join(", ")}, ${nulls} NULLs`;
                const { layout } = await stageOf(query);
                expect(layout, what).toMatchObject({ keys: "packed", join: { keyColumns: words } });
                expectSameRows(rowTexts(cellTable(await query.toTable())), expected, what);
                expect(await on(gpu).count(), what).toBe(expected.length);
            }
        });
    }
});

// Found by drawn trees: seed 436 of test/node/differential/trees.test.ts.
test("a key beside text that no build row has comes out of a row without a partner", async () => {
    const texts = (of: string, rows: number): Table =>
        new Table({
            ...{ [`${of}_n`]: makeVector(Int32Array.from({ length: rows }, (_, row) => row + 5)) },
            [`${of}_t`]: vectorFromArray(
                Array.from({ length: rows }, (_, row) => `${of} ${row}`),
                new Utf8()
            )
        });
    const [build, probe] = [texts("b", 40), texts("p", 90)];
    for (const [type, buildSide] of [["full", "left"] as const, ["left", "right"] as const]) {
        const on = (runtime: Runtime): Query => {
            const [b, p] = [runtime.fromTable(build), runtime.fromTable(probe)];
            const [left, right] = buildSide === "left" ? [b, p] : [p, b];
            const keys = buildSide === "left" ? { b_n: "p_n", b_t: "p_t" } : { p_n: "b_n", p_t: "b_t" };
            return runtime.join({ left, right, on: keys, type, hints: { buildSide } });
        };
        const expected = rowTexts(cellTable(await on(cpu).toTable()));
        expectSameRows(rowTexts(cellTable(await on(gpu).toTable())), expected, type);
    }
});
