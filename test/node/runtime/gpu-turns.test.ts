// SPDX-License-Identifier: Apache-2.0
// What a runtime keeps of its GPU: memory that is asked for when it is opened, and turns, of which one query has one.
import { Int32, Int64 } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { besideBytes } from "../../../src/planner/streaming/host-memory.js";
import { outOfCoreHostBytes } from "../../../src/planner/plan-out-of-core.js";
import { planQuery, QueryPlanner, type PlanQuery } from "../../../src/planner/plan-query.js";
import type { Plan, SinkKind } from "../../../src/plan/plan.js";
import { isMemoryTaken } from "../../../src/runtime/device-admission.js";
import { tablesHostBytes } from "../../../src/planner/plan-device.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { isCoherent, usableGpu } from "../../../src/runtime/opened-gpu.js";
import { deviceWith, failureOf, nativeDevice } from "../../support/made-up-gpu.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";

const million = 1_000_000;
const mebibyte = 2 ** 20;
const gibibyte = 2 ** 30;
const joinOf = (rows: number) =>
    join(inputNode({ k: new Int32() }, { rows, name: "l" }), inputNode({ k: new Int32() }, { rows, name: "r" }), {
        on: "k"
    });
/** Of rows of 16 bytes. */
const grouped = (rows: number, groups: number) =>
    group(inputNode({ k: new Int64(), a: new Int64() }, { rows }), {
        keys: ["k"],
        aggregates: { a: { sum: "a" } },
        hints: { groups }
    });
const queryOf = (rows: number, more: Partial<PlanQuery> = {}): PlanQuery => {
    return planQueryOf(joinOf(rows), { budgetBytes: 64 * gibibyte, ...more });
};

/** Opens its GPU. */
async function open({ device }: ReturnType<typeof deviceWith>): Promise<void> {
    const query = queryOf(1000, { debug: { gpu: true } });
    expect((await device.choose(query, planQuery(query))).device).toBe("gpu");
}

describe("a GPU", () => {
    test("that queries use is the first one that the plugin has code for", () => {
        const [old, first, second] = [nativeDevice({ reason: "too old" }), nativeDevice(), nativeDevice()];
        expect(usableGpu([old, first, second])).toBe(first);
        expect([usableGpu([old]), usableGpu([])]).toEqual([undefined, undefined]);
    });

    test("is coherent if its kernels read pageable memory through the page tables of the host", () => {
        const of = (pageableAccess: boolean, hostPageTables: boolean): boolean =>
            isCoherent(nativeDevice({ pageableAccess, hostPageTables }));
        expect([of(true, true), of(true, false), of(false, true), of(false, false)]).toEqual([
            ...[true, false, false, false]
        ]);
        expect(isCoherent(undefined)).toBe(false);
    });

    test.each([
        ["64 MiB", 64 * mebibyte],
        ["32 GiB", 32 * gibibyte]
    ])("pins 48 MiB beside a host budget of %s, whatever its size", async (_, hostBytes) => {
        const keptPinnedBytes = 48 * mebibyte;
        const specs: unknown[] = [];
        const openDevice = async (engine: unknown, spec: unknown) => {
            specs.push([engine, spec]);
            return { limitBytes: 3 * gibibyte, peerBytes: 0 };
        };
        const gpus = [nativeDevice({ reason: "too old" }), nativeDevice({ ordinal: 5 })];
        const pinnedBytes = hostBytes + keptPinnedBytes;
        for (const [option, memoryBytes] of [
            [undefined, 0],
            [7 * mebibyte, 7 * mebibyte]
        ] as const) {
            const made = deviceWith({ gpus, overrides: { openDevice } }, { memoryBytes: option }, hostBytes);
            await open(made);
            const none = { peerBytes: 0, peerOrdinal: -1 };
            const spec = { ordinal: 5, memoryBytes, pinnedBytes, keptPinnedBytes, ...none };
            expect(specs.at(-1)).toEqual(["engine", spec]);
        }
        const peer = { peerBytes: gibibyte, peerOrdinal: 2 };
        await open(deviceWith({ gpus, overrides: { openDevice } }, { memoryBytes: undefined, ...peer }, hostBytes));
        expect(specs.at(-1)).toEqual(["engine", expect.objectContaining(peer)]);
    });

    test("tells of the most memory in use, once it is open", async () => {
        const made = deviceWith({});
        expect(made.device.peakBytes()).toBe(0);
        expect(made.fake.calls).toEqual([]);
        await open(made);
        expect(made.device.peakBytes()).toBe(77);
    });

    test("is likely to run the next query if it was asked for, is open or was wanted for that query", async () => {
        const likely = (device: "auto" | "cpu" | "gpu", debug = {}): boolean =>
            deviceWith({}, { device }).device.isLikely(debug);
        expect([likely("gpu"), likely("auto"), likely("cpu")]).toEqual([true, false, false]);
        const wanted = [{ gpu: true }, { outOfCore: true }];
        expect(wanted.map((debug) => likely("auto", debug))).toEqual([true, true]);
        expect(wanted.map((debug) => likely("cpu", debug))).toEqual([false, false]);
        expect(likely("auto", { gpu: false, outOfCore: false })).toBe(false);
        const made = deviceWith({});
        await open(made);
        expect(made.device.isLikely({})).toBe(true);
        expect([made.device.isAutomatic, deviceWith({}, { device: "gpu" }).device.isAutomatic]).toEqual([true, false]);
    });
});

