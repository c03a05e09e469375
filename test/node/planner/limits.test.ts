// SPDX-License-Identifier: Apache-2.0
// Plans of queries of some rows: they give these early, and say what is tried before.
import { Float64, Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { Plan } from "../../../src/plan/plan.js";
import { firstRowsQuery } from "../../../src/planner/first-rows.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const gibibyte = 2 ** 30;
const numbers = { k: new Int64(), v: new Float64() };
const build = inputNode(numbers, { rows: 10_000_000, name: "build" });
const probe = inputNode(numbers, { rows: 80_000_000, name: "probe" });
const whole = join(build, probe, { on: "k" });
const limited = (node: LogicalNode, limit: number): LogicalNode => ({ ...node, limit }) as LogicalNode;

const planOf = (root: LogicalNode, more: Partial<PlanQuery> = {}): Plan =>
    planQuery(planQueryOf(root, { budgetBytes: 8 * gibibyte, ...more }));
const kinds = ({ stages }: Plan): string[] => stages.map(({ kind }) => kind);

describe("a join of some rows", () => {
    test("streams past a table of the smaller side, where memory has room for it", () => {
        expect(kinds(planOf(whole))).toEqual(["partition", "partition", "join"]);
        const plan = planOf(limited(whole, 1000));
        expect(kinds(plan)).toEqual(["partition", "streamingJoin"]);
        expect(plan.inputs[(plan.stages[0] as { input: number }).input]?.name).toBe("build");
        expect(plan.stages[1]).toMatchObject({ output: { to: "sink", limit: { rows: 1000 } } });
        // One large table takes longer than partitions of a side of as many rows.
        const even = join(build, inputNode(numbers, { rows: 12_000_000 }), { on: "k" });
        expect(kinds(planOf(limited(even, 1000)))).toEqual(["partition", "partition", "join"]);
        const tight = planOf(limited(whole, 1000), { budgetBytes: gibibyte / 16 });
        expect(kinds(tight)).toEqual(["partition", "partition", "join"]);
    });

    test("partitions both sides where most of its rows are wanted, or come last", () => {
        const all = limited(whole, 60_000_000);
        expect(kinds(planOf(all))).toEqual(["partition", "partition", "join"]);
        const semi = join(build, probe, { on: "k", type: "semi", hints: { buildSide: "left" } });
        expect(kinds(planOf(limited(semi, 10)))).not.toContain("streamingJoin");
    });

    test("is predicted to take less time the fewer rows are wanted", () => {
        const columns = { ...numbers, w: new Float64(), x: new Float64(), y: new Float64() };
        const sides = [10_000_000, 80_000_000].map((rows) => inputNode(columns, { rows }));
        const wide = join(sides[0]!, sides[1]!, { on: "k" });
        const times = [1e3, 1e6, Infinity].map((limit) => {
            const { stages } = planOf(limit === Infinity ? wide : limited(wide, limit));
            return stages.reduce((sum, { predictedMs }) => sum + predictedMs, 0);
        });
        expect(times).toEqual([...times].sort((a, b) => a - b));
        expect(new Set(times).size).toBe(3);
    });

    test.each([
        [1, 1],
        [10, 10],
        [100_000, 25_000]
    ])("hands %i rows over in batches of %i at most", (limit, batchRows) => {
        const plan = planOf(limited(whole, limit), { sink: "batches", debug: { workers: 4 } });
        expect(plan).toMatchObject({ limit, result: { rows: limit } });
        expect(plan.batchRows).toBeLessThanOrEqual(batchRows);
    });

    test("of none has no stages", () => {
        expect(planOf(limited(whole, 0))).toMatchObject({ stages: [], sets: [], limit: 0, predictedMs: 0 });
    });

    test("below another operator gives it no more", () => {
        const { stages } = planOf(group(limited(whole, 500), { keys: ["k"], aggregates: { n: { sum: "v_right" } } }));
        expect(stages.map(({ kind }) => kind)).toEqual(["partition", "streamingJoin", "group"]);
        expect(stages[1]).toMatchObject({ output: { to: "set", limit: { rows: 500 } } });
        expect(stages[2]?.rowsIn).toBe(500);
    });
});

describe("the first rows of the inputs", () => {
    const tried = (root: LogicalNode, more: Partial<PlanQuery> = {}) =>
        firstRowsQuery(planQueryOf(root, { budgetBytes: 8 * gibibyte, ...more }));

    test("are tried where they are likely to do: more of them for more rows", () => {
        const rowsOf = (limit: number): number[] | undefined =>
            planOf(limited(whole, limit)).first?.inputs.map(({ rows }) => rows);
        const [one, many] = [rowsOf(1), rowsOf(1000)];
        expect(one?.[0]).toBeLessThan(many?.[0] ?? 0);
        expect(many?.[0]).toBeLessThan(10_000_000 / 2);
        expect(rowsOf(5_000_000)).toBeUndefined();
        expect(planOf(whole).first).toBeUndefined();
    });

    test.each(["left", "right", "full"])("give no row that has no partner among them: %s", (type) => {
        const { root } = tried(limited(join(build, probe, { on: "k", type }), 10)) ?? {};
        expect(root).toMatchObject({ kind: "join", type: "inner", limit: 10 });
        expect(root?.columns.map(({ name }) => name)).toEqual(["k", "v", "v_right"]);
    });

    test.each([
        ["an anti join", limited(join(build, probe, { on: "k", type: "anti" }), 10)],
        ["a group-by", limited(group(build, { keys: ["k"], aggregates: {} }), 10)],
        ["a join of groups", limited(join(group(build, { keys: ["k"], aggregates: {} }), probe, { on: "k" }), 10)],
        ["a join whose algorithm was named", limited(join(build, probe, { on: "k", algorithm: "npj" }), 10)],
        [
            "a small join",
            limited(join(inputNode(numbers, { rows: 100_000 }), inputNode(numbers, { rows: 10 }), { on: "k" }), 1)
        ]
    ])("are not tried of %s", (_, root) => {
        expect(tried(root)).toBeUndefined();
    });

    test("are not tried against the will of who turns knobs, nor where too few rows would come", () => {
        expect(tried(limited(whole, 10))).toBeDefined();
        expect(tried(limited(whole, 10), { debug: { workers: 2 } })).toBeUndefined();
        const rare = join(build, probe, { on: "k", hints: { resultRows: 100 } });
        expect(tried(limited(rare, 10))).toBeUndefined();
    });
});
