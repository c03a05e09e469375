// SPDX-License-Identifier: Apache-2.0
// What the stages of a plan hand to the engine, and which of its errors ask for another plan.
import { describe, expect, test } from "vitest";
import { Job } from "../../../src/execute/job.js";
import { PlanRun, wrongEstimate } from "../../../src/execute/plan-run.js";
import { ProgressTracker } from "../../../src/execute/progress-tracker.js";
import type { Knobs } from "../../../src/model/debug-knobs.js";
import type { NativeJoinSpec } from "../../../src/native/binding.js";
import { decisions } from "../../../src/planner/decide.js";
import { FakeBinding } from "../../support/fake-binding.js";
import { fakeRuntime } from "../../support/fake-runtime.js";

describe("a join of partitions", () => {
    async function specOf(debug: Knobs): Promise<NativeJoinSpec> {
        const specs: NativeJoinSpec[] = [];
        const joinPartitions = async (...[, , , spec]: [unknown, unknown, unknown, NativeJoinSpec]) => {
            specs.push(spec);
            return 42;
        };
        const { join } = fakeRuntime({ joinPartitions: joinPartitions }, { algorithm: "radix", ...debug });
        expect(await join.count()).toBe(42);
        return specs[0]!;
    }

    test("builds its tables at once where memory has room for them", async () => {
        const { tableBytes, buildChunkBytes, schedule } = await specOf({ radixBits: 2 });
        expect(buildChunkBytes).toBe(tableBytes);
        // Each partition with rows, and those without keys are none of an inner join's.
        expect([...schedule].sort()).toEqual([0, 1, 2, 3]);
    });

    test("builds them in chunks where that is wanted", async () => {
        const { tableBytes, buildChunkBytes } = await specOf({ buildChunkBytes: 4096 });
        expect(buildChunkBytes).toBe(4096);
        expect(tableBytes).toBeGreaterThan(4096);
    });
});

test("an array join reads both relations where they lie, and closes them", async () => {
    const specs: unknown[][] = [];
    const joinArray = async (...given: unknown[]): Promise<number> => {
        specs.push(given);
        return 7;
    };
    const dense = async () => ({
        ...{ rows: 1000, nulls: 0, min: 0n, max: 999n },
        ...{ sampledRows: 1000, sampledDistinct: 1000, heaviestShare: 0 }
    });
    const { fake, join } = fakeRuntime({ joinArray: joinArray, keyStatistics: dense }, { algorithm: "array" });
    expect(await join.count()).toBe(7);
    const [, build, , probe, , spec, sink] = specs[0]!;
    expect([build, probe]).toEqual([{ kind: "source" }, { kind: "source" }]);
    expect(build).not.toBe(probe);
    // Slots for the keys that were sampled, and for some around them.
    expect(BigInt.asIntN(64, (spec as { firstKey: bigint }).firstKey)).toBeLessThanOrEqual(0n);
    expect(sink).toEqual({ kind: "sink" });
    expect(fake.leftOpen).toEqual(["engine"]);
});

test("an error asks for another plan by its reason alone", () => {
    for (const reason of ["tableFull", "setFull", "notDense"])
        expect(wrongEstimate({ details: { reason } })).toBe(reason);
    for (const error of [
        null,
        undefined,
        {},
        { details: {} },
        { details: { reason: "disk" } },
        new Error("tableFull")
    ]) {
        expect(wrongEstimate(error)).toBeUndefined();
    }
});

test.each([
    ["no partition set 3", { kind: "partition", set: 3, input: 0 }],
    ["set 3 is not filled", { kind: "join", build: 3, probe: 4 }],
    ["set 3 is not filled", { kind: "group", set: 3 }],
    ["Input 5 of the plan is not open", { kind: "arrayJoin", buildInput: 5, probeInput: 6 }],
    ["Input 0 of the plan is not open", { kind: "arrayJoin", buildInput: 0, probeInput: 6 }]
])("a plan of stages that do not fit is an error of ours: %s", async (message, stage) => {
    const fake = new FakeBinding();
    const job = new Job(fake.binding, undefined as never, undefined);
    const plan = { sets: [], stages: [stage], inputs: [] } as never;
    const tracker = new ProgressTracker(() => job.progress(), undefined);
    const openSink = (): never => undefined as never;
    const streams = { began: () => undefined, ended: () => Promise.resolve() };
    const inner = undefined as never;
    const parts = {
        job,
        plan,
        tracker,
        decisions,
        inputs: [{} as never],
        sources: new Map(),
        openSink,
        streams,
        inner
    };
    await expect(new PlanRun(parts).run()).rejects.toMatchObject({
        code: "INTERNAL",
        message: expect.stringContaining(message) as string
    });
    expect(fake.leftOpen).toEqual([]);
});