describe("host memory that a query could use out of core", () => {
    const onGpu = { device: "gpu" } as const;
    const query = queryOf(200 * million, { budgetBytes: 4 * gibibyte });
    /** Rows on their way to the GPU, and what the plan has beside them. */
    const expected = (
        limitBytes: number | undefined,
        coherentDevice = false,
        more: Partial<PlanQuery> = {}
    ): number => {
        const asked = { ...query, ...more };
        const host = planQuery(asked);
        const outOfCore = outOfCoreHostBytes({ ...asked, coherentDevice }, limitBytes) + besideBytes(host);
        return Math.max(outOfCore, tablesHostBytes(asked, host));
    };
    const coherent = nativeDevice({ pageableAccess: true, hostPageTables: true });
    const planner = new QueryPlanner(query);

    test("is what its rows take there beside what any plan has", () => {
        expect(besideBytes(planQuery(query))).toBeGreaterThan(mebibyte);
        expect(deviceWith({}, onGpu).device.wantedBytes(planner)).toBe(expected(undefined));
        const counted = new QueryPlanner({ ...query, sink: "count" });
        expect(deviceWith({}, onGpu).device.wantedBytes(counted)).toBe(expected(undefined, false, { sink: "count" }));
    });

    test("is none where the GPU is not likely", () => {
        for (const options of [{ device: "cpu" }, { isPresent: false }] as const) {
            const { device, fake } = deviceWith({}, options);
            expect(device.wantedBytes(planner)).toBe(0);
            expect(fake.calls).toEqual([]);
        }
        expect(deviceWith({}).device.wantedBytes(new QueryPlanner(queryOf(million)))).toBe(0);
    });

    test("is asked for by a query that is long enough to wait for a GPU, before one is looked for", () => {
        const { device, fake } = deviceWith({});
        expect(planQuery(query).predictedMs).toBeGreaterThan(query.profile.deviceOpenMs);
        expect(device.wantedBytes(planner)).toBe(expected(undefined));
        expect(fake.calls).toEqual([]);
    });

    test("is that of copies at full speed where GPU memory holds the tables", () => {
        const { device } = deviceWith({}, { ...onGpu, memoryBytes: 2 ** 40 });
        const counted = { ...query, sink: "count" } as const;
        const few = new QueryPlanner({ ...counted, root: grouped(200 * million, 1000) });
        const { deviceStagingBytesPerWorker, deviceStagingShare } = defaultPolicy;
        const staging = (query.threads * deviceStagingBytesPerWorker) / deviceStagingShare;
        expect(few.wantedBytes()).toBeLessThan(staging / 4);
        expect(device.wantedBytes(few)).toBe(staging);
        // Twice the bytes of a small relation are enough.
        const rowBytes = 8 + 8;
        const small = new QueryPlanner({ ...counted, root: grouped(1000, 10) });
        expect(device.wantedBytes(small)).toBe((2 * 1000 * rowBytes) / deviceStagingShare);
    });

    test("goes by the memory that the user allows, and then by what the GPU was opened with", async () => {
        const made = deviceWith({ limitBytes: gibibyte }, { ...onGpu, memoryBytes: 2 ** 40 });
        expect(made.device.wantedBytes(planner)).toBe(tablesHostBytes(query, planQuery(query)));
        await open(made);
        expect(made.device.wantedBytes(planner)).toBe(expected(gibibyte));
    });

    test("is that of kernels where the GPU reads host memory through its page tables", async () => {
        expect(expected(undefined, true)).not.toBe(expected(undefined, false));
        const made = deviceWith({ gpus: [coherent] }, onGpu);
        expect(made.device.wantedBytes(planner)).toBe(expected(undefined, true));
        await open(made);
        expect(made.device.wantedBytes(planner)).toBe(expected(gibibyte, true));
        expect(made.countOf("devices")).toBe(2);
        const unusable = { ...coherent, reason: "too old" };
        expect(deviceWith({ gpus: [unusable] }, onGpu).device.wantedBytes(planner)).toBe(expected(undefined, false));
    });
});

