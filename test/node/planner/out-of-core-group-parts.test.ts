// SPDX-License-Identifier: Apache-2.0
// Group-bys that add up more numbers for a key than a partial row has: several make their aggregates, whose groups are
// joined.
import { Dictionary, Float64, Int32, Int64, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { OutOfCoreGroupStage } from "../../../src/plan/out-of-core-group-stage.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import type { Plan } from "../../../src/plan/plan.js";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { outOfCoreHostBytes } from "../../../src/planner/plan-out-of-core.js";
import type { PlanQuery } from "../../../src/planner/plan-query.js";
import { groupPartsOf } from "../../../src/planner/streaming/group/parts.js";
import { dimension, gibibyte, mebibyte, on, planOf, queryOf, refusal } from "../../support/out-of-core-trees.js";
import { group, inputNode, join, type InputShape } from "../../support/planning.js";

const values = (count: number): string[] => Array.from({ length: count }, (_, i) => `v${i}`);

/** A relation with keys of several types and so many columns of 64 bits. */
function facts(count: number, shape: InputShape = {}): LogicalNode {
    const keys = { k: new Int64(), i: new Int32(), f: new Float64(), t: new Utf8() };
    const columns = Object.fromEntries(values(count).map((name) => [name, new Int64()]));
    return inputNode(
        { ...keys, d: new Dictionary(new Utf8(), new Int32()), ...columns },
        { name: "f", rows: 1e8, ...shape }
    );
}

/** Sums and means of these: three numbers each. */
const sums = (names: readonly string[]): Record<string, object> => ({
    ...Object.fromEntries(names.map((name) => [`s_${name}`, { sum: name }])),
    ...Object.fromEntries(names.map((name) => [`m_${name}`, { mean: name }]))
});

const extremes = (names: readonly string[]): Record<string, object> => ({
    ...Object.fromEntries(names.map((name) => [`n_${name}`, { min: name }])),
    ...Object.fromEntries(names.map((name) => [`x_${name}`, { max: name }]))
});

function planned(root: LogicalNode, more: Partial<PlanQuery> = {}, limitBytes = gibibyte): Plan {
    const plan = planOf(queryOf(root, more), limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    return plan;
}

const kindsOf = ({ stages }: Plan): string[] => stages.map(({ kind }) => kind.replace("deviceOutOfCore", ""));
const wide = (keys: string[] = ["k"], more: object = {}, shape: InputShape = { nullable: true }): LogicalNode =>
    group(facts(16, shape), { keys, aggregates: sums(values(16)), hints: { groups: 1e6 }, ...more });

describe("a group-by of more numbers than a partial row has", () => {
    test("is made by as few that have room for them, of equal width, and a join of their groups", () => {
        const plan = planned(wide(["i"]));
        expect(kindsOf(plan)).toEqual(["GroupBy", "GroupBy", "Join"]);
        const [one, other, joined] = plan.stages as [OutOfCoreGroupStage, OutOfCoreGroupStage, OutOfCoreStage];
        // A sum of 64 bits is two numbers, and how many values are not NULL is another one.
        expect([one, other].map(({ layout }) => layout.group.aggregates.length)).toEqual([24, 24]);
        expect([one, other].map(({ holds }) => [holds?.operator, holds?.input])).toEqual([
            [0, 1],
            [1, 2]
        ]);
        expect([joined.buildInput, joined.probeInput].sort()).toEqual([1, 2]);
        expect(joined.rowsOut).toBe(1e6);
        const [made] = plan.groupParts!;
        expect(plan.groupParts).toHaveLength(1);
        expect(made!.operator).toBe(0);
        // A sum and a mean of a column have all numbers in common.
        expect(made!.parts.map(({ aggregates }) => [...aggregates].sort((a, b) => a - b))).toEqual([
            [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23],
            [8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31]
        ]);
        const text = planText(plan);
        expect(text).toMatch(/a group-by in 2 parts, whose groups are joined, as a part adds up 28 numbers for a key/);
        expect(text).toMatch(/at most: s_v0, m_v0, s_v1, .*, m_v7; s_v8, m_v8, .*, m_v15$/m);
        expect(text).toMatch(/built from the groups of stage \d, probed with the groups of stage \d/);
    });

    test("is made by one where that has room for them, or where groups are counted", () => {
        const fitting = planned(group(facts(14), { keys: ["k"], aggregates: sums(values(13)) }));
        expect(kindsOf(fitting)).toEqual(["GroupBy"]);
        expect(fitting).not.toHaveProperty("groupParts");
        const counted = planned(wide(), { sink: "count" });
        expect(kindsOf(counted)).toEqual(["GroupBy"]);
        // Nothing but keys is read.
        expect((counted.stages[0] as OutOfCoreGroupStage).layout.group.widths).toEqual([]);
    });

    test("is joined by words of its keys where they may be NULL, and by them alone where not", () => {
        const joinOf = (keys: string[], nullable: boolean): string => {
            const { stages } = planned(wide(keys, {}, { nullable, rows: 1e8 }));
            const last = stages.at(-1)!;
            return last.kind === "deviceOutOfCoreJoin" ? last.layout.keys : last.kind;
        };
        expect(joinOf(["k"], false)).toBe("packed");
        expect(joinOf(["k", "i", "f"], false)).toBe("packed");
        expect(joinOf(["t"], false)).toBe("packed");
        expect(joinOf(["i"], true)).toBe("encoded");
        for (const keys of [["k"], ["k", "i", "f"], ["t"], ["d", "t", "k"]]) {
            expect(joinOf(keys, true)).toBe("deviceOutOfCoreTree");
        }
    });

    test("has room for words of its key in each part", () => {
        const plan = planned(wide(["k", "i", "f"], {}, { nullable: false }));
        const layouts = plan.stages.flatMap((stage) => (stage.kind === "deviceOutOfCoreGroupBy" ? [stage.layout] : []));
        expect(layouts.length).toBeGreaterThan(1);
        for (const { side, group: made } of layouts) {
            expect(side.numbered).toBe(false);
            expect(made.aggregates.length).toBeLessThanOrEqual(28);
        }
    });

    test("of any number of columns takes a tree of joins", () => {
        const plan = planned(group(facts(100), { keys: ["k"], aggregates: sums(values(100)), hints: { groups: 1e5 } }));
        expect(kindsOf(plan).slice(0, -1)).toEqual(Array(8).fill("GroupBy"));
        expect(kindsOf(plan).at(-1)).toBe("Tree");
        expect(plan.groupParts![0]!.parts.flatMap(({ aggregates }) => aggregates).sort((a, b) => a - b)).toEqual(
            Array.from({ length: 200 }, (_, at) => at)
        );
    });

    test("without keys is joined by the number of rows", () => {
        const plan = planned(wide([], { hints: {} }));
        expect(kindsOf(plan)).toEqual(["GroupBy", "GroupBy", "Join"]);
        expect(plan.stages.map(({ rowsOut }) => rowsOut)).toEqual([1, 1, 1]);
    });

    test("below other operators is made in parts, too", () => {
        const upper = join(wide(), dimension("c", 1e6), on("k", "c_k"));
        const plan = planned(upper);
        expect(kindsOf(plan)).toEqual(["GroupBy", "GroupBy", "Tree"]);
        expect(plan.groupParts).toMatchObject([{ operator: 0 }]);
        // Both of them are, and the groups below are held once.
        const below = values(16).flatMap((name) => [`s_${name}`, `m_${name}`]);
        const most = Object.fromEntries(below.map((max) => [`x_${max}`, { max }]));
        const twice = planned(group(wide(), { keys: ["m_v0"], aggregates: most }));
        expect(twice.groupParts?.map(({ operator }) => operator)).toEqual([0, 1]);
        expect(kindsOf(twice).slice(0, 2)).toEqual(["GroupBy", "GroupBy"]);
        expect(twice.stages.length).toBeGreaterThanOrEqual(5);
        expect(twice.stages.filter((stage) => "holds" in stage && stage.holds !== undefined)).toHaveLength(
            twice.stages.length - 1
        );
    });

    test("is made in one where operators above read few of its aggregates", () => {
        const again = planned(group(wide(), { keys: ["s_v0"], aggregates: { n: { count: "*" } } }));
        expect(kindsOf(again)).toEqual(["GroupBy", "GroupBy"]);
        expect(again.groupParts).toBeUndefined();
        const [stage] = again.stages as unknown as [{ layout: { columns: unknown[] } }];
        expect(stage.layout.columns).toHaveLength(2);
    });

    test("wants host memory for the groups of all parts", () => {
        const bytes = (groups: number): number => outOfCoreHostBytes(queryOf(wide(["k"], { hints: { groups } })));
        expect(bytes(1e8) - bytes(1e6)).toBeGreaterThanOrEqual(3 * 0.99e8 * (2 * 8 + 32 * 8));
    });

    test("takes less GPU memory than one of 28 numbers", () => {
        const least = (count: number): number => {
            const root = group(facts(count, { rows: 1e6 }), { keys: ["k"], aggregates: sums(values(count)) });
            return (planOf(queryOf(root), 16 * mebibyte) as NotOnDevice).leastBytes!;
        };
        expect(least(14)).toBeLessThan(least(13));
    });

    test("is refused for what is refused in one, and where rows come once", () => {
        const named = group(facts(16), { keys: ["k"], aggregates: sums(values(16)), algorithm: "hgb" });
        expect(refusal(named)).toMatch(/^"hgb" was asked for/);
        const dictionaries = { ...sums(values(16)), word: { min: "d" } };
        expect(refusal(group(facts(16), { keys: ["k"], aggregates: dictionaries }))).toMatch(/^`min` of column `d`/);
        const stream = wide(["k"], {}, { streamed: true, nullable: true });
        const reason =
            "more than 28 numbers are added up for a key, which takes 2 group-bys, and the stream `f` comes once";
        expect(refusal(stream)).toBe(reason);
        expect(refusal(join(stream, dimension("c", 1e6), on("k", "c_k")))).toBe(reason);
        expect(outOfCoreHostBytes(queryOf(stream))).toBe(0);
        expect(refusal(stream, { sink: "count" })).toBe("");
    });

    test("keeps aggregates of a column together unless they are too many", () => {
        const types = { k: new Int64(), v: new Int64(), w: new Int64() };
        const all = { a: { sum: "v" }, b: { min: "w" }, c: { mean: "v" }, d: { max: "w" }, n: { count: "*" } };
        const many = group(facts(26), { keys: ["k"], aggregates: { ...sums(values(12)), ...extremes(values(26)) } });
        const [found] = groupPartsOf(many, false);
        const parts = found!.parts.map(({ names }) => new Set(names.map((name) => name.replace(/^.*_/, ""))));
        for (const [at, one] of parts.entries()) {
            for (const other of parts.slice(at + 1)) expect([...one].filter((name) => other.has(name))).toEqual([]);
        }
        expect(groupPartsOf(group(inputNode(types), { keys: ["k"], aggregates: all }), false)).toEqual([]);
    });
});

describe("rows of a join that several parts group", () => {
    const joined = (shape: InputShape, resultRows = 1e8): LogicalNode =>
        join(facts(10, { nullable: true, ...shape }), dimension("c", 1e6), on("k", "c_k", { hints: { resultRows } }));
    const grouped = (child: LogicalNode, more: object = {}): LogicalNode =>
        group(child, { keys: ["c_v"], aggregates: sums(values(10)), hints: { groups: 1e4 }, ...more });
    const refusedInOne = { ...sums(values(10)), ...extremes(values(2)) };

    /** Stages that read the first input. */
    const readers = ({ stages }: Plan): number[] =>
        stages.flatMap((stage, at) => {
            const inputs =
                stage.kind === "deviceOutOfCoreJoin"
                    ? [stage.buildInput, stage.probeInput]
                    : stage.kind === "deviceOutOfCoreTree"
                      ? stage.flows.map(({ input }) => input)
                      : stage.kind === "deviceOutOfCoreGroupBy"
                        ? [stage.input]
                        : [];
            return inputs.filter((input) => input === 0).map(() => at);
        });

    test("are made anew for each where that is faster, else once", () => {
        const flowing = planned(grouped(joined({})));
        expect(kindsOf(flowing)).toEqual(["Tree", "Tree", "Join"]);
        expect(readers(flowing)).toEqual([0, 1]);
        // Few of many rows have a partner: they are held.
        const held = planned(grouped(joined({}, 1e5)));
        expect(kindsOf(held)).toEqual(["Join", "GroupBy", "GroupBy", "Join"]);
        expect(readers(held)).toEqual([0]);
        expect(held.stages[1]).toMatchObject({ rowsIn: 1e5 });
        expect(held.predictedMs).toBeLessThan(flowing.predictedMs);
    });

    test("are held where they are of streams, which come once", () => {
        const plan = planned(grouped(joined({ streamed: true }), { aggregates: refusedInOne }));
        expect(kindsOf(plan)).toEqual(["Join", "GroupBy", "GroupBy", "Join"]);
        expect(readers(plan)).toEqual([0]);
        // Groups of streams are held in any case, and what reads them flows.
        const groups = group(facts(1, { streamed: true }), { keys: ["k"], aggregates: { n: { count: "*" } } });
        const of = join(groups, facts(10, { nullable: true }), { on: "k", suffix: "_2" });
        const mixed = planned(grouped(of, { keys: ["n"] }));
        expect(kindsOf(mixed)).toEqual(["GroupBy", "Tree", "Tree", "Join"]);
        expect(readers(mixed)).toEqual([0]);
    });

    test("are held where a query reads those of streams twice, however its operators are made", () => {
        const stream = joined({ streamed: true });
        const counted = (key: string): LogicalNode =>
            grouped(stream, { keys: [key], aggregates: { [`n_${key}`]: { count: "*" } } });
        const twice = planned(join(counted("c_v"), counted("i"), { on: { c_v: "i" } }));
        expect(kindsOf(twice)).toEqual(["Join", "GroupBy", "GroupBy", "Join"]);
        expect(readers(twice)).toEqual([0]);
    });
});
