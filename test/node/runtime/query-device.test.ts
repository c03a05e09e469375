// SPDX-License-Identifier: Apache-2.0
// Where queries run: from the user's wish, the predicted times and the memory of the GPU, with a made-up one.
import { Field, Int32, List } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { loadProfile } from "../../../src/machine/profile.js";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOnDevice, type DevicePlan } from "../../../src/planner/plan-device.js";
import { planQuery, queryStartMs, type PlanQuery } from "../../../src/planner/plan-query.js";
import type { DeviceOptions } from "../../../src/runtime/query-device.js";
import { deviceWith, failureOf, nativeDevice, type GpuShape } from "../../support/made-up-gpu.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const million = 1_000_000;
const gibibyte = 2 ** 30;
const roomy = 2 ** 37;
const { deviceOpenMs } = loadProfile();
const columns = { k: new Int32(), a: new Int32() };
const relation = (rows: number, name = "t"): LogicalNode => inputNode(columns, { rows, name });
/** A stream with a column of lists, which are nowhere to be gathered from. */
const listStream = (): LogicalNode => {
    const lists = { k: columns.k, l: new List(new Field("item", columns.k, true)) };
    return inputNode(lists, { rows: million, name: "l", streamed: true });
};
const joined = (rows = 100 * million, options = {}): LogicalNode =>
    join(relation(rows, "l"), relation(rows, "r"), { on: "k", ...options });
const grouped = (child: LogicalNode): LogicalNode => group(child, { keys: ["k"], aggregates: { a: { max: "a" } } });
/** Needs its tables in GPU memory. */
/** What groups a table in GPU memory and nothing else. */
const tabled = (child: LogicalNode): LogicalNode =>
    group(child, { keys: ["k"], aggregates: { a: { max: "a" } }, algorithm: "pgb-tr" });

/** A query and its plan for the CPU, whose stages are predicted to take so long. */
function asked(root: LogicalNode, ms: number, more: Partial<PlanQuery> = {}): [PlanQuery, Plan] {
    const query = planQueryOf(root, { budgetBytes: 64 * gibibyte, ...more });
    const plan = planQuery(query);
    return [query, { ...plan, predictedMs: ms + queryStartMs(plan) }];
}

/** What the planner makes for the GPU; 0: its memory is not known yet. */
function madeOf([query, host]: [PlanQuery, Plan], limitBytes: number): DevicePlan {
    const known = { ...query, coherentDevice: false, multiprocessors: 132, computeMajor: 9, measuredDevice: false };
    const made = planOnDevice(limitBytes === 0 ? query : known, host, limitBytes);
    if (made instanceof NotOnDevice) throw made;
    return made;
}

/** What counts against a plan for the CPU: queries start on either device. */
const comparedMs = ({ plan }: DevicePlan): number => plan.predictedMs - loadProfile().deviceQueryStartMs;

/** With the GPU open, since an earlier query wanted it. */
async function opened(shape: GpuShape, options: Partial<DeviceOptions> = {}) {
    const made = deviceWith(shape, options);
    await made.device.choose(...asked(joined(million), 1e9, { debug: { gpu: true } }));
    expect(made.countOf("openDevice")).toBe(1);
    return made;
}

