// SPDX-License-Identifier: Apache-2.0
// Operators out of core that are stages of their own, whose rows are held in host memory: group-bys below other
// operators, and joins whose rows the operator above takes in no other way.
import { Dictionary, Int32, Int64, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { loadProfile } from "../../../src/machine/profile.js";
import { sumOf } from "../../../src/model/sizes.js";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { OutOfCoreGroupStage } from "../../../src/plan/out-of-core-group-stage.js";
import type { OutOfCoreTreeStage } from "../../../src/plan/out-of-core-tree-stage.js";
import type { Plan } from "../../../src/plan/plan.js";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { outOfCoreHostBytes } from "../../../src/planner/plan-out-of-core.js";
import type { PlanQuery } from "../../../src/planner/plan-query.js";
import { chain, dimension, gibibyte, mebibyte, on, planOf, queryOf, refusal } from "../../support/out-of-core-trees.js";
import { group, inputNode, join } from "../../support/planning.js";

const two = chain([{ rows: 1e7 }, { rows: 1e6 }], ["inner"]);
const counted = (child: LogicalNode, keys: string[], more: object = {}): LogicalNode =>
    group(child, { keys, aggregates: { n: { count: "*" } }, ...more });

function planned(root: LogicalNode, more: Partial<PlanQuery> = {}, limitBytes = gibibyte): Plan {
    const plan = planOf(queryOf(root, more), limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    return plan;
}

const kindsOf = ({ stages }: Plan): string[] => stages.map(({ kind, id }) => `${id} ${kind}`);

describe("groups of groups, and joins of groups", () => {
    test("have a stage for each group-by below, whose groups are an input behind those of the query", () => {
        const inner = counted(two, ["r0_v"], { hints: { groups: 5000 } });
        const plan = planned(
            join(join(inner, dimension("c", 1000), on("r0_v", "c_v")), dimension("d", 10), on("n", "d_k"))
        );
        expect(kindsOf(plan)).toEqual(["0 deviceOutOfCoreTree", "1 deviceOutOfCoreTree"]);
        const [groups, rest] = plan.stages as OutOfCoreTreeStage[];
        expect(groups?.holds).toEqual({ operator: 1, input: 4, limitBytes: 3 * 5000 * 12 + 2 ** 20 });
        expect(groups?.flows.map(({ input }) => input).sort()).toEqual([0, 1]);
        expect(rest?.holds).toBeUndefined();
        expect(rest?.flows.map(({ input }) => input).sort()).toEqual([2, 3, 4]);
        expect(rest?.rowsIn).toBe(5000 + 1000 + 10);
        const text = planText(plan);
        expect(text).toMatch(/reads .*the groups of stage 1/);
        const stagesMs = sumOf(plan.stages.map(({ predictedMs }) => predictedMs));
        expect(plan.predictedMs).toBeCloseTo(stagesMs + loadProfile().deviceQueryStartMs);
    });

    test("of inputs alone are stages of their own kinds", () => {
        const facts = dimension("f", 1e8);
        const groups = counted(facts, ["f_v"], { hints: { groups: 100 } });
        expect(kindsOf(planned(join(groups, dimension("c", 1e6), on("f_v", "c_v"))))).toEqual([
            "0 deviceOutOfCoreGroupBy",
            "1 deviceOutOfCoreJoin"
        ]);
        const again = planned(group(groups, { keys: ["n"], aggregates: { m: { count: "*" } } }), { sink: "count" });
        expect(kindsOf(again)).toEqual(["0 deviceOutOfCoreGroupBy", "1 deviceOutOfCoreGroupBy"]);
        expect(again.stages.map((stage) => (stage as { input?: number }).input)).toEqual([0, 1]);
    });

    test("that are read twice are made once", () => {
        const groups = counted(dimension("f", 1e8), ["f_v"], { hints: { groups: 100 } });
        const twice = planned(join(groups, groups, { on: "f_v", suffix: "_2" }));
        expect(kindsOf(twice)).toEqual(["0 deviceOutOfCoreGroupBy", "1 deviceOutOfCoreJoin"]);
        expect(twice.stages[1]).toMatchObject({ buildInput: 1, probeInput: 1 });
    });

    test("leave host memory for the groups, and ask for it", () => {
        const facts = dimension("f", 1e9);
        const groups = (count: number): LogicalNode => {
            const inner = counted(facts, ["f_k"], { hints: { groups: count } });
            return join(inner, dimension("c", 1e9), on("f_k", "c_k"));
        };
        const few = planned(groups(10));
        const many = planned(groups(1e9));
        const hostOf = ({ stages }: Plan): number => Math.max(...stages.map(({ memory }) => memory.tableBytes));
        const held = (many.stages[0] as OutOfCoreTreeStage).holds!.limitBytes;
        expect(held).toBeGreaterThan(16e9);
        for (const { memory } of many.stages) {
            const { inputBytes, tableBytes, outputBytes } = memory;
            expect(held + inputBytes + tableBytes + outputBytes).toBeLessThan(128 * gibibyte);
        }
        expect(hostOf(few)).toBeGreaterThan(0);
        const wanted = (count: number): number => outOfCoreHostBytes(queryOf(groups(count)), gibibyte);
        expect(wanted(1e9) - wanted(10)).toBeGreaterThan(3 * 16e9);
    });

    test("go by samples of keys of the relations that they read", () => {
        const [f, c] = [dimension("f", 1e8), dimension("c", 1e6)];
        const root = join(c, counted(f, ["f_v"]), on("c_k", "n"));
        const sample = {
            rows: 1e8,
            nulls: 0,
            min: 0n,
            max: 99n,
            sampledRows: 1e5,
            sampledDistinct: 100,
            heaviestShare: 0.01
        };
        const rowsOf = (id: string): number | undefined =>
            (planned(root, { statistics: new Map([[id, sample]]) }).stages[0] as OutOfCoreTreeStage).rowsOut;
        expect(rowsOf("1:1/integer/4")).toBeLessThan(200);
        expect(rowsOf("0:1/integer/4")).toBe(1e8);
    });
});

describe("rows of a join are held where the operator above", () => {
    const wide = (name: string, nullable = false): LogicalNode => {
        const types = Object.fromEntries(["k", "x", "y", "z"].map((key) => [`${name}_${key}`, new Int64()]));
        return inputNode(types, { name, rows: 1e6, nullable });
    };
    const sideBy = (name: string, keys: string[], other: string): object =>
        Object.fromEntries(keys.map((key) => [`${name}_${key}`, `${other}_${key}`]));
    const all = ["k", "x", "y", "z"];
    const lower = (): LogicalNode => join(wide("a"), wide("b"), on("a_k", "b_k"));
    const cases: [string, () => LogicalNode][] = [
        [
            "joins them by keys of 40 bytes",
            () => {
                const keys = { ...sideBy("a", all, "c"), b_z: "d_z" };
                const right = join(wide("c"), wide("d"), on("c_k", "d_k"));
                return join(lower(), right, { on: keys });
            }
        ],
        ["groups them by keys of 16 bytes", () => counted(lower(), ["a_k", "b_x"])],
        [
            "counts values of theirs that differ",
            () => group(lower(), { keys: ["a_k"], aggregates: { n: { countDistinct: "b_x" } } })
        ],
        [
            "joins them by a dictionary column",
            () => {
                const word = new Dictionary(new Utf8(), new Int32());
                const [a, b] = ["a", "b"].map((name) => {
                    return inputNode({ [`${name}_k`]: new Int64(), [`${name}_w`]: word }, { name, rows: 1e7 });
                });
                return join(join(a!, wide("c"), on("a_k", "c_k")), b!, on("a_w", "b_w"));
            }
        ],
        [
            "is joined with a stream whose dictionary comes late",
            () => {
                const types = { s_k: new Int64(), s_w: new Dictionary(new Utf8(), new Int32()) };
                return join(two, inputNode(types, { name: "s", streamed: true, rows: 2 ** 30 }), on("r0_k", "s_k"));
            }
        ],
        [
            "has NULLs that equal each other among keys of 32 bytes",
            () => {
                const below = join(wide("a", true), wide("b", true), {
                    on: sideBy("a", all, "b"),
                    nullEquality: true
                });
                return join(below, dimension("c", 1000), on("a_k", "c_k"));
            }
        ]
    ];

    test.each(cases)("%s", (name, make) => {
        for (const sink of ["batches", "count"] as const) {
            const { stages } = planned(make(), { sink });
            // Nobody wants the column that stands in the way.
            if (sink === "count" && /^counts|stream/.test(name)) continue;
            expect(stages.length).toBeGreaterThan(1);
            const held = stages.map((stage) => (stage as OutOfCoreTreeStage).holds !== undefined);
            expect(held).toEqual(stages.map((_, at) => at + 1 < stages.length));
        }
    });

    test("with the columns that are read, and as few rows as will do", () => {
        const root = counted(join(lower(), dimension("c", 1e5), on("a_k", "c_k")), ["a_x", "b_y", "c_v"]);
        const plan = planned(root);
        // The lower join goes into the upper one in GPU memory.
        expect(kindsOf(plan)).toEqual(["0 deviceOutOfCoreTree", "1 deviceOutOfCoreGroupBy"]);
        const [rows, groups] = plan.stages as [OutOfCoreTreeStage, OutOfCoreGroupStage];
        expect(rows.holds).toMatchObject({ operator: 1, input: 3 });
        expect(rows.result.columns.map(({ type }) => type.byteWidth)).toEqual([8, 8, 4]);
        expect(groups.rowsIn).toBe(Math.ceil(rows.rowsOut));
        expect(planText(plan)).toMatch(/from the rows of stage 1/);
    });

    test("is told what was estimated of their keys before", () => {
        const root = (more: object = {}): LogicalNode => counted(lower(), ["a_k", "b_x"], more);
        const rowsOf = ({ stages }: Plan): number => stages.at(-1)!.rowsOut;
        expect(rowsOf(planned(root({ hints: { groups: 77 } })))).toBe(77);
        const sample = { rows: 1e6, nulls: 0, min: 0n, max: 99n, sampledRows: 1e5, sampledDistinct: 100 };
        const statistics = new Map(
            ["0:0/integer/8", "1:1/integer/8"].map((id) => [id, { ...sample, heaviestShare: 0.01 }])
        );
        // As many of 10,000 combinations as 10,000 rows draw.
        expect(rowsOf(planned(root(), { statistics }))).toBe(6322);
        expect(rowsOf(planned(root()))).toBe(1e6);
    });

    test("would have too little GPU memory beside them", () => {
        const root = chain([{ rows: 1e8 }, { rows: 1e8 }, { rows: 1e8 }, { rows: 1e8 }], ["inner", "inner", "inner"]);
        const least = (limitBytes: number): number => planned(root, {}, limitBytes).stages.length;
        expect(least(gibibyte)).toBe(1);
        const little = [...Array(40).keys()]
            .map((at) => 2 ** 20 * 1.1 ** (40 - at))
            .filter((limitBytes) => {
                const plan = planOf(queryOf(root), limitBytes);
                return !(plan instanceof NotOnDevice) && plan.stages.length > 1;
            });
        expect(little.length).toBeGreaterThan(0);
        for (const limitBytes of little) {
            expect(planned(root, {}, limitBytes).deviceMemory?.estimatedBytes).toBeLessThanOrEqual(limitBytes);
        }
    });

    test("but not where host memory has no room for them", () => {
        const rows = 2 ** 36;
        const [a, b] = ["a", "b"].map((name) => inputNode({ [`${name}_k`]: new Int64() }, { name, rows }));
        const root = counted(join(a!, b!, { on: { a_k: "b_k" } }), ["a_k", "b_k"]);
        expect(refusal(root)).toMatch(
            /^rows of a join that are joined or grouped again need about 1 TiB of host memory/
        );
    });

    test("and on disk as far as it has none, where there is a folder for them", () => {
        const rows = 2 ** 36;
        const [a, b] = ["a", "b"].map((name) => inputNode({ [`${name}_k`]: new Int64() }, { name, rows }));
        const root = counted(join(a!, b!, { on: { a_k: "b_k" } }), ["a_k", "b_k"]);
        const plan = planned(root, { heldOnDisk: "streams" });
        const [held, groups] = plan.stages as [OutOfCoreTreeStage, OutOfCoreGroupStage];
        const { limitBytes, diskBytes } = held.holds!;
        expect(limitBytes + diskBytes!).toBeCloseTo(2 ** 40, -6);
        expect(groups.rowsIn).toBe(rows);
        expect(planText(plan)).toMatch(/its rows are held: .* in host memory, about .* on disk/);
        const { spillWriteBytesPerMs, spillReadBytesPerMs } = loadProfile();
        const diskMs = diskBytes! / spillWriteBytesPerMs + diskBytes! / spillReadBytesPerMs;
        expect(held.predictedMs).toBeGreaterThan(diskMs);
        expect(held.predictedSpillBytes).toBeGreaterThanOrEqual(diskBytes!);
        // What fits stays in memory, unless it turned out to be more than was expected.
        const few = counted(lower(), ["a_k", "b_x"]);
        const holdsOf = (more: Partial<PlanQuery>) => (planned(few, more).stages[0] as OutOfCoreTreeStage).holds;
        expect(holdsOf({ heldOnDisk: "streams" })).toEqual(holdsOf({}));
        expect(holdsOf({ heldOnDisk: "all" })).toMatchObject({ diskBytes: 0 });
        const stream = counted(join(dimension("s", 1e6, { streamed: true }), wide("b"), on("s_k", "b_k")), [
            "s_k",
            "b_x"
        ]);
        const streamed = planned(stream, { heldOnDisk: "streams" });
        expect((streamed.stages[0] as OutOfCoreTreeStage).holds).toMatchObject({ diskBytes: 0 });
        expect(planText(streamed)).toMatch(/its rows are held in host memory, those beyond .* on disk/);
    });

    test("though what is gathered from there lacks memory: less is for these rows, and for groups of a stream", () => {
        const word = new Dictionary(new Utf8(), new Int32());
        const facts = inputNode({ a_k: new Int64(), a_text: new Utf8() }, { rows: 60_000, name: "a" });
        const stream = inputNode(
            { s_k: new Int64(), s_text: new Utf8(), s_word: word },
            { rows: 60_000, name: "s", streamed: true }
        );
        const both = join(facts, stream, on("a_k", "s_k"));
        const words = inputNode({ c_word: word, c_v: new Int32() }, { rows: 7, name: "c" });
        const select = ["a_text", "s_text", "c_v"];
        const roots = [
            counted(join(both, dimension("c", 7500), on("s_k", "c_k")), ["a_text", "s_text"]),
            join(both, words, on("s_word", "c_word", { select }))
        ];
        const shares: number[] = [];
        const groupBytes = new Set<number>();
        for (const root of roots) {
            const budgets = Array.from({ length: 40 }, (_, at) => (8 + 2 * at) * mebibyte);
            const plans = budgets.flatMap((budgetBytes) => {
                const query = queryOf(root, { heldOnDisk: "streams", budgetBytes, threads: 2 });
                const plan = planOf(query, 64 * mebibyte);
                return plan instanceof NotOnDevice ? [] : [plan];
            });
            // None is refused that has more memory than one that is not.
            expect(plans.length).toBeGreaterThan(30);
            expect(plans.map(({ memory }) => memory.budgetBytes)).toEqual(budgets.slice(-plans.length));
            for (const { stages, memory, streamGroupBytes } of plans) {
                groupBytes.add(streamGroupBytes);
                const holds = stages.flatMap((stage) => ("holds" in stage && stage.holds ? [stage.holds] : []));
                shares.push(sumOf(holds.map(({ limitBytes }) => limitBytes)) / memory.budgetBytes);
            }
        }
        expect(Math.min(...shares)).toBeLessThan(1 / 16);
        expect(Math.max(...shares)).toBeGreaterThan(1 / 4);
        expect(groupBytes.size).toBeGreaterThan(1);
    });

    test("or where a stream, of which nothing is known, may have them", () => {
        const stream = dimension("s", 2 ** 36, { streamed: true });
        const groups = counted(stream, ["s_k", "s_v"]);
        const root = counted(join(groups, dimension("c", 1000), on("s_v", "c_v")), ["s_k", "c_k"]);
        const plan = planned(root);
        expect(plan.stages.slice(0, -1).every((stage) => "holds" in stage)).toBe(true);
        // No more of them are read again than host memory can hold.
        const { rowsIn } = plan.stages.at(-1)!;
        expect(rowsIn).toBeLessThan(64 * gibibyte);
        const known = counted(counted(dimension("f", 2 ** 36), ["f_k"]), ["f_k"]);
        expect(refusal(known)).toMatch(/^groups that are .* again/);
    });

    test("and no kernels join them that have to know how many they are", () => {
        const right = dimension("c", 1e6);
        const root = join(lower(), right, on("a_k", "c_k", { algorithm: "triton" }));
        expect(refusal(root)).toMatch(/^it needs to know how many rows `rows 0` has, which another stage gives/);
        const staged = planned(join(lower(), right, on("a_k", "c_k", { algorithm: "staged" })));
        expect(staged.stages).toHaveLength(1);
    });
});
