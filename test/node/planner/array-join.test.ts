// SPDX-License-Identifier: Apache-2.0
// When the planner takes a bit per key instead of a hash table, and for which values.
import { Int64, Int8, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { LogicalNode } from "../../../src/plan/logical.js";
import { Explanation } from "../../../src/plan/plan-text.js";
import type { ArrayJoinStage, Plan } from "../../../src/plan/plan.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { wantedStatistics, type KeyStatistics } from "../../../src/planner/statistics.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

const rows = 10_000_000;
const columns = { k: new Int64(), v: new Utf8() };
const primary = inputNode(columns, { rows, name: "primary" });
const foreign = inputNode(columns, { rows: 4 * rows, name: "foreign" });
const unique: Partial<KeyStatistics> = { min: 1n, max: BigInt(rows), sampledRows: 16_384, sampledDistinct: 16_384 };
const repeated: Partial<KeyStatistics> = { ...unique, sampledDistinct: 15_000 };

/** The plan of a count, unless `more` says otherwise, with these samples of the two relations' keys. */
function planOf(
    root: LogicalNode,
    samples: Record<string, Partial<KeyStatistics>> = { primary: unique, foreign: repeated },
    more: Partial<PlanQuery> = {}
): Plan {
    const none = { nulls: 0, min: null, max: null, sampledRows: 0, sampledDistinct: 0, heaviestShare: 0 };
    const wanted = wantedStatistics(root, defaultPolicy);
    const statistics = wanted.map(
        ({ id, input }) => [id, { ...none, rows: input.rows, ...samples[input.name] }] as const
    );
    return planQuery(planQueryOf(root, { sink: "count", statistics: new Map(statistics), ...more }));
}

const kind = (plan: Plan): string => plan.stages.at(-1)!.kind;
const stageOf = (plan: Plan): ArrayJoinStage => plan.stages[0] as ArrayJoinStage;

describe("an array join", () => {
    test("counts matches of dense unique keys, on whichever side they are", () => {
        for (const node of [join(primary, foreign, { on: "k" }), join(foreign, primary, { on: "k" })]) {
            const plan = planOf(node);
            expect(plan.stages.map((stage) => stage.kind)).toEqual(["arrayJoin"]);
            expect(plan.inputs[stageOf(plan).buildInput]!.name).toBe("primary");
            expect(plan.sets).toEqual([]);
            expect(String(new Explanation(plan))).toMatch(/keys from primary, rows from foreign/);
            expect(String(new Explanation(plan))).toMatch(
                /a bit for each of 10,6\d\d,\d\d\d key values, 50,000,000 rows/
            );
        }
        const reversed = { primary: repeated, foreign: { ...unique, max: BigInt(4 * rows) } };
        const plan = planOf(join(primary, foreign, { on: "k" }), reversed);
        expect(plan.inputs[stageOf(plan).buildInput]!.name).toBe("foreign");
    });

    test("has bits for more than the sample saw, but not for more than there can be", () => {
        const { spec } = stageOf(planOf(join(primary, foreign, { on: "k" })));
        const first = BigInt.asIntN(64, BigInt(spec.firstKey));
        expect(Number(first)).toBeLessThan(1 - rows / 64);
        expect(Number(first) + spec.keyValues).toBeGreaterThan(rows * (1 + 1 / 64));
        const bytes = { k: new Int8() };
        const [small, large] = [
            inputNode(bytes, { rows: 100, name: "small" }),
            inputNode(bytes, { rows: 5e6, name: "large" })
        ];
        const sample = { min: -100n, max: 90n, rows: 100, sampledRows: 100, sampledDistinct: 100 };
        const options = { debug: { algorithm: "array" as const }, policy: { ...defaultPolicy, sampledFromRows: 1 } };
        const root = join(small, large, { on: "k" });
        const wanted = wantedStatistics(root, options.policy).find(({ input }) => input.name === "small")!;
        const statistics = new Map([[wanted.id, { nulls: 0, heaviestShare: 0, ...sample }]]);
        const plan = planQuery(planQueryOf(root, { sink: "count", ...options, statistics }));
        expect(stageOf(plan).spec.keyValues).toBe(256);
    });

    test("is not for sparse or repeated keys, nor for those that a query found not dense", () => {
        const node = join(primary, foreign, { on: "k" });
        expect(kind(planOf(node, { primary: { ...unique, max: BigInt(20 * rows) }, foreign: repeated }))).toBe("join");
        expect(kind(planOf(node, { primary: repeated, foreign: repeated }))).toBe("join");
        const once = { ...unique, sampledDistinct: unique.sampledRows! - 1 };
        expect(kind(planOf(node, { primary: once, foreign: repeated }))).toBe("join");
        expect(kind(planOf(node, { primary: { ...unique, notDense: true }, foreign: repeated }))).toBe("join");
        expect(kind(planOf(node, { foreign: repeated }))).toBe("join");
        expect(kind(planOf(node, undefined, { notDense: true }))).toBe("join");
        expect(kind(planOf(node, undefined, { debug: { algorithm: "radix" } }))).toBe("join");
        expect(kind(planOf(node, undefined, { debug: { scheme: "linearProbing" } }))).toBe("join");
    });

    test("is not for joins that need build rows, NULL = NULL, several keys or a stream", () => {
        const on = { on: "k" };
        expect(kind(planOf(join(primary, foreign, { ...on, type: "left" })))).toBe("join");
        expect(kind(planOf(join(primary, foreign, { ...on, type: "full" })))).toBe("join");
        expect(kind(planOf(join(primary, foreign, on), undefined, { sink: "table" }))).toBe("join");
        const nullable = [primary, foreign].map((side) =>
            inputNode(columns, { ...(side as { input: object }).input, nullable: true })
        );
        expect(kind(planOf(join(nullable[0]!, nullable[1]!, { ...on, nullEquality: true })))).toBe("join");
        expect(kind(planOf(join(primary, foreign, { on: ["k", "v"] })))).toBe("join");
        const stream = inputNode(columns, { rows: 4 * rows, name: "foreign", streamed: true });
        expect(kind(planOf(join(primary, stream, on)))).toBe("join");
    });

    test("answers semi and anti joins with repeated keys, and keeps rows of the other side", () => {
        const samples = { primary: repeated, foreign: repeated };
        for (const type of ["semi", "anti"]) {
            const plan = planOf(join(foreign, primary, { on: "k", type }), samples, { sink: "table" });
            expect(kind(plan)).toBe("arrayJoin");
            expect(stageOf(plan).spec).toMatchObject({ emit: "probeOnce", anti: type === "anti", outputs: [0, 1] });
        }
        const right = planOf(join(primary, foreign, { on: "k", type: "right" }));
        expect(stageOf(right).spec).toMatchObject({ emit: "pairs", keepUnmatchedProbe: true });
    });

    test("fills as many bitmaps side by side as the budget holds", () => {
        const node = join(primary, foreign, { on: "k" });
        const workers = (mebibytes: number) => planOf(node, undefined, { budgetBytes: mebibytes * 2 ** 20 });
        expect(stageOf(workers(1024)).spec.buildWorkers).toBe(4);
        const tight = workers(5);
        expect(stageOf(tight).spec.buildWorkers).toBe(2);
        expect(stageOf(tight).memory.tableBytes).toBeLessThan(5 * 2 ** 20 * defaultPolicy.arrayShare);
        expect(kind(workers(2))).toBe("join");
        const many = planOf(node, undefined, { budgetBytes: 40e6, threads: 16 });
        expect(stageOf(many).spec.buildWorkers).toBe(16);
    });
});
