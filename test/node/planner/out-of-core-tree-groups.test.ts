// SPDX-License-Identifier: Apache-2.0
// Group-bys below other operators out of core: stages of their own, whose groups are held in host memory.
import { describe, expect, test } from "vitest";
import { loadProfile } from "../../../src/machine/profile.js";
import { sumOf } from "../../../src/model/sizes.js";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { OutOfCoreTreeStage } from "../../../src/plan/out-of-core-tree-stage.js";
import type { Plan } from "../../../src/plan/plan.js";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { outOfCoreHostBytes } from "../../../src/planner/plan-out-of-core.js";
import type { PlanQuery } from "../../../src/planner/plan-query.js";
import { chain, dimension, gibibyte, on, planOf, queryOf } from "../../support/out-of-core-trees.js";
import { group, join } from "../../support/planning.js";

describe("groups of groups, and joins of groups", () => {
    const two = chain([{ rows: 1e7 }, { rows: 1e6 }], ["inner"]);
    const counted = (child: LogicalNode, keys: string[], more: object = {}): LogicalNode =>
        group(child, { keys, aggregates: { n: { count: "*" } }, ...more });
    const planned = (root: LogicalNode, more: Partial<PlanQuery> = {}): Plan => {
        const plan = planOf(queryOf(root, more));
        if (plan instanceof NotOnDevice) throw plan;
        return plan;
    };
    const kindsOf = ({ stages }: Plan): string[] => stages.map(({ kind, id }) => `${id} ${kind}`);

    test("have a stage for each group-by below, whose groups are an input behind those of the query", () => {
        const inner = counted(two, ["r0_v"], { hints: { groups: 5000 } });
        const plan = planned(
            join(join(inner, dimension("c", 1000), on("r0_v", "c_v")), dimension("d", 10), on("n", "d_k"))
        );
        expect(kindsOf(plan)).toEqual(["0 deviceOutOfCoreTree", "1 deviceOutOfCoreTree"]);
        const [groups, rest] = plan.stages as OutOfCoreTreeStage[];
        expect(groups?.holds).toEqual({ input: 4, limitBytes: 3 * 5000 * 12 + 2 ** 20 });
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