describe("with device auto a query runs", () => {
    test("on the CPU if an input of a GPU, without any rows, would take as long", async () => {
        const { device, fake } = deviceWith({ limitBytes: roomy });
        const profile = { ...loadProfile(), deviceInputStartMs: 14 };
        const plan = await device.choose(...asked(joined(), 14, { profile }));
        expect(plan).toMatchObject({ device: "cpu", deviceReason: "the query is a small one" });
        const { deviceReason } = await device.choose(...asked(joined(), 14.01, { profile }));
        expect(deviceReason).toMatch(/^predicted times are 14 ms on the CPU against .* on a GPU$/);
        expect(fake.calls).toEqual([]);
    });

    test("on the GPU if that is predicted to be faster although it waits for the GPU, else on the CPU", async () => {
        const fresh = deviceWith({ limitBytes: roomy });
        const predictedMs = comparedMs(madeOf(asked(joined(), 1), 0));
        const even = await fresh.device.choose(...asked(joined(), predictedMs + deviceOpenMs));
        expect(even.device).toBe("cpu");
        expect(even.deviceReason).toMatch(
            /^predicted times are .* on the CPU against .* on a GPU, but to open it takes 640 ms, and queries of this /
        );
        expect(fresh.fake.calls).toEqual([]);
        const slower = await deviceWith({ limitBytes: roomy }).device.choose(
            ...asked(joined(), predictedMs + deviceOpenMs + 0.01)
        );
        expect(slower).toMatchObject({ device: "gpu", deviceReason: null });
        expect(slower.deviceMemory?.limitBytes).toBe(roomy);
    });

    test("on a GPU that is open by its predicted time alone, be the query ever so small", async () => {
        const { device, countOf } = await opened({ limitBytes: roomy });
        const predictedMs = comparedMs(madeOf(asked(joined(1000), 1), roomy));
        expect(predictedMs).toBeLessThan(20);
        const even = await device.choose(...asked(joined(1000), predictedMs));
        expect(even.device).toBe("cpu");
        expect(even.deviceReason).toMatch(/^predicted times .* on a GPU$/);
        expect((await device.choose(...asked(joined(1000), predictedMs + 0.01))).device).toBe("gpu");
        expect([countOf("lookForDevices"), countOf("openDevice")]).toEqual([1, 1]);
    });

    test("on the CPU if it is nothing for a GPU, which is not looked for then", async () => {
        const { device, fake } = deviceWith({ limitBytes: roomy });
        const streamed = join(listStream(), relation(million, "r"), { on: "k" });
        const plan = await device.choose(...asked(streamed, 1e6));
        expect(plan).toMatchObject({ device: "cpu", deviceReason: expect.stringMatching(/stream/) as string });
        const named = join(listStream(), relation(million, "r"), { on: "k", algorithm: "smj-ur" });
        expect((await device.choose(...asked(named, 1e6))).deviceReason).toMatch(/`l` is nested/);
        expect(fake.calls).toEqual([]);
    });

    test("on the GPU whatever the predicted times if the user named one of its algorithms", async () => {
        const { device } = deviceWith({ limitBytes: roomy });
        const named = joined(million, { algorithm: "smj-ur" });
        expect(await device.choose(...asked(named, 0.001))).toMatchObject({ device: "gpu", deviceReason: null });
        expect(await device.choose(...asked(grouped(named), 0.001))).toMatchObject({ device: "gpu" });
    });

    test("out of core, or not at all, if the user named a join that is", async () => {
        const staged = joined(1000, { algorithm: "staged" });
        const plan = await deviceWith({ limitBytes: roomy }).device.choose(...asked(staged, 0.001));
        expect(plan.stages).toMatchObject([{ kind: "deviceOutOfCoreJoin", joinAlgorithm: "staged", chosenBy: "user" }]);
        const tree = await deviceWith({ limitBytes: roomy }).device.choose(...asked(grouped(staged), 0.001));
        expect(tree.stages.map(({ kind }) => kind)).toEqual(["deviceOutOfCoreTree"]);
        const nested = (algorithm: string): LogicalNode =>
            join(staged, relation(1000, "x"), { on: "k", select: ["k"], algorithm });
        const both = nested("triton");
        const refused = deviceWith({ limitBytes: roomy }).device.choose(...asked(both, 1));
        await expect(refused).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            details: { option: "algorithm", reason: expect.stringMatching(/how many rows `rows 0` has/) as string }
        });
        const mixed = asked(nested("phj-tr"), 1);
        await expect(deviceWith({ limitBytes: roomy }).device.choose(...mixed)).rejects.toThrow(
            /"phj-tr" was asked for/
        );
        const tiny = deviceWith({ limitBytes: 2 ** 20 }).device.choose(...asked(staged, 1));
        await expect(tiny).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", details: { tier: "device" } });
        const none = deviceWith({ gpus: [] }).device.choose(...asked(staged, 1));
        await expect(none).rejects.toMatchObject({ code: "NO_DEVICE", details: { algorithm: "staged" } });
        await expect(none).rejects.toThrow(/`algorithm` "staged" runs on a GPU: .*; use "auto" or "cpu-radix"/);
    });

    test("on the CPU engine, whatever the device, if the user named its join", async () => {
        const root = joined(100 * million, { algorithm: "cpu-radix" });
        for (const device of ["auto", "gpu"] as const) {
            const made = deviceWith({ limitBytes: roomy }, { device });
            const plan = await made.device.choose(...asked(root, 1e9));
            expect(plan).toMatchObject({ device: "cpu", deviceReason: expect.stringContaining("cpu-radix") as string });
            expect(plan.stages.map(({ kind }) => kind)).toEqual(["partition", "partition", "join"]);
            expect(made.fake.calls).toEqual([]);
        }
    });

    test("out of core if that is predicted to be faster, also once the memory of the GPU is known", async () => {
        const slow = loadProfile().deviceCopyInBytesPerMs / 10;
        const slowCopies = { deviceCopyInBytesPerMs: slow, deviceCopyBothBytesPerMs: slow };
        const profile = { ...loadProfile(), deviceOpenMs: 1, ...slowCopies };
        for (const root of [joined(), grouped(relation(400 * million))]) {
            const request = asked(root, 1, { profile });
            const made = madeOf(request, gibibyte);
            const { plan: outOfCore } = made;
            expect(outOfCore.stages.map(({ kind }) => kind)).toEqual([expect.stringMatching(/^deviceOutOfCore/)]);
            const ms = comparedMs(made);
            expect(ms).toBeGreaterThan(comparedMs(madeOf(request, 0)) + 1);
            const chosen = async (host: number, more: Partial<PlanQuery> = {}): Promise<Plan> =>
                await deviceWith({ limitBytes: gibibyte }).device.choose(...asked(root, host, { profile, ...more }));
            const even = await chosen(ms);
            expect(even.device).toBe("cpu");
            expect(even.deviceReason).toMatch(/^predicted times .* on a GPU$/);
            expect(await chosen(ms + 0.01)).toMatchObject({ device: "gpu", deviceReason: null });
            expect((await chosen(ms, { debug: { outOfCore: true } })).device).toBe("gpu");
            expect((await chosen(1, { debug: { gpu: true } })).device).toBe("gpu");
        }
    });

    test("on the CPU if it does not fit the GPU's memory, nor can run there out of core", async () => {
        const chain = tabled(joined());
        const request = asked(chain, 1, { debug: { gpu: true } });
        const { estimatedBytes } = madeOf(request, roomy).plan.deviceMemory!;
        const fits = await deviceWith({ limitBytes: estimatedBytes }).device.choose(...request);
        expect(fits).toMatchObject({ device: "gpu", deviceMemory: { limitBytes: estimatedBytes } });
        const tight = madeOf(request, estimatedBytes - 1);
        const left = await deviceWith({ limitBytes: estimatedBytes - 1 }).device.choose(...request);
        expect(left.device).toBe("cpu");
        expect(left.deviceReason).toMatch(/the query needs .* of GPU memory, .* are allowed, and out of core: /);
        expect(left.deviceReason).toContain(tight.notOutOfCore);
    });
});

