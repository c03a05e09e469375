// SPDX-License-Identifier: Apache-2.0
// Sizes and predictions of joins out of core, from the shapes of relations alone.
import { Decimal, Int32, Int64, Utf8, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { outOfCoreHostBytes, planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { ringBytes } from "../../../src/planner/streaming/join/sizes.js";
import { copiesBack } from "../../../src/planner/streaming/join/spilled-copies.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { deviceMemory } from "../../support/device-memory.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

const gibibyte = 2 ** 30;
const columns = { k: new Int64(), v: new Int64() };
const manyRows = 2 ** 30;

function queryOf(rows: readonly [number, number], more: Partial<PlanQuery> = {}, options = {}): PlanQuery {
    const [left, right] = rows.map((count, i) => inputNode(columns, { rows: count, name: ["l", "r"][i]! }));
    const root = join(left!, right!, { on: "k", ...options });
    return planQueryOf(root, { budgetBytes: 128 * gibibyte, threads: 16, ...more });
}

function planOf(query: PlanQuery, limitBytes: number): Plan | NotOnDevice {
    return planOutOfCore(query, planQuery(query), limitBytes);
}

function stageOf(query: PlanQuery, limitBytes: number): OutOfCoreStage {
    const plan = planOf(query, limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreStage;
}

describe("sizes", () => {
    test("stay below every limit, down to what the least chunks take", () => {
        const smallest = 32 * 2 ** 20;
        for (let limit = smallest; limit <= 2 ** 37; limit *= 1.7) {
            for (const rows of [0, 1000, 10 ** 6, manyRows]) {
                for (const sink of ["count", "batches"] as const) {
                    const { sizes, deviceBytes, layout } = stageOf(queryOf([rows, rows], { sink }), limit);
                    expect(deviceBytes).toBeLessThanOrEqual(limit);
                    expect(sizes.pages * sizes.pageRows).toBeGreaterThanOrEqual(sizes.chunkRows + sizes.pageRows);
                    expect(Math.log2(sizes.pageRows) % 1).toBe(0);
                    expect(sizes.residentPartitions).toBeLessThanOrEqual(2 ** sizes.radixBits);
                    const partition = (rows * deviceMemory().ofJoin(layout.join).rowBytes.build) / 2 ** sizes.radixBits;
                    if (limit > 2 ** 28) expect(partition).toBeLessThanOrEqual(16 * 2 ** 20);
                }
            }
        }
        const tooSmall = planOf(queryOf([1000, 1000]), 18 * 2 ** 20);
        expect(tooSmall).toBeInstanceOf(NotOnDevice);
    });

    test("of 2^30 rows of 16 bytes: chunks of 64 MiB, partitions of 16 MiB, some of them resident", () => {
        const shares = [4, 8, 16, 64].map((limit) => {
            const { sizes } = stageOf(queryOf([manyRows, manyRows]), limit * gibibyte);
            expect(sizes.chunkRows).toBe(2 ** 22);
            expect(sizes.radixBits).toBe(10);
            return sizes.residentPartitions / 2 ** sizes.radixBits;
        });
        expect(shares).toEqual([...shares].sort((a, b) => a - b));
        expect(shares[0]).toBeGreaterThan(0.15);
        expect(shares[3]).toBe(1);
    });

    test("of more than 32 GiB: chunks of up to 128 MiB, so that their runs are not many", () => {
        const chunkBytes = (rows: number, limitGib: number): number => {
            const { sizes, layout } = stageOf(queryOf([rows, rows], { sink: "count" }), limitGib * gibibyte);
            return sizes.chunkRows * deviceMemory().ofJoin(layout.join).rowBytes.build;
        };
        const mebibyte = 2 ** 20;
        // Counted rows are their keys.
        expect([31, 32, 33, 34].map((power) => chunkBytes(2 ** power, 16) / mebibyte)).toEqual([64, 128, 128, 128]);
        expect(chunkBytes(2 ** 33, 1) / mebibyte).toBeLessThan(64);
    });

    test("of chunks: no other size is predicted to be faster by 3 %", () => {
        // Whether there is a filter depends on the room that chunks leave.
        const totalMs = (rows: readonly [number, number], limitBytes: number, debug = {}): number => {
            const query = queryOf(rows, { sink: "count", debug: { ...debug, filter: false } });
            const { predicted } = stageOf(query, limitBytes);
            return predicted.buildMs + predicted.probeMs + predicted.spilledMs;
        };
        for (const limit of [0.5, 1, 2, 4, 8]) {
            for (const buildRows of [2 ** 26, 2 ** 28, 2 ** 29]) {
                const rows = [buildRows, 2 ** 29] as const;
                const chosen = totalMs(rows, limit * gibibyte);
                for (const chunkRows of [2 ** 20, 2 ** 21, 2 ** 22]) {
                    expect(chosen).toBeLessThan(1.03 * totalMs(rows, limit * gibibyte, { chunkRows }));
                }
            }
        }
        // Small chunks spill less, and it takes more copies to bring that back.
        const { sizes } = stageOf(queryOf([2 ** 29, 2 ** 29]), gibibyte);
        expect(sizes.chunkRows).toBe(2 ** 21);
    });

    test("leave host memory for everything else", () => {
        const query = queryOf([manyRows, manyRows]);
        const { memory } = stageOf(query, 4 * gibibyte);
        const taken = memory.inputBytes + memory.tableBytes + memory.outputBytes;
        expect(taken).toBeLessThan(query.budgetBytes * 0.95);
        const poor = planOf(queryOf([manyRows, manyRows], { budgetBytes: 10 ** 6 }), 4 * gibibyte);
        expect((poor as NotOnDevice).reason).toMatch(
            /rows that it spills \(about 2\d(.\d)? GiB\) need 32 KiB of host memory/
        );
        const small = stageOf(queryOf([10 ** 6, 10 ** 6], { budgetBytes: 2 ** 26 }), gibibyte);
        expect(small.memory.inputBytes).toBeLessThan(2 ** 24);
    });

    test("the host memory that is asked for has room for chunks of any size that is asked for", () => {
        for (const chunkRows of [2 ** 12, 2 ** 20, 2 ** 24]) {
            const query = queryOf([2 ** 22, 2 ** 22], { debug: { chunkRows, outOfCore: true } });
            const { sizes, layout } = stageOf(query, 8 * gibibyte);
            const { chunks, results } = ringBytes(deviceMemory().ofJoin(layout.join), sizes);
            expect(outOfCoreHostBytes(query, 8 * gibibyte)).toBeGreaterThan(chunks + results);
        }
    });

    test("are what is asked for", () => {
        const debug = { radixBits: 3, chunkRows: 1000, residentShare: 0.5 };
        const { sizes } = stageOf(queryOf([10 ** 6, 10 ** 6], { debug }), gibibyte);
        expect(sizes).toMatchObject({ radixBits: 3, chunkRows: 1000, residentPartitions: 4 });
    });
});

describe("predictions", () => {
    test("count each input once, spilled rows twice, result rows once", () => {
        const all = stageOf(queryOf([manyRows, manyRows], { sink: "count" }), 64 * gibibyte).predicted;
        expect(all).toMatchObject({ h2dBytes: 2 * manyRows * 8, d2hBytes: 0, spilledBytes: 0, spilledMs: 0 });
        const rows = stageOf(queryOf([manyRows, manyRows]), 64 * gibibyte).predicted;
        expect(rows).toMatchObject({ h2dBytes: 2 * manyRows * 16, d2hBytes: manyRows * 24 });
        const some = stageOf(queryOf([manyRows, manyRows], { sink: "count" }), 2 * gibibyte).predicted;
        expect(some.h2dBytes).toBe(2 * manyRows * 8 + some.spilledBytes);
        expect(some.d2hBytes).toBe(some.spilledBytes);
        expect(some.spilledMs).toBeGreaterThan(0);
    });

    test("keys that are carried take no room of their own", () => {
        const { layout } = stageOf(queryOf([1000, 1000]), gibibyte);
        expect(layout.join).toMatchObject({ keyBytes: 8, buildWidths: [8], probeWidths: [8] });
        expect(layout.join.outputs.map(({ side }) => side).sort()).toEqual(["build", "key", "probe"]);
        const narrow = join(inputNode({ k: new Int32() }), inputNode({ k: new Int32() }), { on: "k", type: "full" });
        const { layout: keys, sizes } = stageOf(planQueryOf(narrow), gibibyte);
        expect(keys.join).toMatchObject({ keyBytes: 4, buildWidths: [], probeWidths: [] });
        expect(sizes.radixBits).toBe(5);
    });
});

test("copies bring back what each chunk spilled of each group of partitions", () => {
    const sizes = { ...stageOf(queryOf([manyRows, manyRows]), gibibyte).sizes, chunkRows: 2 ** 20, radixBits: 9 };
    const rows = { build: 2 ** 29, probe: 2 ** 30 };
    const ample = { ...sizes, pageRows: 2 ** 12, pages: 2 ** 20, residentPartitions: 128 };
    expect(copiesBack({ rows, reads: 1 }, ample)).toBe(((2 ** 29 * 0.75) / 2 ** 22) * (2 ** 9 + 2 ** 10));
    // Pages hold less than four chunks.
    const few = { ...ample, pages: 2 ** 9 };
    expect(copiesBack({ rows, reads: 1 }, few)).toBe(((2 ** 29 * 0.75) / 2 ** 21) * (2 ** 9 + 2 ** 10));
    expect(copiesBack({ rows, reads: 1 }, { ...ample, residentPartitions: 512 })).toBe(0);
    expect(copiesBack({ rows: { build: 0, probe: 0 }, reads: 1 }, { ...ample, pages: 0 })).toBe(0);
});

describe("columns that do not cross the link", () => {
    const wide = { k: new Int64(), v: new Int64(), d: new Decimal(2, 30, 128), t: new Utf8() };
    const sides = (inMemory: boolean, types: Record<string, DataType> = wide) =>
        ["l", "r"].map((name) => inputNode(types, { rows: manyRows, name, inMemory, textBytes: 20 }));
    const gatheredBy = (query: PlanQuery, limitBytes = 16 * gibibyte): Record<string, string> => {
        const { gathered } = stageOf(query, limitBytes).layout;
        return Object.fromEntries(gathered.map(({ side, name, reason }) => [`${side} ${name}`, reason]));
    };
    const resources = { budgetBytes: 512 * gibibyte, threads: 16 };
    const joinOf = (inMemory: boolean, options: object, types = wide as Record<string, DataType>): PlanQuery => {
        const [left, right] = sides(inMemory, types);
        return planQueryOf(join(left!, right!, { on: "k", ...options }), resources);
    };

    test("are those that cannot, and of rows that are too wide those that lose least", () => {
        expect(gatheredBy(joinOf(true, {}))).toMatchObject({ "build t": "text", "probe t": "text" });
        const named = (columns: number) =>
            Object.fromEntries(Array.from({ length: columns }, (_, i) => [i === 0 ? "k" : `v${i}`, new Int64()]));
        expect(gatheredBy(joinOf(true, {}, named(16)))).toEqual({});
        const many = named(17);
        const dear = gatheredBy(joinOf(true, {}, many));
        expect(Object.values(dear)).toEqual(Array(4).fill("row of 136 bytes"));
        const { layout } = stageOf(joinOf(true, {}, many), 16 * gibibyte);
        expect([...layout.join.buildWidths].sort()).toEqual([4, ...Array<number>(14).fill(8)]);
        expect([...layout.join.probeWidths].sort()).toEqual([4, ...Array<number>(14).fill(8)]);
        expect(layout.rowNumbers.build).toBeGreaterThanOrEqual(0);
        const counted = { ...joinOf(true, {}, many), sink: "count" } as const;
        expect(stageOf(counted, 16 * gibibyte).layout).toMatchObject({ gathered: [], rowNumbers: { build: -1 } });
    });

    test("are gathered where few rows come out, from memory", () => {
        const few = { hints: { resultRows: 1000 } };
        const types = { k: new Int64(), v: new Int64(), d: new Decimal(2, 30, 128) };
        expect(gatheredBy(joinOf(true, few, types))["build d"]).toMatch(/^cheaper by \d+ ms$/);
        expect(gatheredBy(joinOf(false, few, types))).toEqual({});
        expect(gatheredBy(joinOf(true, {}, types))).toEqual({});
        const { predicted } = stageOf(joinOf(true, few, types), 16 * gibibyte);
        expect(predicted.h2dBytes).toBeLessThan(stageOf(joinOf(false, few, types), 16 * gibibyte).predicted.h2dBytes);
    });

    test("of files are held in host memory", () => {
        const stage = stageOf(joinOf(false, {}), 16 * gibibyte);
        expect(stage.heldBytes).toBe((2 * manyRows * 24 * 9) / 8);
        expect(stage.memory.inputBytes).toBeGreaterThan(stage.heldBytes);
        expect(stageOf(joinOf(true, {}), 16 * gibibyte).heldBytes).toBe(0);
        const poor = planOf({ ...joinOf(false, {}), budgetBytes: 32 * gibibyte }, 16 * gibibyte);
        expect((poor as NotOnDevice).reason).toMatch(/gathered from host memory need 54 GiB,/);
        expect(outOfCoreHostBytes(joinOf(false, {}))).toBeGreaterThan(64 * gibibyte);
    });

    test("go with keys of which a hash is joined", () => {
        const nullable = (on: string[]) => {
            const [left, right] = sides(true).map(() =>
                inputNode(wide, { rows: manyRows, nullable: true, inMemory: true })
            );
            return planQueryOf(join(left!, right!, { on, nullEquality: true }), resources);
        };
        for (const on of [["k", "v"], ["k", "t"], ["d"]]) {
            const { layout } = stageOf(nullable(on), 16 * gibibyte);
            expect(layout).toMatchObject({ keys: "hashed" });
            expect(layout.join).toMatchObject({ keyBytes: 8, buildWidths: [4], probeWidths: [4], result: "rows" });
            // All columns, keys of both sides once.
            expect(layout.gathered).toHaveLength(8 - on.length);
            const counted = stageOf({ ...nullable(on), sink: "count" }, 16 * gibibyte);
            expect(counted.layout).toMatchObject({ gathered: [], columns: [], join: { result: "rows" } });
        }
    });

    test("go with keys of several words that are compared, in joins of every type", () => {
        for (const type of ["inner", "left", "semi", "anti"]) {
            const { layout } = stageOf(joinOf(true, { on: ["k", "v"], type }), 16 * gibibyte);
            const join = { keyBytes: 8, keyColumns: 1, result: "rows" };
            expect(layout).toMatchObject({ keys: "packed", join, rowNumbers: { build: expect.any(Number) as number } });
            for (const side of [layout.build, layout.probe]) expect(side.columns[0]).toMatchObject({ column: -2 });
            const counted = stageOf({ ...joinOf(true, { on: ["k", "v"], type }), sink: "count" }, 16 * gibibyte);
            const count = { keyColumns: 1, buildWidths: [8], probeWidths: [8], result: "count" };
            expect(counted.layout.join).toMatchObject(count);
        }
        // The result has no `k`, which is mixed with the other word; `v` is read from there.
        const { layout } = stageOf(joinOf(true, { on: ["v", "k"], select: ["v"] }), 16 * gibibyte);
        expect(layout.build.keys.map(({ column }) => Object.keys(wide)[column])).toEqual(["k", "v"]);
        expect(layout.join).toMatchObject({ buildWidths: [8], probeWidths: [8], outputs: [{ column: 0 }] });
        const text = stageOf(joinOf(true, { on: ["k", "t"], type: "left" }), 16 * gibibyte);
        expect(text.layout).toMatchObject({ keys: "packed", join: { keyColumns: 1 } });
        const decimal = stageOf(joinOf(true, { on: "d", type: "semi" }), 16 * gibibyte);
        expect(decimal.layout).toMatchObject({ keys: "packed", join: { keyColumns: 1 } });
    });

    test("are text that a number stands for, in joins of every type", () => {
        for (const type of ["inner", "left", "right", "full", "semi", "anti"]) {
            const { layout } = stageOf(joinOf(true, { on: "t", type }), 16 * gibibyte);
            expect(layout).toMatchObject({ keys: "packed", join: { keyBytes: 4, result: "rows" } });
            expect(layout.gathered.map(({ name }) => name)).toContain("t");
            const counted = stageOf({ ...joinOf(true, { on: "t", type }), sink: "count" }, 16 * gibibyte);
            expect(counted.layout).toMatchObject({ gathered: [], join: { keyBytes: 4, result: "count" } });
        }
        const beside = { ...wide, n: new Int32() };
        const { layout } = stageOf(joinOf(true, { on: ["t", "n"] }, beside), 16 * gibibyte);
        expect(layout).toMatchObject({ keys: "packed", join: { keyBytes: 8 } });
        const equal = sides(true).map(() => inputNode(wide, { rows: manyRows, nullable: true, inMemory: true }));
        const withNulls = join(equal[0]!, equal[1]!, { on: "t", nullEquality: true });
        expect(stageOf(planQueryOf(withNulls, resources), 16 * gibibyte).layout).toMatchObject({ keys: "hashed" });
    });

    test("go with keys that are numbered, which host memory and time are planned for", () => {
        const types = { k: new Int64(), l: new Int64(), m: new Int64(), n: new Int64(), o: new Int64() };
        const query = (on: string[]) => ({ ...joinOf(true, { on, type: "left" }, types), sink: "count" }) as const;
        const [packed, numbered] = [query(["k", "l", "m", "n"]), query(["k", "l", "m", "n", "o"])];
        const [before, after] = [packed, numbered].map((one) => stageOf(one, 16 * gibibyte));
        expect([before!.layout.keys, after!.layout.keys]).toEqual(["packed", "numbered"]);
        expect(after!.layout.join).toMatchObject({ keyBytes: 4, keyColumns: 0, result: "count" });
        // Five values, a bit for each, and where they lie.
        const numberBytes = manyRows * (5 * 8 + 1 + 48);
        expect(after!.memory.tableBytes).toBeGreaterThanOrEqual(numberBytes);
        expect(outOfCoreHostBytes(numbered)).toBeGreaterThan(numberBytes);
        expect(after!.predicted.buildMs).toBeGreaterThan(before!.predicted.buildMs);
        expect(after!.predicted.probeMs).toBeGreaterThan(before!.predicted.probeMs);
        const poor = planOf({ ...numbered, budgetBytes: 32 * gibibyte }, 16 * gibibyte);
        expect((poor as NotOnDevice).reason).toMatch(/^numbers of keys need 89 GiB,/);
        const many = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`k${i}`, new Int64()]));
        const tooMany = planOf(joinOf(true, { on: Object.keys(many), type: "left" }, many), 16 * gibibyte);
        expect((tooMany as NotOnDevice).reason).toBe("there are 65 keys, of which 64 are numbered together");
    });
});

test("host memory is asked for where tables are not likely to fit", () => {
    const query = queryOf([manyRows, manyRows]);
    const wanted = outOfCoreHostBytes(query, 16 * gibibyte);
    expect(wanted).toBeGreaterThan(32 * gibibyte);
    expect(wanted).toBeLessThan(48 * gibibyte);
    expect(outOfCoreHostBytes(query)).toBeGreaterThan(32 * gibibyte);
    expect(outOfCoreHostBytes(queryOf([1000, 1000]), gibibyte)).toBe(0);
    expect(outOfCoreHostBytes(queryOf([1000, 1000], { debug: { outOfCore: true } }), gibibyte)).toBeGreaterThan(0);
    expect(outOfCoreHostBytes(queryOf([manyRows, 10], {}, { algorithm: "npj" }), gibibyte)).toBe(0);
});
