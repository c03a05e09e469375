// SPDX-License-Identifier: Apache-2.0
// What a runtime does for the memory of its budget: relations of files, batches that were dropped, and idle times.
import { Int32, Table, vectorFromArray } from "apache-arrow";
import { afterEach, describe, expect, test, vi } from "vitest";
import { SpillwayError } from "../../../src/errors.js";
import { loadProfile } from "../../../src/machine/profile.js";
import type { Binding } from "../../../src/native/binding.js";
import { loadBinding } from "../../../src/native/load.js";
import { QueryRunner } from "../../../src/runtime/query-runner.js";
import { FakeBinding } from "../../support/fake-binding.js";
import { fakeRuntime } from "../../support/fake-runtime.js";
import { machine } from "../../support/planning.js";
import { Sandbox } from "../../support/sandbox.js";

afterEach(() => void vi.useRealTimers());

const mebibyte = 2 ** 20;
const runnerOn = (binding: Binding, spillDirectory = "/tmp") =>
    new QueryRunner({
        binding,
        machine,
        profile: loadProfile(),
        memoryBytes: 2 ** 28,
        spillDirectory,
        threads: 2,
        debug: {}
    });
const refused = (code: string) => Object.assign(new Error("no room"), { code, details: {} });
const countOf = (calls: string[], name: string): number => calls.filter((call) => call === name).length;

/** A file, and a runner of the engine whose calls to open batches the test changes; `calls`: those of interest. */
async function withFile(
    change: (open: Binding["openFileBatches"], call: number) => Binding["openFileBatches"],
    body: (open: () => Promise<unknown>, calls: string[], runner: QueryRunner) => Promise<void>
): Promise<void> {
    using sandbox = new Sandbox();
    const path = sandbox.write(new Table({ k: vectorFromArray([1, 2, 3], new Int32()) }));
    const real = await loadBinding();
    const calls: string[] = [];
    const binding: Binding = {
        ...real,
        openFileBatches: async (...args) => {
            calls.push("open");
            const open = async (...wanted: typeof args) => await real.openFileBatches(...wanted);
            return await change(open, countOf(calls, "open"))(...args);
        },
        drainEngine: async (engine) => {
            calls.push("drain");
            await real.drainEngine(engine);
        },
        closeFileBatches: (batches) => {
            calls.push("close");
            real.closeFileBatches(batches);
        }
    };
    const runner = runnerOn(binding, sandbox.spill);
    try {
        await body(async () => await runner.openFiles(path), calls, runner);
    } finally {
        await runner.close();
    }
}