describe("with device auto a GPU", () => {
    const wanted = asked(joined(million), 1, { debug: { gpu: true } });

    test.each([
        ["that the plugin has no code for", { gpus: [nativeDevice({ reason: "too old" })] }, "too old"],
        ["that is not there", { gpus: [], unavailable: "no driver" }, "no driver"],
        ["of which nobody knows why it is missing", { gpus: [] }, "none was found"]
    ])("%s leaves the query to the CPU, with the reason", async (_, shape, reason) => {
        const plan = await deviceWith(shape).device.choose(...wanted);
        expect(plan).toMatchObject({ device: "cpu", deviceReason: reason });
        const { device } = deviceWith(shape, { device: "gpu" });
        const details = { option: "device", reason };
        await expect(device.choose(...wanted)).rejects.toMatchObject({ code: "NO_DEVICE", details });
    });

    test("whose memory others hold is tried again by the next query, and one that is open is not", async () => {
        let free = false;
        const openDevice = async () => {
            if (!free) throw failureOf("OUT_OF_MEMORY", { tier: "device" });
            return { limitBytes: roomy };
        };
        const { device, countOf } = deviceWith({ overrides: { openDevice } });
        expect(await device.choose(...wanted)).toMatchObject({ device: "cpu", deviceReason: /made up/ });
        expect(device.isLikely({})).toBe(false);
        free = true;
        expect((await device.choose(...wanted)).device).toBe("gpu");
        expect((await device.choose(...wanted)).device).toBe("gpu");
        expect(countOf("openDevice")).toBe(2);
        expect(device.isLikely({})).toBe(true);
    });

    test("that fails to open for another reason fails the query", async () => {
        const openDevice = async () => Promise.reject(failureOf("INTERNAL"));
        const { device } = deviceWith({ overrides: { openDevice } });
        await expect(device.choose(...wanted)).rejects.toMatchObject({ code: "INTERNAL" });
    });
});

