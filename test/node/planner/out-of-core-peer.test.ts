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
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { loadProfile, type MachineProfile } from "../../../src/machine/profile.js";
import { tiersMs } from "../../../src/planner/streaming/coherent/predict.js";
import { linkMs } from "../../../src/planner/streaming/link.js";
import { chooseSpill, expectedOnPeer } from "../../../src/planner/streaming/spill.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const mebibyte = 2 ** 20;
const gibibyte = 2 ** 30;
const rows = 2 ** 28;

const input = (name: string): LogicalNode => inputNode({ k: new Int64(), v: new Int64() }, { rows, name });

function planWith(
    root: LogicalNode,
    peerBytes: number,
    budgetBytes = 64 * gibibyte,
    more: Partial<PlanQuery> = {}
): Plan {
    const query = { ...planQueryOf(root, { budgetBytes, threads: 16, sink: "count" }), peerBytes, ...more };
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

describe("joins by kernels", () => {
    const pageBytes = 2 ** 16;
    const root = (): LogicalNode => join(input("l"), input("r"), { on: "k", algorithm: "triton" });
    const stageOf = (peerBytes: number, more: Partial<PlanQuery> = {}, budgetBytes = 64 * gibibyte) =>
        planWith(root(), peerBytes, budgetBytes, more).stages[0] as OutOfCoreStage;

    test("have pages near, then with the peer, then in host memory, and say how many of each", () => {
        const without = stageOf(0);
        expect(without.work.turns?.pages.peer).toBe(0);
        expect(planText(planWith(root(), 0))).not.toMatch(/peer/);
        const some = stageOf(gibibyte);
        const { pages, device, far } = some.work.turns!;
        expect([device, far]).toEqual([without.work.turns!.device, without.work.turns!.far]);
        expect(pages.device).toBe(without.work.turns!.pages.device);
        expect(pages.peer).toBe(gibibyte / pageBytes);
        expect(pages.device + pages.peer + pages.host).toBe(some.sizes.pages);
        expect(some.sizes.peerBytes).toBe(gibibyte);
        expect(some.predicted.spilledBytes).toBe(without.predicted.spilledBytes);
        const ofPeer = (2 * rows * 16 * pages.peer) / some.sizes.pages;
        expect(some.predicted.peerBytes / ofPeer).toBeCloseTo(1, 6);
        const text = planText(planWith(root(), gibibyte));
        expect(text).toMatch(
            /in turns, \d+ near to \d+ far: [\d,]+ of GPU memory, 16,384 of a peer's memory, [\d,]+ of host/
        );
        expect(text).toMatch(/peer: .* of them in the memory of another GPU/);
        expect(text).toMatch(/partitioned by kernels in GPU, a peer's and host memory/);
    });

    test("need no host memory for pages that the peer has, and name both where there is too little", () => {
        const budget = 6 * gibibyte;
        expect(() => stageOf(0, {}, budget)).toThrow(/pages that do not fit GPU memory .* raise memory\.host$/);
        expect(() => stageOf(gibibyte, {}, budget)).toThrow(/either GPU need .* raise memory\.host or memory\.peer$/);
        const all = stageOf(16 * gibibyte, {}, budget);
        expect(all.work.turns?.pages.host).toBe(0);
        expect(all.predicted.peerBytes).toBe(all.predicted.spilledBytes);
        expect(all.sizes.peerBytes).toBeLessThan(10 * gibibyte);
        // None of them has to be the host's.
        const none = stageOf(16 * gibibyte, { debug: { hostSpillBytes: 0 } }, budget);
        expect(none.sizes.spillBytes).toBe(0);
    });

    test("keep turns that were asked for, and mapped pages a stripe or two of the host's beside", () => {
        const asked = stageOf(gibibyte, { debug: { interleave: { device: 1, far: 19 } } });
        expect(asked.work.turns).toMatchObject({ device: 1, far: 19, reason: "asked", pages: { peer: 2 ** 14 } });
        const sink = "table";
        const [listed, mapped] = (["listed", "mapped"] as const).map(
            (pages) => stageOf(gibibyte, { sink, debug: { pages } }).sizes
        );
        expect(mapped!.peerBytes).toBe(listed!.peerBytes);
        expect(mapped!.spillBytes - listed!.spillBytes).toBe(32 * mebibyte);
    });

    test("take less time with a peer behind a link of its own", () => {
        const [host, peer] = [0, 16 * gibibyte].map((bytes) => stageOf(bytes).predicted);
        // The first pass reads the host's memory either way.
        expect(peer!.buildMs).toBeLessThan(host!.buildMs);
        expect(peer!.spilledMs).toBeLessThan(host!.spilledMs / 2);
    });
});

describe("rates", () => {
    const rates = { devicePeerReadBytesPerMs: 200, devicePeerWriteBytesPerMs: 100 };
    const far = { deviceFarReadBytesPerMs: 50, deviceFarWriteBytesPerMs: 40, deviceFarBothBytesPerMs: 1000 };

    test("of kernels: both links at once, or one after the other where they are one", () => {
        const [host, peer] = [
            { in: 1000, out: 0 },
            { in: 6000, out: 1000 }
        ];
        expect(tiersMs(host, peer, { ...far, ...rates })).toBeCloseTo(30);
        expect(tiersMs(host, { in: 0, out: 0 }, { ...far, ...rates })).toBeCloseTo(20);
        const shared = { ...far, ...rates, devicePeerReadBytesPerMs: 50 };
        expect(tiersMs(host, peer, shared)).toBeCloseTo(20 + 120);
    });

    test("of copies, which a peer's and the host's have in the same streams", () => {
        const copies = { deviceCopyInBytesPerMs: 50, deviceCopyOutBytesPerMs: 40, deviceCopyBothBytesPerMs: 1000 };
        const profile: MachineProfile = { ...loadProfile(), ...copies, ...rates };
        expect(linkMs({ profile }, 1000, 400)).toBeCloseTo(20);
        expect(linkMs({ profile }, 1000, 400, { in: 2000, out: 0 })).toBeCloseTo(30);
        expect(linkMs({ profile }, 1000, 400, { in: 0, out: 2000 })).toBeCloseTo(30);
    });

    test("count for the rows of either side that come first", () => {
        const spilled = { build: 100, probe: 300 };
        expect(expectedOnPeer(spilled, { peerBytes: 60 })).toEqual({ build: 60, probe: 0 });
        expect(expectedOnPeer(spilled, { peerBytes: 150 })).toEqual({ build: 100, probe: 50 });
        expect(expectedOnPeer(spilled, { peerBytes: 1000 })).toEqual(spilled);
    });

    test.each(Object.entries(roots))(
        "make a %s that spills there faster than one that spills to the host, unless the link does not matter",
        (name, root) => {
            const [host, peer] = [0, 16 * gibibyte].map((bytes) => planWith(root(), bytes).stages[0]!);
            // Kernels of many groups take longer than either link.
            if (name === "group") expect(peer!.predictedMs).toBe(host!.predictedMs);
            else expect(peer!.predictedMs).toBeLessThan(host!.predictedMs);
        }
    );
});
