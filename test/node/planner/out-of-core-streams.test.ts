// SPDX-License-Identifier: Apache-2.0
// Plans of queries whose inputs are streams, of which nobody knows how many rows they have: room for more, a way to
// disk whatever happens, what travels with the rows, and which side is built where a dictionary comes late.
import { Dictionary, Field, Int32, Int64, Int8, List, Utf8, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { OutOfCoreGroupStage } from "../../../src/plan/out-of-core-group-stage.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import type { OutOfCoreTreeStage } from "../../../src/plan/out-of-core-tree-stage.js";
import type { LogicalNode } from "../../../src/plan/logical.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOnDevice } from "../../../src/planner/plan-device.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { group, inputNode, join, planQueryOf, type InputShape } from "../../support/planning.js";

const gibibyte = 2 ** 30;
const word = new Dictionary(new Utf8(), new Int32());

/** A relation with a key, and a value of this type. */
function relation(name: string, shape: InputShape = {}, value: DataType = new Int64()): LogicalNode {
    return inputNode({ k: new Int64(), [`v_${name}`]: value }, { name, rows: 2 ** 20, ...shape });
}

const streamed = (name: string, shape: InputShape = {}, value?: DataType): LogicalNode =>
    relation(name, { streamed: true, ...shape }, value);

function planOf<Stage>(root: LogicalNode, more: Partial<PlanQuery> = {}, limitBytes = gibibyte): Stage {
    const query = planQueryOf(root, { budgetBytes: 64 * gibibyte, ...more });
    const plan = planOutOfCore(query, planQuery(query), limitBytes);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as unknown as Stage;
}

function refusal(root: LogicalNode, more: Partial<PlanQuery> = {}): string {
    try {
        planOf(root, more);
        return "";
    } catch (error) {
        if (error instanceof NotOnDevice) return error.reason;
        throw error;
    }
}

const joined = (left: LogicalNode, right: LogicalNode, more: object = {}): LogicalNode =>
    join(left, right, { on: "k", ...more });
const sums = { keys: ["k"], aggregates: { sum: { sum: "v_a" } } };

describe("sizes", () => {
    test("pages are taken for four times the rows that are stated, and a way to disk is there", () => {
        const [table, stream] = [relation, streamed].map((make) => {
            const stage = planOf<OutOfCoreStage>(joined(make("a"), relation("b", { rows: 2 ** 24 })));
            expect(stage.layout.build.columns.length).toBeGreaterThan(0);
            return stage.sizes;
        });
        for (const sizes of [table, stream]) expect(sizes!.diskBlocks).toBeGreaterThan(0);
        const rowsOf = ({ pages, pageRows, radixBits }: typeof table & object): number =>
            (pages - 2 ** radixBits) * pageRows;
        expect(rowsOf(stream!) / rowsOf(table!)).toBeGreaterThan(3.5);
        expect(rowsOf(stream!) / rowsOf(table!)).toBeLessThan(4.5);
    });

    test("of group-bys and trees as well", () => {
        const groups = planOf<OutOfCoreGroupStage>(group(streamed("a"), sums)).sizes;
        expect(groups.diskBlocks).toBeGreaterThan(0);
        expect((groups.pages - 2 ** groups.radixBits) * groups.pageRows).toBeGreaterThan(3.5 * 2 ** 20);
        const tree = planOf<OutOfCoreTreeStage>(group(joined(relation("a"), streamed("b")), sums));
        for (const operator of tree.operators) {
            const { sizes } = operator.kind === "join" ? operator.join : operator.group;
            expect(sizes.diskBlocks).toBeGreaterThan(0);
        }
    });

    test("without room for the way to disk there is no plan", () => {
        const budget = { budgetBytes: 2 ** 20, threads: 1, sink: "count" } as const;
        const root = (make: typeof relation) => joined(make("a", { rows: 1000 }), relation("b", { rows: 1000 }));
        expect(refusal(root(streamed), budget)).toMatch(/of host memory on their way to disk at least/);
    });

    test("they go to the GPU where their rows would fit, which those of tables do as tables", () => {
        for (const [make, kind] of [
            [relation, "upload"],
            [streamed, "deviceOutOfCoreJoin"]
        ] as const) {
            const query = planQueryOf(joined(make("a"), relation("b")), { budgetBytes: 8 * gibibyte });
            const made = planOnDevice(query, planQuery(query), 4 * gibibyte);
            expect(made instanceof NotOnDevice ? made.reason : made.plan.stages[0]?.kind).toBe(kind);
        }
    });

    test("kernels that partition host memory need to know how many rows there are", () => {
        const { path, coherent } = planOf<OutOfCoreStage>(joined(streamed("a"), relation("b")), {
            coherentDevice: true
        });
        expect(coherent).toBeNull();
        expect(path).toMatchObject({ wanted: "coherent", runs: "staged" });
        expect(path.reason).toMatch(/needs to know how many rows `a` has, a stream/);
    });
});

describe("columns", () => {
    test("text of a stream travels as a number, that of a file is gathered beside it", () => {
        const root = joined(streamed("a", {}, new Utf8()), relation("b", {}, new Utf8()));
        const { layout, heldBytes } = planOf<OutOfCoreStage>(root);
        expect(layout.gathered.map(({ name }) => name)).toEqual(["v_b"]);
        expect(heldBytes).toBeGreaterThan(0);
        const widths = [layout.join.buildWidths, layout.join.probeWidths].map((all) => [...all].sort());
        expect(widths).toEqual([[4], [4]]);
        const tree = joined(joined(relation("a"), relation("b")), streamed("c", {}, new Utf8()), { suffix: "_2" });
        expect(refusal(tree)).toBe("");
    });

    test("of a key that a full join has in one column both texts do", () => {
        const texts = (name: string, shape: InputShape): LogicalNode =>
            inputNode({ k: new Utf8() }, { name, ...shape });
        const root = joined(texts("a", { streamed: true }), texts("b", {}), { type: "full" });
        expect(planOf<OutOfCoreStage>(root).layout.gathered).toEqual([]);
        expect(planOf<OutOfCoreStage>(root).layout.columns[0]?.parts.map(({ from }) => from)).toEqual(["gpu", "gpu"]);
    });

    test("what cannot travel is named", () => {
        const list = new List(new Field("item", new Int32(), true));
        expect(refusal(joined(streamed("a", {}, list), relation("b")))).toBe(
            "column `v_a` (nested) of the stream `a` cannot be in GPU memory"
        );
        const rowOf = (columns: number, type: DataType) =>
            Object.fromEntries([
                ["k", new Int64()],
                ...Array.from({ length: columns }, (_, i) => [`c${i}`, type] as const)
            ]);
        const wide = (columns: number, type: DataType) =>
            refusal(joined(inputNode(rowOf(columns, type), { name: "a", streamed: true }), relation("b")));
        expect([wide(15, new Int64()), wide(28, new Int32())]).toEqual(["", ""]);
        expect(wide(16, new Int64())).toBe(
            "column `c15` (in a row of more than 128 bytes) of the stream `a` cannot be in GPU memory"
        );
        expect(wide(29, new Int8())).toBe(
            "column `c28` (in a row of more than 28 columns) of the stream `a` cannot be in GPU memory"
        );
        const names = ["k", "w", "x", "y", "z"];
        const on = { on: names, select: ["k"] };
        const keyed = (name: string, shape: InputShape) =>
            inputNode(Object.fromEntries(names.map((key) => [key, new Int64()])), { name, ...shape });
        // They are numbered: nobody can compare them again.
        for (const sink of ["batches", "count"] as const) {
            expect(refusal(join(keyed("a", {}), keyed("b", { streamed: true }), on), { sink })).toBe("");
        }
        const keys = Array.from({ length: 25 }, (_, i) => `k${i}`);
        const many = (name: string, shape: InputShape) =>
            inputNode(Object.fromEntries(keys.map((key) => [key, new Int64()])), { name, ...shape });
        const all = { on: keys, type: "full", select: keys } as const;
        expect(refusal(join(many("a", { streamed: true }), many("b", {}), all))).toMatch(
            /^keys that the result has of both sides take \d+ bytes and \d+ columns of a row of the stream `a`/
        );
        expect(refusal(join(many("a", {}), many("b", {}), all))).toBe("");
        // Words of a key are compared on the GPU.
        const pair = { on: ["k", "w"], select: ["k"] };
        expect(refusal(join(keyed("a", {}), keyed("b", { streamed: true }), pair))).toBe("");
    });
});

describe("dictionaries of the result", () => {
    const large = { rows: 2 ** 28 };

    test("the side of a stream that brings one is built, though it is the larger one", () => {
        const stage = planOf<OutOfCoreStage>(joined(streamed("a", large, word), relation("b")));
        expect(stage.buildInput).toBe(0);
        expect(planOf<OutOfCoreStage>(joined(streamed("a", large), relation("b"))).buildInput).toBe(1);
        // Nobody wants its values.
        const counted = planOf<OutOfCoreStage>(joined(streamed("a", large, word), relation("b")), { sink: "count" });
        expect(counted.buildInput).toBe(1);
    });

    test("two streams that bring one each are refused, and rows that leave before all are read", () => {
        const late = /^column `v_[ab]` has a dictionary of the stream `[ab]`, which is not known before/;
        expect(refusal(joined(streamed("a", {}, word), streamed("b", {}, word)))).toMatch(late);
        const outer = joined(streamed("a", { ...large, nullable: true }, word), relation("b"), { type: "left" });
        expect(refusal(outer)).toMatch(late);
    });

    test("groups come when all has been read", () => {
        const words = group(streamed("a", {}, word), { keys: ["v_a"], aggregates: { n: { count: "*" } } });
        expect(refusal(words)).toBe("");
    });
});
