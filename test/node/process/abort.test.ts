// SPDX-License-Identifier: Apache-2.0
// An aborted query rejects with signal.reason, leaves nothing behind, and the runtime goes on.
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openRuntime, type Progress, type Runtime } from "spillway";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { numericTable, writeNumeric } from "../../support/numeric-files.js";
import { Sandbox } from "../../support/sandbox.js";

const rows = 2_000_000;
// Every key has several partners: writing the result takes several intervals of progress.
const keys = rows / 4;
const on = { lkey: "rkey" } as const;
let sandbox: Sandbox;
let runtime: Runtime;
let left: string;
let right: string;

beforeAll(() => {
    sandbox = new Sandbox();
    left = writeNumeric(sandbox.path("left.arrow"), { rows, keys, prefix: "l" });
    right = writeNumeric(sandbox.path("right.arrow"), { rows: 2 * rows, keys, prefix: "r" });
});
afterAll(() => sandbox[Symbol.dispose]());
beforeEach(async () => {
    for (const name of readdirSync(sandbox.output)) rmSync(join(sandbox.output, name));
    // One thread, small pages and everything through the disk: slow enough to be met in every phase.
    const memory = { host: "64MiB", spillDirectory: sandbox.spill };
    runtime = await openRuntime({ threads: 1, memory, debug: { forceSpill: true, pageBytes: 4096, morselRows: 512 } });
});
afterEach(async () => {
    await runtime.close();
});

async function bigJoin() {
    return runtime.join({ left: await runtime.fromArrowFile(left), right: await runtime.fromArrowFile(right), on });
}

/** The runtime gave everything back and still works. */
async function expectUsable(keptSpillFiles = 0): Promise<void> {
    await sandbox.expectClean([], keptSpillFiles);
    expect(runtime.memory().host.usedBytes).toBe(0);
    const small = (prefix: string) => runtime.fromTable(numericTable({ rows: 1000, keys: 100, prefix }));
    expect(await runtime.join({ left: small("l"), right: small("r"), on }).count()).toBeGreaterThan(0);
}

describe("a signal that fires", () => {
    const phases: Record<string, (progress: Progress) => boolean> = {
        "in the first partition pass": ({ phase }) => /partition/i.test(phase),
        "while pages are spilled": ({ spilledBytes }) => spilledBytes > 1_000_000,
        "in the join, while results are written": ({ rowsOut }) => rowsOut > 0
    };
    test.each(Object.entries(phases))("%s", async (_, reached) => {
        const controller = new AbortController();
        const reason = new Error("changed my mind");
        const onProgress = (progress: Progress) => {
            if (!progress.done && reached(progress)) controller.abort(reason);
        };
        const query = await bigJoin();
        const path = join(sandbox.output, "result.arrow");
        const run = query.toArrowFile(path, { signal: controller.signal, onProgress });
        await expect(run).rejects.toBe(reason);
        await expectUsable();
    });

    test("before the query starts", async () => {
        const query = await bigJoin();
        const signal = AbortSignal.abort("no thanks");
        await expect(query.count({ signal })).rejects.toBe("no thanks");
        await expect(query.toTable({ signal })).rejects.toBe("no thanks");
        await expect(query.batches({ signal }).next()).rejects.toBe("no thanks");
        await expectUsable();
    });

    test("at any moment", async () => {
        const query = await bigJoin();
        const path = join(sandbox.output, "result.arrow");
        let aborted = 0;
        for (const delay of ["at once", 0, 1, 3, 10, 30, 60, 100, 200] as const) {
            const controller = new AbortController();
            // At once: in the turn of the event loop that starts the query, so that it cannot have ended.
            const signal = delay === "at once" ? controller.signal : AbortSignal.timeout(delay);
            const run = query.toArrowFile(path, { signal, overwrite: true });
            if (delay === "at once") controller.abort(new Error(delay));
            const outcome = await run.then(
                () => "finished",
                (error: unknown) => error
            );
            if (outcome === "finished") break;
            expect(outcome, `after ${delay} ms`).toBe(signal.reason);
            await sandbox.expectClean();
            ++aborted;
        }
        // At once, and while it ran: some seconds are more than the first of the delays on any machine.
        expect(aborted).toBeGreaterThan(1);
        rmSync(path, { force: true });
        await expectUsable();
    });

    test("after the query has ended, changes nothing", async () => {
        const controller = new AbortController();
        const small = (prefix: string) => runtime.fromTable(numericTable({ rows: 1000, keys: 100, prefix }));
        const query = runtime.join({ left: small("l"), right: small("r"), on });
        const count = await query.count({ signal: controller.signal });
        controller.abort();
        expect(await query.count()).toBe(count);
        // One thread spills into one file of each side.
        await expectUsable(2);
    });
});

describe("a consumer that leaves", () => {
    test("after the first batch ends the query", async () => {
        const query = await bigJoin();
        for await (const batch of query.batches()) {
            expect(batch.numRows).toBeGreaterThan(0);
            break;
        }
        await expectUsable();
    });

    test("by an error in its loop ends the query", async () => {
        const query = await bigJoin();
        const loop = async () => {
            for await (const _ of query.batches()) throw new Error("loop");
        };
        await expect(loop()).rejects.toThrow("loop");
        await expectUsable();
    });

    test("slowly keeps the memory within the budget", async () => {
        const query = await bigJoin();
        let batches = 0;
        for await (const _ of query.batches()) {
            if (++batches <= 20) await new Promise((resolve) => setTimeout(resolve, 20));
            const { usedBytes, limitBytes } = runtime.memory().host;
            expect(usedBytes).toBeLessThanOrEqual(limitBytes);
            if (batches > 40) break;
        }
        await expectUsable();
    });
});

describe("close()", () => {
    test("ends running queries with CLOSED or ABORTED and can be called again", async () => {
        const query = await bigJoin();
        const run = query.toArrowFile(join(sandbox.output, "result.arrow")).then(
            () => "finished",
            (error: { code?: string }) => error.code
        );
        await new Promise((resolve) => setTimeout(resolve, 50));
        await runtime.close();
        expect(await run).toMatch(/^(CLOSED|ABORTED)$/);
        await runtime.close();
        await sandbox.expectClean();
        await expect(query.count()).rejects.toMatchObject({ name: "SpillwayError", code: "CLOSED" });
    });

    test("progress listeners that throw do no harm", async () => {
        const query = await bigJoin();
        let calls = 0;
        const onProgress = () => {
            ++calls;
            throw new Error("listener");
        };
        expect(await query.count({ onProgress })).toBeGreaterThan(0);
        expect(calls).toBeGreaterThan(0);
    });
});
