// SPDX-License-Identifier: Apache-2.0
// Which group-bys without keys count groups of equal values, and what those are planned with.
import { Dictionary, Float64, Int32, Int64, Null, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { InputNode, LogicalNode } from "../../../src/plan/logical.js";
import { Explanation } from "../../../src/plan/plan-text.js";
import type { Plan } from "../../../src/plan/plan.js";
import { wantedTexts } from "../../../src/planner/inline-texts.js";
import { memoryNeeds, planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { wantedStatistics } from "../../../src/planner/statistics.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const numbers = { k: new Int64(), v: new Float64() };
const small = inputNode(numbers, { rows: 1000, name: "small" });
const large = inputNode(numbers, { rows: 10_000_000, name: "large" });
const texts = { t: new Utf8(), d: new Dictionary(new Utf8(), new Int32()), n: new Null() };

const distinct = (column: string) => ({ countDistinct: column });
const counting = (input: LogicalNode, column = "k") => group(input, { aggregates: { n: distinct(column) } });
const planOf = (root: LogicalNode, more: Partial<PlanQuery> = {}): Plan => planQuery(planQueryOf(root, more));
const kinds = (plan: Plan): string[] => plan.stages.map(({ kind }) => kind);
const isOfGroups = (plan: Plan): boolean => plan.stages.at(-1)!.name === "count distinct values";

describe("distinct values of many rows", () => {
    test("are groups, which are made as those of any group-by, and one count of them", () => {
        const plan = planOf(group(large, { aggregates: { n: distinct("k"), m: distinct("k") } }));
        expect(kinds(plan)).toEqual(["partition", "group", "group"]);
        expect(plan.stages.at(-1)).toMatchObject({ name: "count distinct values", rowsIn: 10_000_000, rowsOut: 1 });
        expect(plan.result.columns).toEqual(["n", "m"].map((name) => ({ name, type: "Int64", nullable: false })));
        expect(String(new Explanation(plan))).toMatch(/2\. group: [^]*3\. count distinct values: /);
        const joined = join(small, large, { on: "k", select: ["v"] });
        expect(kinds(planOf(counting(joined, "v")))).toEqual(["partition", "pipeline", "group"]);
    });

    test("are planned by a sample of them, and by how long texts are", () => {
        const [wanted, ...others] = wantedStatistics(counting(large), defaultPolicy);
        expect([wanted!.input.name, wanted!.keys.map(({ column }) => column), others]).toEqual(["large", [0], []]);
        const sample = { rows: 10_000_000, nulls: 0, min: 0n, max: 6n, sampledRows: 65_536, sampledDistinct: 7 };
        const statistics = new Map([[wanted!.id, { ...sample, heaviestShare: 0.2 }]]);
        expect(kinds(planOf(counting(large), { statistics }))).toEqual(["hashGroup", "group"]);
        const text = inputNode(texts, { rows: 1_000_000 }) as InputNode;
        expect([...wantedTexts(counting(text, "t"), "table", defaultPolicy)]).toEqual([[text.input, [0]]]);
        const short = planOf(counting(text, "t"), { textLengths: new Map([[text.input, [7]]]) });
        expect(short.sets[1]!.spec.keys).toMatchObject([{ kind: "inlineBytes", width: 8 }]);
    });

    test("hand on no column where no group can be that of NULLs", () => {
        const carried = (column: string, nullable: boolean) =>
            planOf(counting(inputNode(texts, { rows: 1_000_000, nullable }), column)).sets[0]!.spec.columns.length;
        expect([carried("t", false), carried("t", true), carried("d", false)]).toEqual([0, 1, 1]);
    });
});

describe("sets of values are made", () => {
    test("of few rows", () => {
        const { countedGroupsRowsMin: least } = defaultPolicy;
        const plans = [least - 1, least].map((rows) => planOf(counting(inputNode(numbers, { rows }))));
        expect(plans.map(isOfGroups)).toEqual([false, true]);
    });

    test("beside other aggregates, with keys, of what cannot be a key, and where nobody reads the number", () => {
        for (const other of [{ count: "*" }, { sum: "v" }, distinct("v")]) {
            const plan = planOf(group(large, { aggregates: { n: distinct("k"), other } }));
            expect(kinds(plan)).toEqual(["partition", "group"]);
        }
        expect(isOfGroups(planOf(group(large, { keys: ["k"], aggregates: { n: distinct("v") } })))).toBe(false);
        expect(isOfGroups(planOf(counting(inputNode(texts, { rows: 1_000_000 }), "n")))).toBe(false);
        expect(isOfGroups(planOf(counting(large), { sink: "count" }))).toBe(false);
    });

    test("in the least memory that a query can have, which is no more than that of sets", () => {
        const sets = group(large, { aggregates: { n: distinct("k"), rows: { count: "*" } } });
        const { minimumBytes } = memoryNeeds(planQueryOf(counting(large)));
        expect(minimumBytes).toBeLessThanOrEqual(memoryNeeds(planQueryOf(sets)).minimumBytes);
        expect(isOfGroups(planOf(counting(large), { budgetBytes: 2 * minimumBytes }))).toBe(true);
    });
});
