// SPDX-License-Identifier: Apache-2.0
// Layouts, sizes and predictions of group-bys out of core, from the shapes of relations alone.
import { Float64, Int16, Int32, Int64, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { formatCount } from "../../../src/model/sizes.js";
import type { OutOfCoreGroupStage } from "../../../src/plan/out-of-core-group-stage.js";
import type { Plan } from "../../../src/plan/plan.js";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { outOfCoreHostBytes, planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { deviceMemory } from "../../support/device-memory.js";
import { group, inputNode, join, planQueryOf, planWithNamedLimit, type InputShape } from "../../support/planning.js";
import { forSeeds } from "../../support/random.js";

const gibibyte = 2 ** 30;
const columns: Record<string, DataType> = { k: new Int64(), v: new Int64() };
const manyRows = 2 ** 30;
const sumAndCount = { keys: ["k"], aggregates: { n: { count: "*" }, sum: { sum: "v" } } };

function queryOf(shape: InputShape, options: object = sumAndCount, more: Partial<PlanQuery> = {}): PlanQuery {
    const root = group(inputNode(columns, shape), options);
    return planQueryOf(root, { budgetBytes: 128 * gibibyte, threads: 16, ...more });
}

function planOf(query: PlanQuery, limitBytes: number): Plan | NotOnDevice {
    return planOutOfCore(query, planQuery(query), limitBytes);
}

function stageOf(query: PlanQuery, limitBytes: number): OutOfCoreGroupStage {
    const plan = planOf(query, limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreGroupStage;
}

const hinted = (groups: number): object => ({ ...sumAndCount, hints: { groups } });

describe("layouts", () => {
    test("numbers of 64 bits are added in halves, NULLs are zeros that are not counted", () => {
        const exact = stageOf(queryOf({ rows: 1000 }), gibibyte).layout;
        expect(exact.group).toMatchObject({ keyBytes: 8, widths: [4, 4], nullGroup: false });
        expect(exact.group.aggregates.map(({ kind, number }) => `${kind} ${number}`)).toEqual([
            "countRows signed",
            "sum unsigned",
            "sum signed"
        ]);
        expect(deviceMemory().ofGroupBy(exact.group).rowBytes).toBe(32);
        const options = { keys: ["k"], aggregates: { mean: { mean: "v" } } };
        const nullable = stageOf(queryOf({ rows: 1000, nullable: true }, options), gibibyte).layout;
        expect(nullable.group).toMatchObject({ widths: [1, 4, 4], nullGroup: true });
        expect(nullable.side.columns.map(({ fill }) => fill)).toEqual(["none", "zero", "zero"]);
        expect(nullable.columns[1]).toMatchObject({ kind: "mean", value: 3, high: 4, count: 2, present: 2 });
    });

    test("a key and what is added up for it may be wider than a row of a join, at any size", () => {
        for (const sums of [2, 4, 6, 12]) {
            const names = Array.from({ length: sums }, (_, i) => `v${i}`);
            const types = Object.fromEntries(["k", ...names].map((name) => [name, new Int64()]));
            const aggregates = Object.fromEntries(names.map((name) => [name, { sum: name }]));
            const options = { keys: ["k"], aggregates: { ...aggregates, n: { count: "*" } }, hints: { groups: 1e8 } };
            for (const [rows, limit] of [
                [1000, gibibyte / 8],
                [1e9, gibibyte],
                [1e9, 64 * gibibyte]
            ] as const) {
                const query = planQueryOf(group(inputNode(types, { rows }), options), { budgetBytes: 512 * gibibyte });
                const { layout, sizes, deviceBytes } = stageOf(query, limit);
                expect(layout.group.aggregates).toHaveLength(2 * sums + 1);
                expect(deviceMemory().ofGroupBy(layout.group).rowBytes).toBe(16 + 16 * sums);
                expect(deviceBytes).toBeLessThanOrEqual(limit);
                expect(sizes.pages * sizes.pageRows).toBeGreaterThanOrEqual(sizes.chunkRows + sizes.pageRows);
                expect(sizes.chunkRows).toBeGreaterThanOrEqual(Math.min(rows, 2 ** 14));
            }
        }
        const names = Array.from({ length: 14 }, (_, i) => `v${i}`);
        const types = Object.fromEntries(["k", ...names].map((name) => [name, new Int64()]));
        const aggregates = Object.fromEntries(names.map((name) => [name, { sum: name }]));
        const most = planQueryOf(group(inputNode(types, { rows: 1000 }), { keys: ["k"], aggregates }));
        expect(stageOf(most, gibibyte).layout.group.widths).toHaveLength(28);
        const counted = { keys: ["k"], aggregates: { ...aggregates, n: { count: "*" } } };
        // One more is too much for one of them.
        const more = planOf(planQueryOf(group(inputNode(types, { rows: 1000 }), counted)), gibibyte) as Plan;
        expect(more.stages.map(({ name }) => name)).toEqual(["group", "group", "join"]);
    });

    test("without keys there is a group without rows, whose sums and extremes are NULL", () => {
        const types = { k: new Int64(), w: new Int32() };
        const aggregates = { sum: { sum: "w" }, mean: { mean: "w" }, min: { min: "w" }, n: { count: "w" } };
        const layoutOf = (keys: string[], nullable: boolean): OutOfCoreGroupStage["layout"] =>
            stageOf(planQueryOf(group(inputNode(types, { nullable }), { keys, aggregates })), gibibyte).layout;
        const found = ({ group: spec, columns: results }: OutOfCoreGroupStage["layout"]) =>
            results.map(({ present, count }) =>
                // Columns that leave the GPU: the key, then the aggregates.
                [present, count].map((column) => (column < 0 ? "-" : spec.aggregates[column - 1]!.kind))
            );
        expect(found(layoutOf([], false))).toEqual([
            ["countRows", "-"],
            ["countRows", "countRows"],
            ["countRows", "-"],
            ["-", "-"]
        ]);
        // With keys each group has a row.
        expect(found(layoutOf(["k"], false)).slice(1)).toEqual([
            ["-", "-"],
            ["-", "countRows"],
            ["-", "-"],
            ["-", "-"]
        ]);
        // Values that may be NULL are counted themselves.
        expect(found(layoutOf([], true))).toEqual([
            ["sum", "sum"],
            ["sum", "sum"],
            ["sum", "-"],
            ["-", "-"]
        ]);
    });

    test("several keys share a word, with a flag for each that may be NULL", () => {
        const types = { a: new Int16(), b: new Int32(), v: new Float64() };
        const of = (nullable: boolean, sink: PlanQuery["sink"]): OutOfCoreGroupStage["layout"] => {
            const root = group(inputNode(types, { nullable }), { keys: ["a", "b"], aggregates: { m: { max: "v" } } });
            return stageOf(planQueryOf(root, { sink }), gibibyte).layout;
        };
        expect(of(false, "batches").side.nullByte).toBe(-1);
        const { group: spec, side, columns: results } = of(true, "batches");
        expect([spec.nullGroup, side.nullByte]).toEqual([false, 6]);
        expect(results.map(({ offset, key, present }) => [offset, key, present])).toEqual([
            [0, 0, -1],
            [2, 1, -1],
            [0, -1, 2]
        ]);
        expect(of(true, "count")).toMatchObject({ group: { widths: [] }, columns: [] });
    });
});

describe("sizes", () => {
    test("stay below every limit, down to what the least chunks take", () => {
        for (let limit = 48 * 2 ** 20; limit <= 2 ** 37; limit *= 1.7) {
            for (const rows of [0, 1000, 10 ** 6, manyRows]) {
                for (const groups of [10, 10 ** 6, manyRows]) {
                    const { sizes, deviceBytes } = stageOf(queryOf({ rows }, hinted(groups)), limit);
                    expect(deviceBytes).toBeLessThanOrEqual(limit);
                    expect(sizes.pages * sizes.pageRows).toBeGreaterThanOrEqual(sizes.chunkRows + sizes.pageRows);
                    expect(sizes.mergeRows).toBeGreaterThanOrEqual(Math.max(sizes.chunkRows, sizes.pageRows));
                    expect(Math.log2(sizes.pageRows) % 1).toBe(0);
                }
            }
        }
        expect(planOf(queryOf({ rows: 1000 }), 24 * 2 ** 20)).toBeInstanceOf(NotOnDevice);
    });

    test("leave host memory for everything else", () => {
        const query = queryOf({ rows: manyRows }, hinted(manyRows));
        const { memory } = stageOf(query, 4 * gibibyte);
        const taken = memory.inputBytes + memory.tableBytes + memory.outputBytes;
        expect(taken).toBeLessThan(query.budgetBytes * 0.95);
    });

    test("have whole blocks of host memory for the rows that are expected to stay there", () => {
        const rows = 8e6;
        let tight = 0;
        for (const limit of [159e6, 186e6, 193e6]) {
            for (let budgetBytes = 20 * 2 ** 20; budgetBytes < 40 * 2 ** 20; budgetBytes *= 1.02) {
                const options = { keys: ["k"], aggregates: { n: { count: "*" } }, hints: { groups: rows } };
                const plan = planOf(queryOf({ rows }, options, { budgetBytes, sink: "count", threads: 4 }), limit);
                if (plan instanceof NotOnDevice) continue;
                const { sizes, predicted } = plan.stages[0] as OutOfCoreGroupStage;
                const usable = Math.floor(sizes.spillBytes / sizes.spillBlockBytes) * sizes.spillBlockBytes;
                if (predicted.diskBytes > 0) continue;
                expect(usable + sizes.spillBlockBytes).toBeGreaterThan(predicted.spilledBytes);
                if (usable < 1.2 * predicted.spilledBytes) ++tight;
            }
        }
        expect(tight).toBeGreaterThan(0);
    });

    test("are what is asked for", () => {
        const debug = { radixBits: 3, chunkRows: 1000, residentShare: 0 };
        const { sizes } = stageOf(queryOf({ rows: 10 ** 6 }, sumAndCount, { debug }), gibibyte);
        expect(sizes).toMatchObject({ radixBits: 3, chunkRows: 1000, pageRows: 512, pages: 3 });
    });
});

describe("predictions", () => {
    test("count the input once, spilled rows twice, groups once", () => {
        const few = stageOf(queryOf({ rows: manyRows }, hinted(1000)), 4 * gibibyte).predicted;
        expect(few).toMatchObject({ h2dBytes: manyRows * 16, d2hBytes: 1000 * 32, spilledBytes: 0, spilledMs: 0 });
        const many = stageOf(queryOf({ rows: manyRows }, hinted(manyRows)), 4 * gibibyte).predicted;
        expect(many.spilledBytes).toBeGreaterThan(8 * gibibyte);
        expect(many.h2dBytes).toBe(manyRows * 16 + many.spilledBytes);
        expect(many.spilledMs).toBeGreaterThan(0);
        const counted = queryOf({ rows: manyRows }, hinted(manyRows), { sink: "count" });
        const { h2dBytes, d2hBytes, spilledBytes } = stageOf(counted, 64 * gibibyte).predicted;
        expect([h2dBytes, d2hBytes, spilledBytes]).toEqual([manyRows * 8, 0, 0]);
    });
});

test("host memory is asked for where tables are not likely to fit", () => {
    expect(outOfCoreHostBytes(queryOf({ rows: manyRows }), 16 * gibibyte)).toBeGreaterThan(32 * gibibyte);
    expect(outOfCoreHostBytes(queryOf({ rows: 1000 }), gibibyte)).toBe(0);
    const forced = queryOf({ rows: 1000 }, sumAndCount, { debug: { outOfCore: true } });
    expect(outOfCoreHostBytes(forced, gibibyte)).toBeGreaterThan(0);
    const joined = join(inputNode(columns, { name: "l" }), inputNode(columns, { name: "r" }), { on: "k" });
    expect(outOfCoreHostBytes(planQueryOf(group(joined, { keys: ["k"], aggregates: {} })), 1)).toBe(0);
});

test("explain has the path, what is under way at once and the second pass", () => {
    const query = queryOf({ rows: 2 ** 28 });
    const plan = planOf(query, gibibyte) as Plan;
    const { path, work, sizes } = plan.stages[0] as OutOfCoreGroupStage;
    expect([path.runs, path.reason]).toEqual(["staged", "group-bys have no other"]);
    expect(work).toEqual({
        histogram: "none",
        streams: ["chunks in", "kernels", "spilled rows out", "results out"]
    });
    const text = planText(plan);
    expect(text).toContain("path: staged (group-bys have no other)");
    expect(text).toContain(
        `second pass: partitions are aggregated again, ${formatCount(sizes.mergeRows)} rows at once`
    );
    expect(text).toMatch(/4 streams \(chunks in, .*, results out\), 3 chunk slots$/m);
    expect(JSON.parse(JSON.stringify(plan)).stages[0]).toMatchObject({ path, work });
});

test("whatever the rows and the limit, a plan keeps to it, or the limit that an error names suffices", async () => {
    const values = [new Int64(), new Int32(), new Int16(), new Float64()];
    await forSeeds(1, 300, async (random, seed) => {
        const rows = Math.floor(2 ** (14 + 19 * random.unit()));
        const root = group(
            inputNode({ k: random.pick([new Int64(), new Int32()]), v: random.pick(values) }, { rows }),
            {
                ...sumAndCount,
                hints: { groups: Math.ceil(rows ** random.unit()) }
            }
        );
        const sink = random.pick(["count", "batches", "table"] as const);
        const query = planQueryOf(root, { budgetBytes: 2 ** 40, threads: 16, sink });
        const limit = Math.floor(2 ** (24 + 8 * random.unit()));
        const what = `seed ${seed}: ${rows} rows in ${limit} bytes, ${sink}`;
        const { plan, limitBytes } = planWithNamedLimit((bytes) => planOf(query, bytes), limit, what);
        const { deviceBytes } = plan.stages[0] as OutOfCoreGroupStage;
        expect(deviceBytes, what).toBeLessThanOrEqual(limitBytes);
    });
});
