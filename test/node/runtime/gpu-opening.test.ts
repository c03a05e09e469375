// SPDX-License-Identifier: Apache-2.0
// When a GPU is opened with device "auto": once the queries of the process would have saved more time on it than it
// takes to open, in the background, while queries run on the CPU.
import { Int32 } from "apache-arrow";
import { describe, expect, test, vi } from "vitest";
import { loadProfile } from "../../../src/machine/profile.js";
import type { Plan } from "../../../src/plan/plan.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOnDevice } from "../../../src/planner/plan-device.js";
import { planQuery, queryStartMs, type PlanQuery } from "../../../src/planner/plan-query.js";
import { Savings } from "../../../src/runtime/gpu-opening.js";
import { deviceWith, failureOf, type GpuShape } from "../../support/made-up-gpu.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

const { deviceOpenMs, deviceQueryStartMs } = loadProfile();
const roomy = 2 ** 37;
const root = join(
    inputNode({ k: new Int32() }, { rows: 1e6, name: "l" }),
    inputNode({ k: new Int32() }, { rows: 1e6, name: "r" }),
    { on: "k" }
);

/** A query that would save so much on a GPU, and its plan for the CPU. */
function saving(ms: number, more: Partial<PlanQuery> = {}): [PlanQuery, Plan] {
    const query = planQueryOf(root, { budgetBytes: 2 ** 36, ...more });
    const host = planQuery(query);
    const made = planOnDevice(query, host, 0);
    if (made instanceof NotOnDevice) throw made;
    const stagesMs = made.plan.predictedMs - deviceQueryStartMs + ms;
    return [query, { ...host, predictedMs: stagesMs + queryStartMs(host) }];
}

/** A GPU that opens when it is told to. */
function slowGpu(shape: GpuShape = {}) {
    const open: (() => void)[] = [];
    const openDevice = async () => {
        await new Promise<void>((resolve) => open.push(resolve));
        return { limitBytes: roomy };
    };
    return {
        open: () => open.splice(0).forEach((resolve) => resolve()),
        shape: { ...shape, overrides: { openDevice } }
    };
}

const settle = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

