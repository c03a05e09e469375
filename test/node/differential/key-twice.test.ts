// SPDX-License-Identifier: Apache-2.0
// Joins whose `on` names a right column twice have the rows of those with a copy of that column.
import * as arrow from "apache-arrow";
import { openRuntime, type Query, type Runtime, type RuntimeOptions } from "spillway";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { suiteModes } from "../../support/engine.js";
import { forSeeds, runsOneSeed, type Random } from "../../support/random.js";
import { joinTypes } from "../../support/reference.js";
import { rowTexts } from "../../support/rows.js";
import { knobs } from "../../support/knobs.js";

const modes: readonly RuntimeOptions[] = [
    { device: "cpu", memory: { host: "64MiB" } },
    { device: "cpu", memory: { host: "1MiB" }, threads: 1 },
    ...["forced spill", "hash always 0", "radix, bucket chaining", "streaming"].map((name) => suiteModes[name]!),
    { device: "auto", memory: { host: "64MiB", device: "64MiB" }, debug: { gpu: true } },
    { device: "auto", memory: { host: "256MiB", device: "64MiB" }, ...knobs({ outOfCore: true, chunkRows: 64 }) }
];
const runtimes: Runtime[] = [];
beforeAll(async () => {
    for (const mode of modes) runtimes.push(await openRuntime({ threads: 2, ...mode }));
});
afterAll(async () => {
    for (const runtime of runtimes) await runtime.close();
});

const integers = [new arrow.Int8(), new arrow.Int32(), new arrow.Int64(), new arrow.Uint16()];
const texts = [new arrow.Utf8(), new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32())];

function column(random: Random, type: arrow.DataType, rows: number, distinct: number): arrow.Vector {
    const values = Array.from({ length: rows }, () => {
        if (random.chance(0.05)) return null;
        const key = random.below(distinct);
        if (!arrow.DataType.isInt(type)) return `key ${key}`;
        return type.bitWidth === 64 ? BigInt(key) : key;
    });
    return arrow.vectorFromArray(values, type);
}

/** The left side, and the right one with a copy of its key. */
function tables(random: Random): { left: arrow.Table; right: arrow.Table } {
    const types = random.pick<readonly arrow.DataType[]>([integers, texts]);
    const distinct = random.pick([1, 10, 100]);
    const [rows, others] = [random.pick([0, 1, 300, distinct === 1 ? 30 : 5000]), random.pick([0, 1, 50, 300])];
    const made = () => column(random, random.pick(types), rows, distinct);
    const k = column(random, random.pick(types), others, distinct);
    const numbers = (count: number) => arrow.makeVector(Int32Array.from({ length: count }, (_, i) => i));
    return {
        left: new arrow.Table({ a: made(), b: made(), l: numbers(rows) }),
        right: new arrow.Table({ k, copy: k, r: numbers(others) })
    };
}

async function rowsOf(query: Query): Promise<string[]> {
    const batches: arrow.RecordBatch[] = [];
    for await (const batch of query) batches.push(batch);
    return rowTexts(cellTable(new arrow.Table(query.schema, batches))).sort();
}

describe("a right key of two left ones", () => {
    test("gives the rows that two equal columns give", async () => {
        let onGpu = 0;
        await forSeeds(61_000, 40, async (random) => {
            const { left, right } = tables(random);
            const type = random.pick(joinTypes);
            const nullEquality = random.chance(0.3);
            const select = type === "semi" || type === "anti" ? ["a", "b", "l"] : ["a", "b", "l", "k", "r"];
            const joined = (runtime: Runtime, b: "k" | "copy") => {
                const sides = { left: runtime.fromTable(left), right: runtime.fromTable(right) };
                return runtime.join({ ...sides, on: { a: "k", b }, type, nullEquality, select });
            };
            const expected = await rowsOf(joined(runtimes[0]!, "copy"));
            for (const [i, runtime] of runtimes.entries()) {
                const query = joined(runtime, "k");
                expect(await rowsOf(query), `${type} join in mode ${i}`).toEqual(expected);
                if (query.report()?.device === "gpu") onGpu += 1;
            }
        });
        if (!runsOneSeed) expect(onGpu).toBeGreaterThan(10);
    });

    test("of which one has its name comes out once, beside the other", async () => {
        const [runtime] = runtimes;
        const left = new arrow.Table({
            k: arrow.makeVector(Int32Array.of(1, 2, 3)),
            b: arrow.makeVector(Int32Array.of(1, 5, 3))
        });
        const right = new arrow.Table({ k: arrow.makeVector(Int32Array.of(3, 1, 7)) });
        const rows = async (type: (typeof joinTypes)[number]) => {
            const on = { k: "k", b: "k" } as const;
            const query = runtime!.join({ left: runtime!.fromTable(left), right: runtime!.fromTable(right), on, type });
            return await rowsOf(query as unknown as Query);
        };
        expect(await rows("inner")).toEqual(["1 | 1", "3 | 3"]);
        expect(await rows("full")).toEqual(["1 | 1", "2 | 5", "3 | 3", "7 | NULL"]);
        expect(await rows("right")).toEqual(["1 | 1", "3 | 3", "7 | NULL"]);
    });
});