async function settled(turn: Promise<unknown>): Promise<boolean> {
    let done = false;
    const note = (): void => void (done = true);
    turn.then(note, note);
    await new Promise((resolve) => setImmediate(resolve));
    return done;
}

/** A plan that takes so much GPU memory. */
function planOf(estimatedBytes: number, sink: SinkKind = "count"): Plan {
    const deviceMemory = { limitBytes: gibibyte, estimatedBytes, uploadedBytes: 0, downloadedBytes: 0 };
    return { sink, deviceMemory } as Plan;
}

describe("a turn on the GPU", () => {
    test("begins when the one before has ended, with a peak of its own", async () => {
        const { device, countOf, job } = deviceWith({});
        const first = await device.takeTurn(job(), planOf(0));
        expect(countOf("resetDevicePeak")).toBe(1);
        const [second, third] = [device.takeTurn(job(), planOf(0)), device.takeTurn(job(), planOf(0))];
        expect([await settled(second), await settled(third)]).toEqual([false, false]);
        first.end();
        first.end();
        const turn = await second;
        expect(await settled(third)).toBe(false);
        expect(countOf("resetDevicePeak")).toBe(2);
        turn.leave();
        (await third).end();
        turn.end();
        expect(countOf("resetDevicePeak")).toBe(3);
    });

    test("of a query cancelled while it waited goes to the next one when the one before has ended", async () => {
        const { device, countOf, job } = deviceWith({});
        const first = await device.takeTurn(job(), planOf(0));
        const cancelled = job();
        const second = device.takeTurn(cancelled, planOf(0));
        const third = device.takeTurn(job(), planOf(0));
        cancelled.cancel();
        await expect(second).rejects.toMatchObject({ code: "ABORTED" });
        expect(await settled(third)).toBe(false);
        first.end();
        (await third).end();
        expect(countOf("resetDevicePeak")).toBe(2);
    });

    test("of a GPU that is lost is an error, and those behind it hear of it too", async () => {
        const resetDevicePeak = (): never => {
            throw failureOf("NO_DEVICE");
        };
        const { device, job } = deviceWith({ overrides: { resetDevicePeak } });
        for (let i = 0; i < 2; i++)
            await expect(device.takeTurn(job(), planOf(0))).rejects.toMatchObject({ code: "NO_DEVICE" });
    });
});