describe("with device auto the GPU", () => {
    test("is opened when queries would have saved more than that takes, the last one included", async () => {
        const { open, shape } = slowGpu();
        const { device, countOf } = deviceWith(shape);
        const third = deviceOpenMs / 3;
        for (let i = 0; i < 3; i++) {
            const plan = await device.choose(...saving(third));
            expect(plan.device).toBe("cpu");
            expect(plan.deviceReason).toMatch(/, but to open it takes 640 ms, and queries of this process would have/);
            expect(countOf("openDevice")).toBe(0);
        }
        const begins = await device.choose(...saving(1));
        expect(begins.device).toBe("cpu");
        expect(begins.deviceReason).toMatch(/it is being opened in the background from now on: .* saved 641 ms/);
        await settle();
        expect(countOf("openDevice")).toBe(1);
        const meanwhile = await device.choose(...saving(third / 2));
        expect(meanwhile).toMatchObject({ device: "cpu" });
        expect(meanwhile.deviceReason).toMatch(/^predicted times .*, but the GPU is still being opened$/);
        open();
        await settle();
        expect(await device.choose(...saving(1))).toMatchObject({ device: "gpu", deviceReason: null });
        expect([countOf("openDevice"), countOf("lookForDevices")]).toEqual([1, 1]);
    });

    test("is waited for by a query that is faster all the same, the sooner it will be open the rather", async () => {
        const { open, shape } = slowGpu();
        const { device, countOf } = deviceWith(shape);
        const clock = vi.spyOn(performance, "now").mockReturnValue(1000);
        try {
            const waiting = device.choose(...saving(deviceOpenMs + 1));
            await settle();
            expect(countOf("openDevice")).toBe(1);
            expect((await device.choose(...saving(deviceOpenMs - 1))).device).toBe("cpu");
            clock.mockReturnValue(1000 + deviceOpenMs / 2);
            const later = device.choose(...saving(deviceOpenMs - 1));
            open();
            expect([(await waiting).device, (await later).device]).toEqual(["gpu", "gpu"]);
            expect(countOf("openDevice")).toBe(1);
        } finally {
            clock.mockRestore();
        }
    });

    test("is not opened by somebody who only asks for a plan", async () => {
        const { device, fake } = deviceWith({});
        for (let i = 0; i < 9; i++) {
            const { deviceReason } = await device.choose(...saving(deviceOpenMs / 2), false);
            expect(deviceReason).toMatch(
                /to open it takes 640 ms, and queries .* would have saved 320 ms on it so far$/
            );
        }
        await device.choose(...saving(deviceOpenMs / 2));
        const next = await device.choose(...saving(deviceOpenMs / 2 + 1), false);
        expect(next.deviceReason).toMatch(/it is opened by the next run: .* 641 ms on it so far$/);
        expect(fake.calls).toEqual([]);
    });

    test("counts only what queries would save there", async () => {
        const savings = new Savings();
        const { device, fake } = deviceWith({}, {}, 2 ** 30, savings);
        const [query, host] = saving(-1);
        expect((await device.choose(query, host)).deviceReason).toMatch(/^predicted times .* on a GPU$/);
        expect(savings.ms).toBe(0);
        expect(fake.calls).toEqual([]);
    });

    test("is opened sooner where queries took longer on the CPU than predicted", async () => {
        const { device, countOf } = deviceWith({ limitBytes: roomy });
        const slow = await device.choose(...saving(deviceOpenMs - 2));
        device.ran(slow, slow.predictedMs + 1);
        await settle();
        expect(countOf("openDevice")).toBe(0);
        const slower = await device.choose(...saving(0.5));
        device.ran(slower, slower.predictedMs + 1);
        await settle();
        expect(countOf("openDevice")).toBe(1);
    });

    test("is opened later where they took less", async () => {
        const savings = new Savings();
        const { device, countOf } = deviceWith({ limitBytes: roomy }, {}, 2 ** 30, savings);
        const fast = await device.choose(...saving(deviceOpenMs - 2));
        device.ran(fast, fast.predictedMs - 100);
        expect(savings.ms).toBeCloseTo(deviceOpenMs - 102);
        device.ran(fast, 0);
        expect(savings.ms).toBe(0);
        await device.choose(...saving(100));
        await settle();
        expect(countOf("openDevice")).toBe(0);
    });

    test("does not count most of the time of a query that waited for its files", async () => {
        const savings = new Savings();
        const { device } = deviceWith({}, {}, 2 ** 30, savings);
        const [query, host] = saving(1);
        const plan = await device.choose(query, host);
        device.ran(plan, 1e9);
        expect(savings.ms).toBeCloseTo(1 + host.predictedMs);
        const unknown = { ...plan };
        device.ran(unknown, 1e9);
        expect(savings.ms).toBeCloseTo(1 + host.predictedMs);
    });

    test("is paid for by the queries of all runtimes, each opening anew", async () => {
        const savings = new Savings();
        const runtime = () => deviceWith({ limitBytes: roomy }, {}, 2 ** 30, savings);
        const half = deviceOpenMs / 2 + 1;
        const [first, second, third] = [runtime(), runtime(), runtime()];
        await first.device.choose(...saving(half));
        await second.device.choose(...saving(half));
        await settle();
        expect([first.countOf("openDevice"), second.countOf("openDevice")]).toEqual([0, 1]);
        expect(savings.ms).toBeCloseTo(2);
        await third.device.choose(...saving(half));
        await settle();
        expect(third.countOf("openDevice")).toBe(0);
        await third.device.choose(...saving(half));
        await settle();
        expect(third.countOf("openDevice")).toBe(1);
    });

    test("is spoken of nowhere on a machine that shows no sign of one", async () => {
        const { device, fake } = deviceWith({}, { isPresent: false });
        const [query, host] = saving(1e9);
        expect(await device.choose(query, host)).toBe(host);
        device.warm();
        expect(fake.calls).toEqual([]);
    });

    test("that cannot be used is not looked for again, and the reason is told", async () => {
        const { device, countOf } = deviceWith({ gpus: [], unavailable: "the driver is broken" });
        await device.choose(...saving(deviceOpenMs - 1));
        await device.choose(...saving(2));
        await settle();
        for (const ms of [1, 10 * deviceOpenMs]) {
            const plan = await device.choose(...saving(ms));
            expect(plan).toMatchObject({ device: "cpu", deviceReason: "the driver is broken" });
        }
        const last = await device.choose(...saving(1));
        device.ran(last, 1e9);
        await settle();
        expect(countOf("lookForDevices")).toBe(1);
    });

    test("whose memory others hold is tried again when as much would have been saved once more", async () => {
        const openDevice = async () => Promise.reject(failureOf("OUT_OF_MEMORY", { tier: "device" }));
        const { device, countOf } = deviceWith({ overrides: { openDevice } });
        const attempts: number[] = [];
        for (let i = 0; i < 6; i++) {
            expect((await device.choose(...saving(deviceOpenMs / 2 + 1))).device).toBe("cpu");
            await settle();
            attempts.push(countOf("openDevice"));
        }
        expect(attempts).toEqual([0, 1, 1, 2, 2, 3]);
    });
});

describe("a runtime that is to be warm", () => {
    test.each(["auto", "gpu"] as const)("opens its GPU at once with device %s", async (wanted) => {
        const { device, countOf } = deviceWith({ limitBytes: roomy }, { device: wanted });
        device.warm();
        await settle();
        expect(countOf("openDevice")).toBe(1);
        expect(await device.choose(...saving(1))).toMatchObject({ device: "gpu" });
        expect(countOf("openDevice")).toBe(1);
    });

    test("says in its queries why there is no GPU", async () => {
        const { device } = deviceWith({ gpus: [], unavailable: "no driver" });
        device.warm();
        await settle();
        expect(await device.choose(...saving(1))).toMatchObject({ device: "cpu", deviceReason: "no driver" });
    });

    test("opens none with device cpu", () => {
        const { device, fake } = deviceWith({}, { device: "cpu" });
        device.warm();
        expect(fake.calls).toEqual([]);
    });
});

describe("closing a runtime", () => {
    test("waits for an opening that is under way", async () => {
        const { open, shape } = slowGpu();
        const { device } = deviceWith(shape);
        device.warm();
        await settle();
        let closed = false;
        const closing = device.close().then(() => (closed = true));
        await settle();
        expect(closed).toBe(false);
        open();
        await closing;
    });

    test("opens nothing that was only looked for by then, nor anything later", async () => {
        let found = (): void => undefined;
        const lookForDevices = async () => await new Promise<void>((resolve) => (found = resolve));
        const { device, countOf } = deviceWith({ overrides: { lookForDevices } });
        device.warm();
        const closing = device.close();
        found();
        await closing;
        device.warm();
        await settle();
        expect([countOf("lookForDevices"), countOf("openDevice")]).toEqual([1, 0]);
    });
});
