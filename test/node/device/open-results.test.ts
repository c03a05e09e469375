// SPDX-License-Identifier: Apache-2.0
// GPU memory of a query whose reader pauses stays with it: queries that run meanwhile are planned with the rest, or run
// on the CPU engine, and the reader gets all of its rows.
import type { Query, Runtime, RuntimeOptions } from "spillway";
import { afterEach, describe, expect, test } from "vitest";
import { collectGarbage } from "../../../src/execute/dropped-batches.js";
import { behave, withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import * as results from "../../support/open-results.js";
import { joinOf, joinTotals, productOf, productTotals, Reader, type Totals } from "../../support/open-results.js";
import { knobs } from "../../support/knobs.js";

useGpu();

afterEach(() => behave(undefined));

const mebibyte = 2 ** 20;

/** Runs on the GPU, whatever the predicted times. */
const optionsOf = (device: "auto" | "gpu", deviceMebibytes: number): RuntimeOptions => ({
    ...{ threads: 2, device, ...knobs({ gpu: true, chunkRows: 4096 }) },
    memory: { device: deviceMebibytes * mebibyte, host: "512MiB" }
});

interface Tried {
    query: (runtime: Runtime) => Query;
    totals: Totals;
    /** The kind of the stage that joins or groups. */
    stage: string;
}

/** In 46 MiB: the tables do not fit beside their copies. */
const outOfCore: Tried = {
    query: (runtime) => joinOf(runtime, 400_000),
    totals: joinTotals(400_000),
    stage: "deviceOutOfCoreJoin"
};
const underestimated: Tried = {
    query: (runtime) => productOf(runtime, 2000, 1000),
    totals: productTotals(2000),
    stage: "deviceJoin"
};

const others: Record<string, Tried> = {
    "a join in GPU memory": {
        query: (runtime) => joinOf(runtime, 100_000),
        totals: joinTotals(100_000),
        stage: "deviceJoin"
    },
    "a group-by": {
        query: (runtime) => results.groupOf(runtime, 60_000),
        totals: results.groupTotals(60_000),
        stage: "deviceGroup"
    },
    "another join out of core": outOfCore,
    "a join whose result would take all that is left": {
        query: (runtime) => productOf(runtime, 2000),
        totals: productTotals(2000),
        stage: "deviceJoin"
    },
    "a join that makes more rows than expected": underestimated,
    "a result in pieces": {
        query: (runtime) => productOf(runtime, 3000),
        totals: productTotals(3000),
        stage: "deviceJoin"
    }
};

/** GPU memory that the next query is planned with. */
async function leftOf(runtime: Runtime): Promise<number> {
    return (await joinOf(runtime, 100).explain()).plan.deviceMemory?.limitBytes ?? 0;
}

/** One pauses, the other one begins, both go on in turn, and each gets all of its rows, on the GPU. */
async function expectBoth(runtime: Runtime, paused: Tried, other: Tried): Promise<void> {
    const reader = new Reader(paused.query(runtime));
    expect(await reader.next()).toBe(true);
    const query = other.query(runtime);
    const { plan } = await query.explain({ result: "batches" });
    expect(plan.stages.map(({ kind }) => kind)).toContain(other.stage);
    const beside = new Reader(query);
    expect(await beside.next()).toBe(true);
    for (let i = 0; i < 20; i++) {
        await reader.next();
        if (i % 3 === 0) await beside.next();
    }
    expect(await beside.toEnd()).toEqual(other.totals);
    expect(await reader.toEnd()).toEqual(paused.totals);
    expect(reader.query.report()).toMatchObject({ device: "gpu" });
    expect(query.report()).toMatchObject({ device: "gpu" });
    expect(runtime.memory().host.usedBytes).toBe(0);
    expect(await leftOf(runtime)).toBe(46 * mebibyte);
}

describe.skipIf(usesRealGpu)("while a join out of core waits for its reader", () => {
    for (const device of ["gpu", "auto"] as const) {
        for (const [name, other] of Object.entries(others)) {
            test(`${name} runs beside it, with device ${device}`, async () => {
                await withRuntime(optionsOf(device, 46), async (runtime) => expectBoth(runtime, outOfCore, other));
            });
        }
    }

    test("queries that end by themselves run to their end between its batches", async () => {
        await withRuntime(optionsOf("gpu", 46), async (runtime) => {
            const reader = new Reader(outOfCore.query(runtime), 10_000);
            while (await reader.next()) {
                expect((await joinOf(runtime, 1000).toTable()).numRows).toBe(500);
                expect(await joinOf(runtime, 100_000).count()).toBe(50_000);
            }
            expect(reader.totals).toEqual(outOfCore.totals);
        });
    });
});

describe.skipIf(usesRealGpu)("while its reader waits", () => {
    test("a group-by out of core keeps what it needs", async () => {
        const debug = { outOfCore: true, chunkRows: 4096 };
        await withRuntime({ ...optionsOf("gpu", 90), ...knobs(debug) }, async (runtime) => {
            const reader = new Reader(results.groupOf(runtime, 200_000));
            expect(await reader.next()).toBe(true);
            expect(await leftOf(runtime)).toBeLessThan(60 * mebibyte);
            const beside = new Reader(joinOf(runtime, 200_000));
            for (let i = 0; i < 20; i++) await Promise.all([reader.next(), beside.next()]);
            expect(await reader.toEnd()).toEqual(results.groupTotals(200_000));
            expect(await beside.toEnd()).toEqual(joinTotals(200_000));
            expect(reader.query.report()?.stages[0]?.device?.outOfCoreGroupBy).toBeDefined();
        });
    });

    test("a result in pieces keeps the memory of a piece", async () => {
        await withRuntime(optionsOf("gpu", 8), async (runtime) => {
            const reader = new Reader(productOf(runtime, 2000), 50_000);
            expect(await reader.next()).toBe(true);
            // Planned with what is left of 8 MiB, it makes 8 MB where 8 kB were expected.
            const beside = new Reader(productOf(runtime, 1000, 1000), 50_000);
            expect(await beside.next()).toBe(true);
            expect(await reader.toEnd()).toEqual(productTotals(2000));
            expect(await beside.toEnd()).toEqual(productTotals(1000));
        });
    });

    test("a result that stays there as a whole counts with its size alone", async () => {
        await withRuntime(optionsOf("gpu", 46), async (runtime) => {
            const reader = new Reader(productOf(runtime, 1000, 1000));
            expect(await reader.next()).toBe(true);
            expect(await leftOf(runtime)).toBe(46 * mebibyte - 8_000_000);
            expect(await reader.toEnd()).toEqual(productTotals(1000));
            expect(await leftOf(runtime)).toBe(46 * mebibyte);
        });
    });
});

describe.skipIf(usesRealGpu)("where the reader of another query leaves too little", () => {
    const held = /the open result of another query holds [\d.]+ MiB/;

    test("a query is an error that says so with device gpu, and runs when the reader has ended", async () => {
        await withRuntime(optionsOf("gpu", 30), async (runtime) => {
            const reader = new Reader(outOfCore.query(runtime));
            expect(await reader.next()).toBe(true);
            const other = outOfCore.query(runtime);
            const details = { tier: "device", option: "memory.device" };
            const message = expect.stringMatching(held) as string;
            for (const run of [() => other.explain(), () => other.count(), () => new Reader(other).next()]) {
                await expect(run()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", details, message });
            }
            expect(await joinOf(runtime, 1000).count()).toBe(500);
            expect(await reader.toEnd()).toEqual(outOfCore.totals);
            expect(await other.count()).toBe(outOfCore.totals.rows);
        });
    });

    test("a query runs on the CPU engine with device auto, and its report says why", async () => {
        await withRuntime(optionsOf("auto", 30), async (runtime) => {
            const reader = new Reader(outOfCore.query(runtime));
            expect(await reader.next()).toBe(true);
            const other = outOfCore.query(runtime);
            expect(String(await other.explain())).toMatch(held);
            expect(await new Reader(other).toEnd()).toEqual(outOfCore.totals);
            expect(other.report()).toMatchObject({
                device: "cpu",
                deviceReason: expect.stringMatching(held) as string
            });
            expect(await reader.toEnd()).toEqual(outOfCore.totals);
            expect(reader.query.report()).toMatchObject({ device: "gpu" });
        });
    });
});

describe.skipIf(usesRealGpu)("what a reader holds is free again", () => {
    async function openedIn(runtime: Runtime, signal?: AbortSignal): Promise<Reader> {
        const reader = new Reader(outOfCore.query(runtime), 1000, signal);
        expect(await reader.next()).toBe(true);
        expect(await leftOf(runtime)).toBeLessThan(30 * mebibyte);
        return reader;
    }
    const expectAll = async (runtime: Runtime): Promise<void> => expect(await leftOf(runtime)).toBe(46 * mebibyte);

    test("when it leaves, or is aborted", async () => {
        await withRuntime(optionsOf("gpu", 46), async (runtime) => {
            await (await openedIn(runtime)).leave();
            await expectAll(runtime);
            const controller = new AbortController();
            const reader = await openedIn(runtime, controller.signal);
            controller.abort();
            await expect(reader.toEnd()).rejects.toMatchObject({ name: "AbortError" });
            await expectAll(runtime);
            const whole = new AbortController();
            const other = new Reader(productOf(runtime, 1000), 1000, whole.signal);
            await other.next();
            whole.abort();
            await expect(other.toEnd()).rejects.toMatchObject({ name: "AbortError" });
            await expectAll(runtime);
        });
    });

    test("when it was dropped and collected", async () => {
        await withRuntime(optionsOf("gpu", 46), async (runtime) => {
            await openedIn(runtime);
            const end = performance.now() + 10_000;
            while ((await leftOf(runtime)) < 46 * mebibyte && performance.now() < end) await collectGarbage();
            await expectAll(runtime);
        });
    });

    test("when its query fails", async () => {
        await withRuntime(optionsOf("gpu", 46), async (runtime) => {
            const reader = await openedIn(runtime);
            behave("refuse");
            await expect(reader.toEnd()).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
            behave(undefined);
            await expectAll(runtime);
        });
    });

    test("and a runtime with open results closes", async () => {
        await withRuntime(optionsOf("gpu", 46), async (runtime) => {
            const readers = [await openedIn(runtime), new Reader(joinOf(runtime, 100_000))];
            await readers[1]?.next();
            const beside = Promise.allSettled([joinOf(runtime, 100_000).toTable()]);
            await runtime.close();
            for (const reader of readers) await expect(reader.toEnd()).rejects.toMatchObject({ code: "CLOSED" });
            await beside;
        });
    });
});
