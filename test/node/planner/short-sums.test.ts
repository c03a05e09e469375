// SPDX-License-Identifier: Apache-2.0
// Which sums of 64-bit integers out of core take 64 bits of a partial row, and which a half of each value at a time.
import { Decimal, Float64, Int64, Uint64, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { inputsOf, type InputInfo, type LogicalNode } from "../../../src/plan/logical.js";
import {
    hasShortSums,
    type OutOfCoreGroupShape,
    type OutOfCoreGroupStage
} from "../../../src/plan/out-of-core-group-stage.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import type { SinkKind } from "../../../src/plan/plan.js";
import type { PlanQuery } from "../../../src/planner/plan-query.js";
import type { ValueSample } from "../../../src/planner/statistics.js";
import { deviceMemory } from "../../support/device-memory.js";
import { planOf, queryOf, stageOf as treeStageOf } from "../../support/out-of-core-trees.js";
import { group, inputNode, join, type InputShape } from "../../support/planning.js";

const rows = 2 ** 20;
/** Of which so many rows together are the most that is sure to fit. */
const most = 2 ** 62 / rows;

const all = { k: new Int64(), s: new Int64(), u: new Uint64(), d: new Decimal(2, 18, 128), f: new Float64() };

function input(types: Record<string, DataType> = all, shape: InputShape = {}): LogicalNode {
    return inputNode(types, { rows, ...shape });
}

/** Values of that size in all columns of all inputs. */
function samplesOf(root: LogicalNode, magnitude: number): Map<InputInfo, ValueSample[]> {
    return new Map(inputsOf(root).map((from) => [from, from.columns.map(() => ({ bits: 64, magnitude }))]));
}

function shapeOf(root: LogicalNode, magnitude: number, more: Partial<PlanQuery> = {}): OutOfCoreGroupShape {
    const plan = planOf(queryOf(root, { valueSamples: samplesOf(root, magnitude), ...more }));
    if (plan instanceof NotOnDevice) throw plan;
    return (plan.stages[0] as OutOfCoreGroupStage).layout.group;
}

const sumOf = (column: string, kind = "sum"): object => ({ keys: ["k"], aggregates: { sum: { [kind]: column } } });

describe("sums of 64-bit integers", () => {
    test.each([
        ["s", "sum signed"],
        ["u", "sum unsigned"],
        ["d", "sum signed"]
    ])("take one word of a partial row where a sample says that all rows together fit: %s", (column, sums) => {
        const short = shapeOf(group(input(), sumOf(column)), most, { sink: "file" });
        expect(short.widths).toEqual([8]);
        expect(short.aggregates.map((one) => `${one.kind} ${one.number}`)).toEqual([sums]);
        expect([hasShortSums(short), deviceMemory().ofGroupBy(short).rowBytes]).toEqual([true, 16]);
        const exact = shapeOf(group(input(), sumOf(column)), most * 1.01, { sink: "file" });
        expect(exact.widths).toEqual([4, 4]);
        expect([hasShortSums(exact), deviceMemory().ofGroupBy(exact).rowBytes]).toEqual([false, 24]);
    });

    test("are so for means and decimals, which have no limit, where nobody has rows before the end", () => {
        const columnsOf = (sink: SinkKind, options: object): readonly number[] =>
            shapeOf(group(input(), options), most, { sink }).widths;
        const both = { keys: ["k"], aggregates: { sum: { sum: "s" }, mean: { mean: "s" } } };
        for (const options of [sumOf("s", "mean"), sumOf("d"), both]) {
            expect(columnsOf("file", options)).toEqual([8]);
            expect(columnsOf("table", options)).toEqual([4, 4]);
            expect(columnsOf("batches", options)).toEqual([4, 4]);
        }
        for (const sink of ["file", "table", "batches"] as const) expect(columnsOf(sink, sumOf("s"))).toEqual([8]);
    });

    test("of one column are short beside exact ones of another", () => {
        const aggregates = { s: { sum: "s" }, u: { mean: "u" } };
        expect(shapeOf(group(input(), { keys: ["k"], aggregates }), most, { sink: "table" }).widths).toEqual([8, 4, 4]);
    });

    test("say nothing of floats, which are never in halves", () => {
        expect(hasShortSums(shapeOf(group(input(), sumOf("f")), most))).toBe(false);
    });

    test.each([
        ["nobody has seen the values", { valueSamples: new Map() }],
        ["they were wrong before", { plainDevice: true }],
        ["another part of the query waits for the rows", { isHeld: true }]
    ])("are exact where %s", (_, more) => {
        expect(shapeOf(group(input(), sumOf("s")), most, more).widths).toEqual([4, 4]);
    });

    test("are exact of a stream, which comes once, and without keys, where one row is all there is", () => {
        expect(shapeOf(group(input(all, { streamed: true }), sumOf("s")), most).widths).toEqual([4, 4]);
        expect(shapeOf(group(input(), { keys: [], aggregates: { sum: { sum: "s" } } }), most).widths).toEqual([4, 4]);
    });

    test("count rows of a join that is grouped, of whose inputs the values are", () => {
        const groupedJoin = (columns: readonly string[]): LogicalNode => {
            const sides = [input({ k: new Int64(), s: new Int64() }), input({ k: new Int64(), t: new Int64() })];
            const joined = join(sides[0]!, sides[1]!, { on: "k", hints: { resultRows: 8 * rows } });
            const aggregates = Object.fromEntries(columns.map((column) => [column, { sum: column }]));
            return group(joined, { keys: ["k"], aggregates, hints: { groups: rows } });
        };
        const ofTree = (magnitude: number): OutOfCoreGroupShape[] => {
            const root = groupedJoin(["s", "t"]);
            const { operators } = treeStageOf(queryOf(root, { valueSamples: samplesOf(root, magnitude) }));
            return operators.flatMap((one) => (one.kind === "group" ? [one.group] : []));
        };
        expect(ofTree(most / 8).map(({ widths }) => widths)).toEqual([[8, 8]]);
        expect(ofTree(most / 4).map(({ widths }) => widths)).toEqual([[4, 4, 4, 4]]);
    });
});

test("fields of keys are no sums", () => {
    const key = { kind: "min", number: "unsigned", column: 0, decidedBy: null } as const;
    expect(hasShortSums({ keyBytes: 8, widths: [8], aggregates: [key], nullGroup: false })).toBe(false);
});