describe("with device gpu", () => {
    const onGpu = { device: "gpu" } as const;

    test("queries run there, whatever the predicted times", async () => {
        const { device } = deviceWith({ limitBytes: roomy }, onGpu);
        expect((await device.choose(...asked(joined(1000), 0.001))).device).toBe("gpu");
    });

    test("what is nothing for a GPU is refused before one is looked for", async () => {
        const { device, fake } = deviceWith({}, onGpu);
        const streamed = join(listStream(), relation(million, "r"), { on: "k" });
        const details = { option: "device", reason: expect.stringMatching(/stream/) as string };
        await expect(device.choose(...asked(streamed, 1))).rejects.toMatchObject({ code: "UNSUPPORTED_TYPE", details });
        expect(fake.calls).toEqual([]);
    });

    test("a query whose inputs and least copies just fit runs, and a byte less is refused with a size", async () => {
        const request = asked(tabled(joined()), 1);
        const { leastBytes } = madeOf(request, roomy);
        const { notOutOfCore } = madeOf(request, leastBytes);
        const chosen = async (limitBytes: number): Promise<Plan> =>
            await deviceWith({ limitBytes }, onGpu).device.choose(...request);
        expect(await chosen(leastBytes)).toMatchObject({ device: "gpu", deviceReason: null });
        const error = (await chosen(leastBytes - 1).catch((thrown: unknown) => thrown)) as Error;
        const limits = { freeBytes: leastBytes - 1, limitBytes: leastBytes - 1 };
        const details = { tier: "device", option: "memory.device", ...limits };
        expect(error).toMatchObject({ code: "BUDGET_TOO_SMALL", details });
        expect(error.message).toContain(`(out of core: ${notOutOfCore})`);
    });

    test("what was to run out of core is refused with the size that would do, or the reason", async () => {
        const debug = { outOfCore: true };
        const tiny = deviceWith({ limitBytes: 2 ** 20 }, onGpu).device;
        const error = (await tiny.choose(...asked(joined(), 1, { debug })).catch((thrown: unknown) => thrown)) as Error;
        const details = { tier: "device", limitBytes: 2 ** 20, wantedBytes: expect.any(Number) as number };
        expect(error).toMatchObject({ code: "BUDGET_TOO_SMALL", details });
        expect(error.message).not.toContain("out of core");
        const chain = deviceWith({ limitBytes: roomy }, onGpu).device.choose(...asked(tabled(joined()), 1, { debug }));
        await expect(chain).rejects.toMatchObject({ code: "UNSUPPORTED_TYPE", details: { option: "device" } });
    });

    test("plans are made with the speeds of its name, or with those that were measured here", async () => {
        const profile = { ...loadProfile(), deviceCopyBytesPerMs: loadProfile().deviceCopyBytesPerMs / 100 };
        const gpus = [nativeDevice({ name: "NVIDIA H200" })];
        const msWith = async (options: Partial<DeviceOptions>, shape: GpuShape = { gpus }): Promise<number> => {
            const { device } = deviceWith({ ...shape, limitBytes: roomy }, { ...onGpu, ...options });
            return (await device.choose(...asked(joined(), 1, { profile }))).predictedMs;
        };
        const [own, measured] = [await msWith({}), await msWith({ isMeasured: true })];
        expect(measured).toBeGreaterThan(10 * own);
        expect(await msWith({ isMeasured: false })).toBe(own);
        expect(await msWith({}, {})).toBe(measured);
    });
});

test("with device cpu nothing is asked of a GPU", async () => {
    const { device, fake } = deviceWith({ limitBytes: roomy }, { device: "cpu" });
    const [query, host] = asked(joined(), 1e9, { debug: { gpu: true } });
    expect(await device.choose(query, host)).toBe(host);
    expect(fake.calls).toEqual([]);
});
