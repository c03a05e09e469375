// SPDX-License-Identifier: Apache-2.0
import { Dictionary, Float64, Int32, Int64, Utf8 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { PartitionSizes } from "../../../src/plan/decisions.js";
import { inputsOf } from "../../../src/plan/logical.js";
import type { JoinStage } from "../../../src/plan/plan.js";
import { decisions } from "../../../src/planner/decide.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const columns = { k: new Int64(), v: new Float64() };
const left = inputNode(columns, { rows: 10_000_000, name: "left" });
const right = inputNode(columns, { rows: 20_000_000, name: "right" });
const plan = planQuery(planQueryOf(join(left, right, { on: "k" }), { budgetBytes: 256 * 2 ** 20 }));

function sizes(bytes: readonly number[], spilled: readonly number[] = []): PartitionSizes {
    const of = (values: readonly number[]) => Float64Array.from(bytes, (_, i) => values[i] ?? 0);
    const rows = of(bytes.map((b) => b / 16));
    return {
        rows,
        bytes: of(bytes),
        spilledBytes: of(spilled),
        rowBytes: 16,
        totalRows: rows.reduce((a, b) => a + b, 0),
        heldBytes: 0
    };
}

describe("the schedule of a join", () => {
    test("visits partitions in memory first, each group from large to small, and leaves empty ones out", () => {
        const build = sizes([160, 320, 0, 16, 1600, 999], [0, 320, 0, 0, 800]);
        const probe = sizes([160, 320, 0, 3200, 1600, 0]);
        expect(decisions.joinSchedule(build, probe)).toEqual([3, 0, 4, 1]);
    });

    test("has no NULL partition: that one is implied", () => {
        expect(decisions.joinSchedule(sizes([0, 0, 5000]), sizes([0, 0, 5000]))).toEqual([]);
    });
});

describe("stages run on the event loop's thread", () => {
    const runsHere = (shapes: readonly object[], resultRows = 100, more: object = {}, types: object = columns) => {
        const [small, other] = shapes.map((shape) => inputNode({ ...columns, ...types }, { inMemory: true, ...shape }));
        const tree = join(small!, other!, { on: "k", hints: { resultRows } });
        return decisions.runsHere({ ...planQuery(planQueryOf(tree)), ...more }, inputsOf(tree));
    };
    const few = [{ rows: 10 }, { rows: 10 }];
    const many = [{ rows: 1000 }, { rows: 1000 }];

    test("where they are of few rows in memory, and there can be but few pairs", () => {
        expect([runsHere(few), runsHere(many)]).toEqual([true, true]);
        expect([runsHere([{ rows: 10 }, { rows: 3000 }]), runsHere(many, 1e6)]).toEqual([false, false]);
    });

    test("where nothing is read from files or written to one, nor on a GPU", () => {
        expect(runsHere([{ rows: 10 }, { rows: 10, inMemory: false }])).toBe(false);
        expect(runsHere(few, 100, { sink: "file" })).toBe(false);
        expect(runsHere(few, 100, { device: "gpu" })).toBe(false);
    });

    test("where texts and dictionaries are short", () => {
        const long = few.map((shape) => ({ ...shape, textBytes: 20_000 }));
        expect(runsHere(few, 100, {}, { text: new Utf8() })).toBe(true);
        expect(runsHere(long, 100, {}, { text: new Utf8() })).toBe(false);
        expect(runsHere(long, 100, {}, { word: new Dictionary(new Utf8(), new Int32()) })).toBe(false);
    });
});

test("a group-by without keys has a partition to visit even without rows", () => {
    const keyless = planQuery(planQueryOf(group(left, { aggregates: { n: { countDistinct: "k" } } })));
    const keyed = planQuery(planQueryOf(group(left, { keys: ["k"] })));
    expect(decisions.groupSchedule(keyless.sets[0]!, sizes([0, 0]))).toEqual([0]);
    expect(decisions.groupSchedule(keyed.sets[0]!, sizes([0, 0, 0]))).toEqual([]);
    expect(decisions.groupSchedule(keyed.sets[0]!, sizes([16, 32, 0]))).toEqual([1, 0]);
});

describe("memory from true sizes", () => {
    const [build, probe] = [plan.sets[0]!, plan.sets[1]!];

    test("a smaller build side leaves more to the probe side and to tables", () => {
        const planned = decisions.poolBytesFor(plan, probe.id, new Map([[build.id, build.poolBytes]]));
        const more = decisions.poolBytesFor(plan, probe.id, new Map([[build.id, 1000]]));
        expect(more).toBeGreaterThan(planned);
        const stage = plan.stages.at(-1) as JoinStage;
        const tight = new Map([build, probe].map((set) => [set.id, set.poolBytes]));
        expect(decisions.tableBytesFor(plan, stage, tight)).toBeGreaterThanOrEqual(stage.memory.tableBytes);
        const loose = new Map([build, probe].map((set) => [set.id, 1000]));
        const tables = decisions.tableBytesFor(plan, stage, loose);
        expect(
            tables + 2000 + stage.memory.inputBytes + stage.memory.outputBytes + plan.memory.fixedBytes
        ).toBeLessThanOrEqual(plan.memory.budgetBytes);
    });
});

test("a heavy probe partition is shared before it keeps one worker busy alone", () => {
    const stage = plan.stages.at(-1) as JoinStage;
    expect(decisions.probeSplitRows(stage, sizes([16 * 1_000_000_000]))).toBe(stage.spec.probeSplitRows);
    expect(decisions.probeSplitRows(stage, sizes([16 * 1_000_000]))).toBe(250_000);
    expect(decisions.probeSplitRows(stage, sizes([160]))).toBeGreaterThan(10);
});