describe("GPU memory of a query that has left its turn", () => {
    const most = 0.75 * gibibyte;

    async function openWith() {
        const made = deviceWith({ limitBytes: gibibyte });
        await open(made);
        return made;
    }

    test("and ends by itself is waited for, with the turn", async () => {
        const { device, job } = await openWith();
        const first = await device.takeTurn(job(), planOf(most));
        first.leave();
        const second = device.takeTurn(job(), planOf(most));
        const small = device.takeTurn(job(), planOf(1));
        expect([await settled(second), await settled(small)]).toEqual([false, false]);
        first.end();
        (await second).end();
        (await small).end();
    });

    test("is what it keeps, and goes when it ends", async () => {
        const { device, job } = await openWith();
        const first = await device.takeTurn(job(), planOf(most, "batches"));
        first.leave(gibibyte - most);
        first.leave(gibibyte);
        (await device.takeTurn(job(), planOf(most))).end();
        await expect(device.takeTurn(job(), planOf(most + 1))).rejects.toSatisfy(isMemoryTaken);
        first.end();
        first.leave();
        (await device.takeTurn(job(), planOf(gibibyte))).end();
    });

    test("and waits for the user's code is not waited for: the query is planned again", async () => {
        const { device, job } = await openWith();
        const reader = await device.takeTurn(job(), planOf(most, "batches"));
        reader.leave();
        const counted = await device.takeTurn(job(), planOf(gibibyte - most));
        counted.leave();
        for (let i = 0; i < 2; i++) {
            await expect(device.takeTurn(job(), planOf(most))).rejects.toSatisfy(isMemoryTaken);
        }
        const waits = device.takeTurn(job(), planOf(gibibyte - most));
        expect(await settled(waits)).toBe(false);
        counted.end();
        (await waits).end();
        // A plan for more than there is takes what there is, when nobody else has any of it.
        reader.end();
        (await device.takeTurn(job(), planOf(2 * gibibyte))).end();
    });

    test("is not waited for by a query that is cancelled", async () => {
        const { device, job } = await openWith();
        const first = await device.takeTurn(job(), planOf(most));
        first.leave();
        const cancelled = job();
        const second = device.takeTurn(cancelled, planOf(most));
        expect(await settled(second)).toBe(false);
        cancelled.cancel();
        await expect(second).rejects.toMatchObject({ code: "ABORTED" });
        (await device.takeTurn(job(), planOf(1))).end();
        first.end();
    });

    test("is not planned with: of a reader, and of nobody else", async () => {
        const { device, job } = await openWith();
        const query = queryOf(1000, { debug: { gpu: true } });
        const limitOf = async () => (await device.choose(query, planQuery(query))).deviceMemory?.limitBytes;
        const counted = await device.takeTurn(job(), planOf(most));
        counted.leave();
        expect(await limitOf()).toBe(gibibyte);
        const reader = await device.takeTurn(job(), planOf(1000, "batches"));
        expect(await limitOf()).toBe(gibibyte);
        reader.leave();
        expect(await limitOf()).toBe(gibibyte - 1000);
        reader.end();
        expect(await limitOf()).toBe(gibibyte);
        counted.end();
    });

    test("is told as the reason where nothing is left", async () => {
        const query = queryOf(million, { debug: { gpu: true } });
        for (const device of ["auto", "gpu"] as const) {
            const made = deviceWith({ limitBytes: gibibyte }, { device });
            await open(made);
            const readers = [];
            for (const bytes of [gibibyte / 2, gibibyte / 2]) {
                const reader = await made.device.takeTurn(made.job(), planOf(bytes, "batches"));
                reader.leave();
                readers.push(reader);
            }
            const chosen = made.device.choose(query, planQuery(query));
            const told = expect.stringMatching(/ nothing is left: 2 open results hold 1 GiB/) as string;
            if (device === "auto") {
                expect(await chosen).toMatchObject({ device: "cpu", deviceReason: told });
            } else {
                const details = { tier: "device", heldBytes: gibibyte, option: "memory.device" };
                await expect(chosen).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", message: told, details });
            }
            readers[0]?.end();
            const one = made.device.choose(queryOf(30 * million, { debug: { gpu: true } }), planQuery(query));
            if (device === "auto") expect((await one).device).toBe("gpu");
        }
    });
});