describe("a relation of files that the budget has no room for", () => {
    const refusing = (times: number, code: string) => (open: Binding["openFileBatches"], call: number) =>
        call > times ? open : async () => Promise.reject(refused(code));

    test("is opened again once what was dropped is gone", async () => {
        await withFile(refusing(1, "BUDGET_TOO_SMALL"), async (open, calls) => {
            await open();
            expect(calls).toEqual(["open", "drain", "open"]);
        });
    });

    test("is refused where that was not enough", async () => {
        await withFile(refusing(2, "BUDGET_TOO_SMALL"), async (open, calls) => {
            await expect(open()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL" });
            expect(calls).toEqual(["open", "drain", "open"]);
        });
    });

    test("is not opened again for any other error", async () => {
        await withFile(refusing(1, "FILE_CORRUPT"), async (open, calls) => {
            await expect(open()).rejects.toMatchObject({ code: "FILE_CORRUPT" });
            expect(calls).toEqual(["open"]);
        });
        await withFile(refusing(1, "FILE_CORRUPT"), async (_, calls, runner) => {
            await expect(runner.openFiles(7)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
            expect(calls).toEqual([]);
        });
    });
});

test.each([
    [24, 2],
    [0, 0]
])("relations that hold %i bytes of the budget: a runtime that is closed closes %i", async (heldBytes, closed) => {
    const kept: unknown[] = [];
    const holding = (open: Binding["openFileBatches"]): Binding["openFileBatches"] => {
        return async (...args) => ({ ...(await open(...args)), heldBytes });
    };
    await withFile(holding, async (open, calls, runner) => {
        kept.push(await open());
        using other = new Sandbox();
        kept.push(await runner.openFiles(other.write(new Table({ k: vectorFromArray([4], new Int32()) }))));
        expect(countOf(calls, "close")).toBe(0);
        await runner.close();
        expect(countOf(calls, "close")).toBe(closed);
    });
    expect(kept).toHaveLength(2);
});

test("a runtime that is closed waits for files that are being opened", async () => {
    let fail = (): void => undefined;
    const readEnds = async () => new Promise((_, reject) => (fail = () => reject(refused("FILE_NOT_FOUND"))));
    const fake = new FakeBinding({ readEnds });
    const runner = runnerOn(fake.binding);
    const opening = expect(runner.openFiles("/nowhere.arrow")).rejects.toBeInstanceOf(SpillwayError);
    await vi.waitUntil(() => fake.calls.includes("readEnds"));
    const closing = runner.close();
    await new Promise((resolve) => setImmediate(resolve));
    expect(fake.calls).not.toContain("closeEngine");
    fail();
    await Promise.all([opening, closing]);
    expect(fake.leftOpen).toEqual([]);
});

test("an engine that cannot be made is an error of the package", () => {
    const createEngine = (): never => {
        throw refused("OUT_OF_MEMORY");
    };
    const { binding } = new FakeBinding({ createEngine });
    expect(() => runnerOn(binding)).toThrow(expect.objectContaining({ code: "OUT_OF_MEMORY" }) as Error);
    expect(() => runnerOn(binding)).toThrow(SpillwayError);
});

test("how tables are kept is asked once", () => {
    const { fake } = fakeRuntime();
    expect(countOf(fake.calls, "keptMemory")).toBe(1);
});

test("queries are planned for the budget that relations leave", async () => {
    const leftBytes = 16 * mebibyte;
    const relationBytes = 2 ** 28 - leftBytes;
    const engineMemory = () => ({ limitBytes: 2 ** 28, usedBytes: 0, peakBytes: 0, relationBytes });
    const { plan } = await fakeRuntime({ engineMemory }).join.explain();
    // A result that is read batch by batch gets half of it.
    expect(plan.memory.budgetBytes).toBe(leftBytes / 2);
});

test("a query that begins makes room where batches that were dropped fill what nobody was granted", async () => {
    let aliveBytes = mebibyte;
    // The budget is 256 MiB, whatever else is unused.
    const deliveredMemory = () => ({ aliveBytes, unusedBytes: 2 ** 40 });
    const { fake, join } = fakeRuntime({ deliveredMemory });
    await join.count();
    expect(countOf(fake.calls, "deliveredMemory")).toBe(1);
    aliveBytes = 200 * mebibyte;
    await join.count();
    expect(countOf(fake.calls, "deliveredMemory")).toBeGreaterThan(10);
});

test("a query that is aborted while it waits for memory ends at once, and the next one finds it free", async () => {
    const { fake, runner, join } = fakeRuntime();
    const all = { wantedBytes: 2 ** 28, minimumBytes: () => 2 ** 28, waitsForUser: false };
    const held = await runner.admission.admit(all, () => undefined);
    const controller = new AbortController();
    const waiting = expect(join.count({ signal: controller.signal })).rejects.toThrow("enough");
    await vi.waitUntil(() => fake.calls.includes("createJob"));
    controller.abort(new Error("enough"));
    await waiting;
    held.release();
    expect(await join.count()).toBe(42);
    expect(runner.admission.running).toBe(0);
});

describe("memory is given back", () => {
    /** A runtime whose first join waits for `release`. */
    function waiting() {
        const release: (() => void)[] = [];
        let joins = 0;
        const joinStreaming = async (): Promise<number> => {
            if (++joins === 1) await new Promise<void>((resolve) => release.push(resolve));
            return 42;
        };
        const cancelJob = (): void => release[0]?.();
        return { ...fakeRuntime({ joinStreaming, cancelJob }), release };
    }

    test("not while a query runs", async () => {
        vi.useFakeTimers();
        const { fake, join, release } = waiting();
        const first = join.count();
        await vi.waitUntil(() => release.length > 0);
        await join.count();
        await vi.advanceTimersByTimeAsync(10_000);
        expect(fake.calls).not.toContain("trimEngine");
        release[0]!();
        await first;
        await vi.advanceTimersByTimeAsync(3000);
        expect(countOf(fake.calls, "trimEngine")).toBe(1);
    });

    test("once by a runtime that is closed while a query runs", async () => {
        vi.useFakeTimers();
        const { fake, runtime, join, release } = waiting();
        const first = join.count().catch(() => undefined);
        await vi.waitUntil(() => release.length > 0);
        await runtime.close();
        await first;
        await vi.advanceTimersByTimeAsync(10_000);
        expect(countOf(fake.calls, "trimEngine")).toBe(1);
        expect(vi.getTimerCount()).toBe(0);
    });
});
