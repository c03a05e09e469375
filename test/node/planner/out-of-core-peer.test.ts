// SPDX-License-Identifier: Apache-2.0
// What joins, group-bys and trees out of core plan to spill to the memory of another GPU.
import { Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { OutOfCoreGroupStage } from "../../../src/plan/out-of-core-group-stage.js";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import type { OutOfCoreTreeStage } from "../../../src/plan/out-of-core-tree-stage.js";
import { planText } from "../../../src/plan/plan-text.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { chooseSpill } from "../../../src/planner/streaming/spill.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const mebibyte = 2 ** 20;
const gibibyte = 2 ** 30;
const rows = 2 ** 28;

const input = (name: string): LogicalNode => inputNode({ k: new Int64(), v: new Int64() }, { rows, name });

function planWith(root: LogicalNode, peerBytes: number, budgetBytes = 64 * gibibyte): Plan {
    const query = { ...planQueryOf(root, { budgetBytes, threads: 16, sink: "count" }), peerBytes };
    const plan = planOutOfCore(query, planQuery(query), gibibyte);
    if (plan instanceof NotOnDevice) throw plan;
    return plan;
}

const roots = {
    join: () => join(input("l"), input("r"), { on: "k" }),
    group: () =>
        group(input("g"), { keys: ["k"], aggregates: { n: { count: "*" }, s: { sum: "v" } }, hints: { groups: rows } })
};

test("a peer has rows before host memory and disk, which has less to take for it", () => {
    const request = { expectedBytes: 0, mostBytes: gibibyte, sparing: false, hostSpillBytes: undefined };
    const freeBytes = 8 * gibibyte;
    const without = chooseSpill({ ...request, freeBytes });
    const half = chooseSpill({ ...request, freeBytes, peerBytes: gibibyte / 2 });
    expect([without.peerBytes, half.peerBytes]).toEqual([0, gibibyte / 2]);
    expect(half.spillBytes).toBe(without.spillBytes - gibibyte / 2);
    // Rows that a peer has no memory for after all find a block of host memory, and the disk.
    const all = chooseSpill({ ...request, freeBytes, peerBytes: 4 * gibibyte });
    expect(all).toMatchObject({ spillBytes: all.spillBlockBytes, diskBlocks: 8 });
});

describe.each(Object.entries(roots))("plans of a %s", (_, root) => {
    const stageOf = (plan: Plan): OutOfCoreStage | OutOfCoreGroupStage =>
        plan.stages[0] as OutOfCoreStage | OutOfCoreGroupStage;

    test("have nothing there without a peer", () => {
        const plan = planWith(root(), 0);
        const { sizes, predicted } = stageOf(plan);
        expect([sizes.peerBytes, predicted.peerBytes]).toEqual([0, 0]);
        expect(planText(plan)).not.toMatch(/peer/);
    });

    test("fill it first, and then host memory", () => {
        const { spilledBytes } = stageOf(planWith(root(), 0)).predicted;
        expect(spilledBytes).toBeGreaterThan(gibibyte);
        const some = planWith(root(), 512 * mebibyte);
        expect(stageOf(some).predicted).toMatchObject({ spilledBytes, peerBytes: 512 * mebibyte, diskBytes: 0 });
        expect(planText(some)).toMatch(/spilled to a peer's memory and host memory/);
        expect(planText(some)).toMatch(/peer: 512 MiB of them in the memory of another GPU/);
        const all = planWith(root(), 16 * gibibyte);
        expect(stageOf(all).predicted).toMatchObject({ peerBytes: spilledBytes, diskBytes: 0 });
        expect(planText(all)).toMatch(/spilled to a peer's memory( \(|$)/m);
        expect(stageOf(all).memory.tableBytes).toBeLessThan(64 * mebibyte);
    });

    test("keep from disk what it takes", () => {
        const [without, some] = [0, 512 * mebibyte].map((peer) => stageOf(planWith(root(), peer, gibibyte)));
        expect(without!.predicted.diskBytes).toBeGreaterThan(512 * mebibyte);
        expect(some!.predicted.diskBytes).toBe(without!.predicted.diskBytes - 512 * mebibyte);
        expect(some!.predictedMs).toBeLessThan(without!.predictedMs);
    });
});

test("operators of a tree share it by what they are expected to spill", () => {
    const inner = join(input("a"), input("b"), { on: "k", select: ["k"] });
    const plan = planWith(join(inner, input("c"), { on: "k", select: ["k"] }), gibibyte);
    const stage = plan.stages[0] as OutOfCoreTreeStage;
    const shares = stage.operators.map((one) => (one.kind === "join" ? one.join : one.group).sizes.peerBytes);
    expect(shares.length).toBe(2);
    expect(Math.min(...shares)).toBeGreaterThan(0);
    const sum = shares.reduce((all, bytes) => all + bytes, 0);
    expect(sum).toBeLessThanOrEqual(gibibyte);
    expect(sum).toBeGreaterThan(gibibyte - 4);
    const { peerBytes, spilledBytes } = stage.predicted;
    expect(peerBytes).toBeGreaterThan(0);
    expect(peerBytes).toBeLessThanOrEqual(Math.min(sum, spilledBytes));
    expect(planText(plan)).toMatch(/peer: .* of them in the memory of another GPU/);
});
