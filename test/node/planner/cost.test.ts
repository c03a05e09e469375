// SPDX-License-Identifier: Apache-2.0
// Predicted times of the CPU engine, where one of two plans of the same stages has more to do.
import { Int64, Utf8 } from "apache-arrow";
import { expect, test } from "vitest";

import type { LogicalNode } from "../../../src/plan/logical.js";
import type { Plan } from "../../../src/plan/plan.js";
import { planQuery, queryStartMs, type PlanQuery } from "../../../src/planner/plan-query.js";
import type { KeyStatistics } from "../../../src/planner/statistics.js";
import { group, inputNode, join, planQueryOf, type InputShape } from "../../support/planning.js";

const integer = new Int64();
const rows = 8_000_000;
const facts = (shape: InputShape = {}): LogicalNode => inputNode({ key: integer, value: integer }, { rows, ...shape });
const sums = { keys: [], aggregates: { total: { sum: "value" } } };

/** 400,000 rows that facts are looked up among. */
const weights = (): LogicalNode => inputNode({ key: integer, weight: integer }, { rows: 400_000, name: "weights" });
const weighed = (): LogicalNode =>
    group(join(weights(), facts(), { on: "key" }), { keys: [], aggregates: { total: { sum: "weight" } } });

function planOf(root: LogicalNode, more: Partial<PlanQuery> = {}): Plan {
    const plan = planQuery(planQueryOf(root, { sink: "table", budgetBytes: 2 ** 33, ...more }));
    expect(plan.device).toBe("cpu");
    return plan;
}

const stagesMs = (plan: Plan): number => plan.predictedMs - queryStartMs(plan);
const kinds = (plan: Plan): string[] => plan.stages.map(({ kind }) => kind);

test("Values in memory are read in less time than they are copied from files", () => {
    const [fromFiles, fromMemory] = [false, true].map((inMemory) => planOf(group(facts({ inMemory }), sums)));
    expect(kinds(fromMemory!)).toEqual(kinds(fromFiles!));
    const readMs = (rows * 8) / planQueryOf(facts()).profile.readBytesPerMs;
    expect(stagesMs(fromFiles!) - stagesMs(fromMemory!)).toBeGreaterThan(readMs / 8);
    expect(stagesMs(fromFiles!) - stagesMs(fromMemory!)).toBeLessThan(readMs);
});

test("What is copied of texts in memory, their offsets, is not all of them", () => {
    const texts = (shape: InputShape) => inputNode({ text: new Utf8() }, { rows, textBytes: 100, ...shape });
    const counted = { keys: ["text"], aggregates: { n: { count: "*" } }, hints: { groups: 100 } };
    const [fromFiles, fromMemory] = [false, true].map((inMemory) => planOf(group(texts({ inMemory }), counted)));
    expect(kinds(fromMemory!)).toEqual(kinds(fromFiles!));
    expect(stagesMs(fromMemory!)).toBeLessThan(stagesMs(fromFiles!) * 0.9);
});

test("Rows that repeat the keys of those beside them find what they look up side by side", () => {
    const sample = { rows, nulls: 0, min: 0n, max: 399_999n, sampledRows: 16_384, heaviestShare: 1 / 16_384 };
    const planned = (pieceDistinct: number): Plan => {
        const statistics: KeyStatistics = { ...sample, sampledDistinct: pieceDistinct, pieceDistinct };
        return planOf(weighed(), { statistics: new Map([["1:0/integer/8", statistics]]) });
    };
    const [scattered, repeated] = [planned(16_384), planned(4_096)];
    expect(kinds(scattered)).toContain("pipeline");
    expect(kinds(repeated)).toEqual(kinds(scattered));
    const pipelineMs = ({ stages }: Plan): number => stages.find(({ kind }) => kind === "pipeline")!.predictedMs;
    expect(pipelineMs(repeated)).toBeLessThan(pipelineMs(scattered) * 0.7);
});

test("A result that is no count takes its time, and few rows take less than a thread", () => {
    const few = (sink: PlanQuery["sink"]): Plan => planOf(group(inputNode({ value: integer }), sums), { sink });
    expect(few("table").threads).toBe(1);
    expect(few("table").predictedMs).toBeGreaterThan(few("count").predictedMs);
    expect(few("table").predictedMs).toBeLessThan(1);
    for (const threads of [1, 4]) {
        expect(queryStartMs({ threads, sink: "file" })).toBe(queryStartMs({ threads, sink: "table" }));
        expect(queryStartMs({ threads, sink: "count" })).toBeLessThan(queryStartMs({ threads, sink: "table" }));
    }
});
