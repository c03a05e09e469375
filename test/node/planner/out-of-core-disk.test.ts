// SPDX-License-Identifier: Apache-2.0
// What joins and group-bys out of core plan to spill to disk, from the shapes of relations and budgets alone.
import { Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { Knobs } from "../../../src/model/debug-knobs.js";
import type { OutOfCoreGroupStage } from "../../../src/plan/out-of-core-group-stage.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { planText } from "../../../src/plan/plan-text.js";
import type { Plan, SinkKind } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { chooseSpill, expectedOnDisk, type SpillRequest } from "../../../src/planner/streaming/spill.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const kibibyte = 1024;
const mebibyte = 2 ** 20;
const gibibyte = 2 ** 30;

function planOf(
    rows: number,
    budgetBytes: number,
    limitBytes: number,
    debug: Knobs = {},
    sink: SinkKind = "count"
): Plan | NotOnDevice {
    const columns = { k: new Int64(), v: new Int64() };
    const [left, right] = ["l", "r"].map((name) => inputNode(columns, { rows, name }));
    const root = join(left!, right!, { on: "k" });
    const query = planQueryOf(root, { budgetBytes, threads: 16, sink, debug });
    return planOutOfCore(query, planQuery(query), limitBytes);
}

function stageOf(plan: Plan | NotOnDevice): OutOfCoreStage {
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreStage;
}

const request: SpillRequest = {
    freeBytes: gibibyte,
    expectedBytes: 0,
    mostBytes: 10 * gibibyte,
    sparing: false,
    hostSpillBytes: undefined
};

describe("sizes", () => {
    test("have a way to disk also where host memory should hold whatever may be spilled", () => {
        const disk = { diskBlocks: 8, diskBlockBytes: 4 * mebibyte };
        for (const mostBytes of [mebibyte, 900 * mebibyte]) {
            for (const sparing of [false, true]) {
                expect(chooseSpill({ ...request, mostBytes, sparing })).toMatchObject(disk);
            }
        }
    });

    test("leave the way to disk small blocks, and then few, where memory is short", () => {
        const diskOf = (freeBytes: number): number[] => {
            const { diskBlocks, diskBlockBytes } = chooseSpill({ ...request, freeBytes });
            return [diskBlocks, diskBlockBytes / kibibyte];
        };
        expect(diskOf(mebibyte)).toEqual([8, 32]);
        expect(diskOf(512 * kibibyte)).toEqual([8, 16]);
        expect(diskOf(512 * kibibyte - 1)).toEqual([7, 16]);
        expect(diskOf(200 * kibibyte)).toEqual([3, 16]);
        expect(diskOf(100 * kibibyte)).toEqual([2, 16]);
        expect(diskOf(32 * kibibyte)).toEqual([2, 16]);
        expect(chooseSpill({ ...request, freeBytes: 32 * kibibyte }).spillBytes).toBe(0);
    });

    test("never take more host memory than there is, down to where there is too little for a way to disk", () => {
        for (let freeBytes = 16 * gibibyte; freeBytes > 128 * kibibyte; freeBytes *= 0.7) {
            for (const sparing of [false, true]) {
                const free = Math.floor(freeBytes);
                const sizes = chooseSpill({ ...request, freeBytes: free, expectedBytes: 5 * gibibyte, sparing });
                expect(sizes.spillBytes + sizes.diskBlocks * sizes.diskBlockBytes).toBeLessThanOrEqual(free);
                expect(sizes.diskBlocks).toBeGreaterThanOrEqual(2);
                expect(sizes.spillBytes).toBeGreaterThanOrEqual(free < 5 * gibibyte ? free * 0.74 : 0);
            }
        }
        const little = { ...request, freeBytes: 32 * kibibyte - 1, expectedBytes: mebibyte };
        expect(() => chooseSpill(little)).toThrow(
            /\(about 1.05 MiB\) need 32 KiB of host memory on their way to disk at least, 32 KiB are left/
        );
        expect(() => chooseSpill({ ...request, freeBytes: -5 })).toThrow(/0 B are left/);
    });

    test("use whole blocks of host memory: what is expected there finds them", () => {
        for (const freeBytes of [mebibyte, 12 * mebibyte, 40 * mebibyte, 100 * mebibyte, gibibyte]) {
            const expectedBytes = freeBytes * 0.85;
            const sizes = chooseSpill({ ...request, freeBytes, expectedBytes, mostBytes: 2 * gibibyte });
            const usable = Math.floor(sizes.spillBytes / sizes.spillBlockBytes) * sizes.spillBlockBytes;
            expect(usable).toBeGreaterThanOrEqual(sizes.spillBytes * 0.9);
        }
    });

    test("leave room in host memory for a table that the result becomes, whatever is spilled", () => {
        const [rows, budget] = [2 ** 25, 1.7 * gibibyte];
        const [file, table] = (["file", "table"] as const).map((sink) =>
            stageOf(planOf(rows, budget, 256 * mebibyte, {}, sink))
        );
        const spilled = ({ sizes }: OutOfCoreStage) => sizes.spillBytes + sizes.diskBlocks * sizes.diskBlockBytes;
        // Three columns of 8 bytes.
        expect(spilled(file!) + rows * 24).toBeGreaterThan(budget);
        expect(spilled(table!) + rows * 24).toBeLessThan(budget);
        expect(table!.sizes.diskBlocks).toBeGreaterThan(0);
    });

    test("hold in memory what the knob says", () => {
        for (const hostSpillBytes of [0, 5, mebibyte]) {
            expect(chooseSpill({ ...request, hostSpillBytes })).toMatchObject({
                spillBytes: hostSpillBytes,
                diskBlocks: 8,
                diskBlockBytes: 4 * mebibyte
            });
        }
    });

    test("the rows that come first stay in memory", () => {
        const spilled = { build: 100, probe: 300 };
        const onDisk = (spillBytes: number, peerBytes = 0): unknown =>
            expectedOnDisk(spilled, { peerBytes, spillBytes, diskBlocks: 8 });
        expect(onDisk(0)).toEqual({ build: 100, probe: 300 });
        expect(onDisk(60)).toEqual({ build: 40, probe: 300 });
        expect(onDisk(150)).toEqual({ build: 0, probe: 250 });
        expect(onDisk(400)).toEqual({ build: 0, probe: 0 });
        expect(onDisk(30, 30)).toEqual(onDisk(60));
        expect(onDisk(0, 500)).toEqual({ build: 0, probe: 0 });
        expect(expectedOnDisk(spilled, { peerBytes: 0, spillBytes: 0, diskBlocks: 0 })).toEqual({ build: 0, probe: 0 });
    });
});

describe("plans", () => {
    test("predict the bytes on disk and what they cost", () => {
        const [ample, tight] = [128 * gibibyte, 8 * gibibyte].map((budget) => planOf(2 ** 30, budget, 4 * gibibyte));
        const [without, stage] = [stageOf(ample!), stageOf(tight!)];
        expect(without.predicted.diskBytes).toBe(0);
        expect(without.predictedSpillBytes).toBe(0);
        const { predicted, sizes } = stage;
        expect(predicted.spilledBytes).toBe(without.predicted.spilledBytes);
        expect(predicted.diskBytes).toBe(predicted.spilledBytes - sizes.spillBytes);
        expect(stage.predictedSpillBytes).toBe(predicted.diskBytes);
        expect(stage.predictedMs).toBeGreaterThan(without.predictedMs);
        expect(stage.memory.tableBytes).toBe(sizes.spillBytes + sizes.diskBlocks * sizes.diskBlockBytes);
        const { inputBytes, tableBytes, outputBytes } = stage.memory;
        expect(inputBytes + tableBytes + outputBytes).toBeLessThan(8 * gibibyte * 0.95);
    });

    test("say so", () => {
        const text = planText(planOf(2 ** 28, 2 * gibibyte, gibibyte) as Plan);
        expect(text).toMatch(/spilled to host memory and disk \(build side/);
        expect(text).toMatch(/disk: [\d.]+ [GM]iB of them, [\d.]+ [GM]iB stay in host memory/);
        const inMemory = planText(planOf(2 ** 20, 2 * gibibyte, 64 * mebibyte) as Plan);
        expect(inMemory).not.toMatch(/disk/);
    });

    test("follow the knob", () => {
        const { predicted, sizes } = stageOf(
            planOf(2 ** 20, 2 * gibibyte, 64 * mebibyte, { hostSpillBytes: 1000, residentShare: 0 })
        );
        expect(sizes.spillBytes).toBe(1000);
        expect(predicted.diskBytes).toBe(predicted.spilledBytes - 1000);
    });
});

describe("plans of group-bys", () => {
    const groupPlan = (rows: number, budgetBytes: number, limitBytes: number, more: object = {}): Plan => {
        const input = inputNode({ k: new Int64(), v: new Int64() }, { rows });
        const aggregates = { n: { count: "*" }, sum: { sum: "v" } };
        const { groups = rows, ...rest } = more as { groups?: number };
        const root = group(input, { keys: ["k"], aggregates, hints: { groups } });
        const query = planQueryOf(root, { budgetBytes, threads: 16, ...rest });
        const plan = planOutOfCore(query, planQuery(query), limitBytes);
        if (plan instanceof NotOnDevice) throw plan;
        return plan;
    };
    const groupStage = (...given: Parameters<typeof groupPlan>): OutOfCoreGroupStage =>
        groupPlan(...given).stages[0] as OutOfCoreGroupStage;

    test("predict the bytes on disk and what they cost", () => {
        const without = groupStage(2 ** 30, 128 * gibibyte, 4 * gibibyte);
        const stage = groupStage(2 ** 30, 8 * gibibyte, 4 * gibibyte);
        expect(without.predicted.diskBytes).toBe(0);
        const { predicted, sizes, memory } = stage;
        expect(sizes).toMatchObject({ diskBlocks: 8, diskBlockBytes: 4 * mebibyte });
        expect(predicted.diskBytes).toBeGreaterThan(gibibyte);
        expect(predicted.diskBytes).toBe(predicted.spilledBytes - sizes.spillBytes);
        expect(stage.predictedSpillBytes).toBe(predicted.diskBytes);
        expect(stage.predictedMs).toBeGreaterThan(without.predictedMs);
        expect(stage.deviceBytes).toBe(without.deviceBytes);
        expect(memory.tableBytes).toBe(sizes.spillBytes + sizes.diskBlocks * sizes.diskBlockBytes);
        expect(memory.inputBytes + memory.tableBytes + memory.outputBytes).toBeLessThan(8 * gibibyte * 0.95);
    });

    test("have a way to disk for groups that nobody expects", () => {
        const { predicted, sizes } = groupStage(2 ** 28, 2 * gibibyte, gibibyte, { groups: 1000 });
        expect([predicted.spilledBytes, predicted.diskBytes, sizes.diskBlocks]).toEqual([0, 0, 8]);
        const table = groupStage(2 ** 28, 128 * gibibyte, gibibyte, { groups: 1000, sink: "table" });
        expect(table.sizes.diskBlocks).toBe(8);
        expect(table.sizes.spillBytes).toBeLessThan(2 * gibibyte);
    });

    test("say so, and follow the knob", () => {
        const text = planText(groupPlan(2 ** 28, 2 * gibibyte, gibibyte));
        expect(text).toMatch(/spilled to host memory and disk/);
        expect(text).toMatch(/disk: [\d.]+ [GM]iB of them, [\d.]+ [GM]iB stay in host memory/);
        expect(planText(groupPlan(2 ** 20, 2 * gibibyte, 64 * mebibyte))).not.toMatch(/disk/);
        const debug = { hostSpillBytes: 1000, residentShare: 0 };
        const { predicted, sizes } = groupStage(2 ** 20, 2 * gibibyte, 64 * mebibyte, { debug });
        expect(sizes.spillBytes).toBe(1000);
        expect(predicted.diskBytes).toBe(predicted.spilledBytes - 1000);
    });
});
