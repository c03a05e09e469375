// SPDX-License-Identifier: Apache-2.0
// Joins behind each other whose tables stay in memory: which ones are planned as one stage, and what it is told.
import { Field, Int32, Int64, List, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { KeySpec } from "../../../src/model/column-type.js";
import { inputsOf, type LogicalNode } from "../../../src/plan/logical.js";
import type { PipelineStage, Plan } from "../../../src/plan/plan.js";
import { Explanation } from "../../../src/plan/plan-text.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { statisticsId, type KeyStatistics } from "../../../src/planner/statistics.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const dimension = (name: string, rows: number, more = {}): LogicalNode =>
    inputNode({ [`${name}_key`]: new Int64(), [`${name}_name`]: new Utf8() }, { rows, name, ...more });
const fact = (more = {}): LogicalNode => {
    const keys = { a_key: new Int64(), b_key: new Int64(), c_key: new Int64() };
    return inputNode({ ...keys, price: new Int64() }, { rows: 10_000_000, name: "fact", ...more });
};
const a = dimension("a", 1000);
const b = dimension("b", 20_000);
const c = dimension("c", 500);

const planOf = (root: LogicalNode, more: Partial<PlanQuery> = {}): Plan => planQuery(planQueryOf(root, more));
const kinds = (plan: Plan): string[] => plan.stages.map((stage) => stage.kind);
const pipelineOf = (plan: Plan): PipelineStage =>
    plan.stages.find((stage): stage is PipelineStage => stage.kind === "pipeline")!;
// Every row of the fact table has its partner.
const hints = { resultRows: 10_000_000 };
const star = (...dimensions: [LogicalNode, string][]): LogicalNode =>
    dimensions.reduce((rest, [node, on]) => join(node, rest, { on, hints }), fact());
const sum = { total: { sum: "price" } };

/** What a sample of a key column says. */
function sampled(root: LogicalNode, node: LogicalNode, key: KeySpec, distinct: number): [string, KeyStatistics] {
    if (node.kind !== "input") throw new Error("only inputs are sampled");
    const { rows } = node.input;
    const sampledRows = Math.min(rows, 16_384);
    const sampledDistinct = Math.round(distinct * -Math.expm1(-sampledRows / distinct));
    const statistics = { rows, nulls: 0, min: null, max: null, sampledRows, sampledDistinct, heaviestShare: 0 };
    const isAll = rows <= sampledRows;
    return [
        statisticsId(inputsOf(root), node.input, [key]),
        isAll ? { ...statistics, sampledDistinct: distinct } : statistics
    ];
}

describe("joins behind each other", () => {
    test("are one stage, in which the rows of the fact table pass all tables", () => {
        const plan = planOf(star([a, "a_key"], [b, "b_key"]));
        expect(kinds(plan)).toEqual(["partition", "partition", "pipeline"]);
        const { spec, builds, input } = pipelineOf(plan);
        expect(plan.inputs[input]!.name).toBe("fact");
        expect(builds).toEqual([0, 1]);
        // Keys of both joins are the fact table's.
        expect(spec.joins.map(({ keyColumns }) => keyColumns)).toEqual([
            [{ join: -1, column: 0 }],
            [{ join: -1, column: 1 }]
        ]);
        expect(String(new Explanation(plan))).toMatch(/2 hash joins in a pipeline/);
        expect(String(new Explanation(plan))).toMatch(/rows through its joins: 10,000,000 -> /);
    });

    test("are grouped as they come where the groups fit tables", () => {
        const plan = planOf(
            group(star([a, "a_key"], [b, "b_key"]), { keys: ["a_name"], aggregates: sum, hints: { groups: 100 } })
        );
        expect(kinds(plan)).toEqual(["partition", "partition", "pipeline"]);
        expect(pipelineOf(plan).group!.spec.aggregates).toHaveLength(1);
        const many = group(star([a, "a_key"], [b, "b_key"]), {
            keys: ["c_key"],
            aggregates: sum,
            hints: { groups: 9e6 }
        });
        expect(kinds(planOf(many))).toEqual(["partition", "partition", "pipeline", "group"]);
    });

    test("take a key from the rows that an earlier join found", () => {
        const middle = inputNode({ a_key: new Int64(), b_key: new Int64() }, { rows: 5000, name: "middle" });
        const rows = inputNode({ a_key: new Int64(), price: new Int64() }, { rows: 10_000_000, name: "fact" });
        const plan = planOf(join(b, join(middle, rows, { on: "a_key", hints }), { on: "b_key" }));
        const [, second] = pipelineOf(plan).spec.joins;
        expect(second!.keyColumns[0]!.join).toBe(0);
    });

    test("come in the order in which fewer rows are left, as far as their keys are there", () => {
        const rows = fact();
        // b has all of its 20,000 keys that facts refer to, and a one of ten.
        const inner = join(b, rows, { on: "b_key" });
        const root = join(a, inner, { on: "a_key" });
        const statistics = new Map([
            sampled(root, rows, { ...inner.keys[0]!.right, column: 1 }, 20_000),
            sampled(root, rows, { ...root.keys[0]!.right, column: 0 }, 10_000),
            sampled(root, b, inner.keys[0]!.left, 20_000),
            sampled(root, a, root.keys[0]!.left, 1000)
        ]);
        const plan = planOf(root, { statistics });
        const { builds, spec, rowsOfJoins } = pipelineOf(plan);
        expect(builds.map((build) => plan.sets[build]!.estimatedRows)).toEqual([1000, 20_000]);
        expect(spec.joins.map(({ keyColumns }) => keyColumns[0]!.column)).toEqual([0, 1]);
        expect(rowsOfJoins[0]).toBeLessThan(2_000_000);
        expect(spec.outputs.map((column) => column.join)).toContain(1);
    });

    test("build a side that is a join itself first", () => {
        const snowflake = join(c, inputNode({ c_key: new Int64(), b_key: new Int64() }, { rows: 2000, name: "d" }), {
            on: "c_key"
        });
        const plan = planOf(join(snowflake, join(a, fact(), { on: "a_key", hints }), { on: ["b_key"] }));
        expect(kinds(plan).at(-1)).toBe("pipeline");
        expect(pipelineOf(plan).builds).toHaveLength(2);
    });

    test("keep rows without a partner only on the side that passes by", () => {
        const kept = join(join(a, fact(), { on: "a_key", hints }), b, { on: "b_key", type: "left" });
        expect(pipelineOf(planOf(kept)).spec.joins[1]!.spec.keepUnmatchedProbe).toBe(true);
        const built = join(b, join(a, fact(), { on: "a_key", hints }), { on: "b_key", type: "full" });
        expect(kinds(planOf(built))).not.toContain("pipeline");
        const semi = join(join(a, fact(), { on: "a_key", hints }), b, { on: "b_key", type: "anti" });
        expect(pipelineOf(planOf(semi)).spec.joins[1]!.spec).toMatchObject({ emit: "probeOnce", anti: true });
    });
});

describe("tables that fit in parts", () => {
    const rows = 6_000_000;
    const numbers = { order: new Int64(), customer: new Int64(), date: new Int32() };
    const orders = inputNode(numbers, { rows: 1_500_000, name: "orders" });
    const customers = inputNode({ customer: new Int64(), segment: new Utf8() }, { rows: 150_000, name: "customers" });
    const items = inputNode({ order: new Int64(), price: new Int64() }, { rows, name: "items" });
    const dates = { keys: ["date"], aggregates: { total: { sum: "price" } }, hints: { groups: 2400 } };
    const segments = { ...dates, keys: ["segment"], hints: { groups: 5 } };
    const sample = (of: Partial<KeyStatistics>): KeyStatistics => ({
        ...{ rows, nulls: 0, sampledRows: 16_384, sampledDistinct: 16_384, heaviestShare: 1 / 16_384 },
        ...{ min: 1n, max: BigInt(rows) - 100n, pieceRangeShare: 1 / 20_000, ...of }
    });
    const inOrder = (root: LogicalNode, range = {}): PlanQuery["statistics"] => {
        const inputs = inputsOf(root);
        const id = (node: LogicalNode) =>
            statisticsId(inputs, (node as { input: (typeof inputs)[0] }).input, [
                { column: 0, kind: "integer", kindOfValue: "bytes", width: 8 } as unknown as KeySpec
            ]);
        return new Map([
            [id(orders), sample({ rows: 1_500_000, ...range })],
            [id(items), sample({ pieceDistinct: 4096, sampledDistinct: 4096 })]
        ]);
    };
    const planned = (root: LogicalNode, mebibytes: number, range = {}): Plan =>
        planOf(root, { sink: "table", budgetBytes: mebibytes * 2 ** 20, statistics: inOrder(root, range) });

    test("are made one after the other, and their input is read for each", () => {
        const root = group(join(orders, items, { on: "order" }), dates);
        expect(pipelineOf(planned(root, 256)).spec.passes).toBeUndefined();
        const plan = planned(root, 40);
        expect(kinds(plan)).toEqual(["pipeline"]);
        const { spec, builds, rowsIn, live } = pipelineOf(plan);
        const bounds = spec.passes!.bounds.map(Number);
        expect(bounds).toEqual([...bounds].sort((one, other) => one - other));
        expect(Math.min(...bounds)).toBeGreaterThan(1_000_000);
        const passes = bounds.length + 1;
        expect(rowsIn).toBeGreaterThan(passes * (rows + 1_499_000));
        // Each pass reads its own items, as they are in the order of their keys.
        expect(spec.passes!.readShare).toBeLessThan(1 / passes + 0.05);
        expect(live).toEqual(builds);
        expect(plan.sets[builds[0]!]!.estimatedRows).toBe(Math.ceil(1_500_000 / passes));
        expect(plan.memory.wantedBytes).toBeLessThanOrEqual(plan.memory.budgetBytes);
        const text = String(new Explanation(plan));
        expect(text).toContain(`hash join in a pipeline of ${passes} passes`);
        expect(text).toContain("each past the rows of orders in one range of keys");
    });

    test("are not where more would be read than is spilled, or rows without a partner come out", () => {
        const root = group(join(orders, items, { on: "order" }), dates);
        expect(kinds(planned(root, 4))).not.toContain("pipeline");
        const all = group(join(items, orders, { on: "order", type: "left" }), dates);
        expect(kinds(planned(all, 40))).not.toContain("pipeline");
        // Keys of which nothing is known cannot be cut into ranges.
        expect(kinds(planned(root, 40, { min: null, max: null }))).not.toContain("pipeline");
    });

    test("are those of inputs: a join that is a side of another one is made with it", () => {
        const snowflake = join(join(customers, orders, { on: "customer" }), items, { on: "order" });
        const root = group(snowflake, segments);
        const plan = planned(root, 40);
        expect(kinds(plan)).toEqual(["partition", "pipeline"]);
        const { spec, builds } = pipelineOf(plan);
        const ofOrders = spec.passes!.join;
        expect(plan.inputs[spec.passes!.input]!.name).toBe("orders");
        // The customer's key comes from the row of orders that was found.
        expect(spec.joins[1 - ofOrders]!.keyColumns[0]!.join).toBe(ofOrders);
        expect(builds).toHaveLength(2);
        expect(plan.result.columns.map(({ name }) => name)).toEqual(["segment", "total"]);
    });
});

describe("joins are no pipeline", () => {
    test("where tables do not fit, or are larger than is worth it", () => {
        const root = star([dimension("a", 4_000_000), "a_key"], [dimension("b", 9_000_000), "b_key"]);
        expect(kinds(planOf(root))).not.toContain("pipeline");
        const tight = star([dimension("a", 300_000), "a_key"], [dimension("b", 300_000), "b_key"]);
        expect(kinds(planOf(tight))).toContain("pipeline");
        expect(kinds(planOf(tight, { budgetBytes: 16 * 2 ** 20 }))).not.toContain("pipeline");
    });

    test("where rows come as a stream, or are nested", () => {
        const streamed = join(b, join(a, fact({ streamed: true }), { on: "a_key" }), { on: "b_key" });
        expect(kinds(planOf(streamed))).not.toContain("pipeline");
        const list = new List(new Field("item", new Int32()));
        const nested = inputNode({ a_key: new Int64(), b_key: new Int64(), list }, { rows: 1e7, name: "nested" });
        expect(kinds(planOf(join(b, join(a, nested, { on: "a_key" }), { on: "b_key" })))).not.toContain("pipeline");
    });

    test("where another algorithm is named, or one join has narrow rows", () => {
        const root = star([a, "a_key"], [b, "b_key"]);
        expect(kinds(planOf(root, { debug: { algorithm: "radix" } }))).not.toContain("pipeline");
        expect(kinds(planOf(star([a, "a_key"])))).toEqual(["partition", "streamingJoin"]);
        expect(kinds(planOf(star([a, "a_key"]), { debug: { algorithm: "pipeline" } }))).toContain("pipeline");
    });
});
