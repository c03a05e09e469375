// SPDX-License-Identifier: Apache-2.0
// What a runner asks of the engine and of admission, and what becomes of one that nobody closed.
import { tableFromArrays, Int32, Table, tableToIPC, vectorFromArray } from "apache-arrow";
import { writeFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { collectGarbage, droppedBatches } from "../../../src/execute/dropped-batches.js";
import { loadProfile } from "../../../src/machine/profile.js";
import type { Binding } from "../../../src/native/binding.js";
import { loadBinding } from "../../../src/native/load.js";
import { QueryRunner } from "../../../src/runtime/query-runner.js";
import { numbersBatch } from "../../support/engine-batch.js";
import { fakeRuntime } from "../../support/fake-runtime.js";
import { failureOf } from "../../support/made-up-gpu.js";
import { writeManyBatches } from "../../support/many-batches.js";
import { machine } from "../../support/planning.js";
import { Sandbox } from "../../support/sandbox.js";

afterEach(() => void vi.restoreAllMocks());

const mebibyte = 2 ** 20;

/** A runner of the engine with a budget of 256 MiB; `held`: what it says that relations hold of that. */
async function withRunner(
    sandbox: Sandbox,
    body: (runner: QueryRunner, calls: string[]) => Promise<void>,
    held?: number
): Promise<void> {
    const real = await loadBinding();
    const calls: string[] = [];
    const binding: Binding = {
        ...real,
        // One that has just changed would never be taken for unchanged.
        readEnds: async (...args) => ({ ...(await real.readEnds(...args)), identity: "the same" }),
        readRanges: async (...args) => (calls.push("ranges"), await real.readRanges(...args)),
        readFooter: async (...args) => (calls.push("footer"), await real.readFooter(...args)),
        openFileBatches: async (...args) => {
            calls.push("open");
            const opened = await real.openFileBatches(...args);
            return held === undefined ? opened : { ...opened, heldBytes: held };
        },
        closeFileBatches: (batches) => {
            calls.push("close");
            real.closeFileBatches(batches);
        }
    };
    const runner = new QueryRunner({
        ...{ binding, machine, profile: loadProfile(), memoryBytes: 256 * mebibyte, spillDirectory: sandbox.spill },
        ...{ threads: 2, debug: {} }
    });
    try {
        await body(runner, calls);
    } finally {
        await runner.close();
    }
}

async function untilCollected(reference: WeakRef<object>): Promise<void> {
    for (let i = 0; i < 20; i++) {
        await setImmediate(); // what was looked at is alive until the event loop turns
        await collectGarbage();
        if (reference.deref() === undefined) return;
    }
    expect.fail("something refers to it");
}

const numbers = () => new Table({ n: vectorFromArray([1, 2, 3], new Int32()) });

describe("files", () => {
    test("are read through the engine, whatever part of them tells what they are", async () => {
        using sandbox = new Sandbox();
        await withRunner(sandbox, async (runner, calls) => {
            // A footer of 72 KB, of which the last 64 KiB are read at first.
            const many = await runner.openFiles(writeManyBatches(sandbox.path("many.arrow"), 3000));
            expect([many.facts.rows, calls]).toEqual([3000, ["footer", "open"]]);
            // A schema that is longer than the first bytes of a stream.
            const table = numbers();
            table.schema.metadata.set("note", "x".repeat(200_000));
            const path = sandbox.path("stream.arrow");
            writeFileSync(path, tableToIPC(table, "stream"));
            const stream = await runner.openFiles(path);
            expect(stream.schema.metadata.get("note")).toHaveLength(200_000);
            expect(calls.slice(2)).toContain("ranges");
        });
    });

    test.each([
        [8 * mebibyte, 1],
        [8 * mebibyte + 1, 2]
    ])("that hold %i of 256 MiB are opened %i times for two relations", async (held, times) => {
        using sandbox = new Sandbox();
        const path = sandbox.write(numbers());
        const open = async (runner: QueryRunner, calls: string[]): Promise<void> => {
            for (let i = 0; i < 2; i++) await runner.openFiles(path);
            expect(calls.filter((call) => call === "open")).toHaveLength(times);
        };
        await withRunner(sandbox, open, held);
    });

    test("that nobody refers to any more are not closed again with the runtime", async () => {
        using sandbox = new Sandbox();
        const [dropped, kept] = [sandbox.write(numbers()), sandbox.write(numbers())];
        let calls: string[] = [];
        await withRunner(
            sandbox,
            async (runner, noted) => {
                calls = noted;
                const open = async () => new WeakRef((await runner.openFiles(dropped)).layout.files!);
                await untilCollected(await open());
                const { layout } = await runner.openFiles(kept);
                await runner.close();
                expect(layout.files).not.toBeNull();
            },
            200 * mebibyte
        );
        expect(calls).toEqual(["open", "open", "close"]);
    });
});

describe("an engine", () => {
    test("is made with the budget, the threads and the folder of its runtime", () => {
        const specs: unknown[] = [];
        const createEngine = (spec: unknown) => (specs.push(spec), "engine");
        fakeRuntime({ createEngine });
        expect(specs).toEqual([{ memoryBytes: 256 * mebibyte, spillDirectory: "/tmp", threads: 2 }]);
    });

    /** Three runtimes to which nothing refers; `closed`: those of their engines that were closed. */
    function forget(closed: string[]): void {
        for (let i = 0; i < 3; i++) {
            const closeEngine = (engine: string): void => {
                closed.push(engine);
                if (engine === "engine 1") throw failureOf("INTERNAL");
            };
            fakeRuntime({ createEngine: () => `engine ${i}`, closeEngine });
        }
    }

    test("of a runtime that nobody closed is closed when that is collected, also beside one that fails", async () => {
        const closed: string[] = [];
        forget(closed);
        for (let i = 0; i < 20 && closed.length < 3; i++) await collectGarbage();
        expect(closed.sort()).toEqual(["engine 0", "engine 1", "engine 2"]);
    });
});

describe("a query", () => {
    test("runs on the CPU where nothing is said of a device", async () => {
        const { join } = fakeRuntime({}, { gpu: true });
        expect(await join.count()).toBe(42);
        expect(join.report()).toMatchObject({ device: "cpu", deviceReason: null });
    });

    test("may wait for user code if batches are read or a stream is its input", async () => {
        const { runtime, runner, left, join } = fakeRuntime();
        const admit = vi.spyOn(runner.admission, "admit");
        const waits = async (run: () => Promise<unknown>): Promise<boolean | undefined> => {
            await run();
            return admit.mock.lastCall?.[0].waitsForUser;
        };
        const read = async (): Promise<void> => {
            for await (const _ of join.batches());
        };
        const { schema } = tableFromArrays({ k: Int32Array.of(1) });
        const stream = runtime.fromBatches(schema, async function* () {});
        expect(await waits(() => join.count())).toBe(false);
        expect(await waits(() => join.toTable())).toBe(false);
        expect(await waits(read)).toBe(true);
        expect(await waits(() => left.join(stream, { on: "k", select: ["a"] }).count())).toBe(true);
    });

    test("collects dropped batches only where they leave too little of what nobody was granted", async () => {
        let relationBytes = 0;
        const { runner, join } = fakeRuntime({
            deliveredMemory: () => ({ aliveBytes: 5, unusedBytes: 2 ** 40 }),
            engineMemory: () => ({ limitBytes: 2 ** 28, usedBytes: 0, peakBytes: 0, relationBytes })
        });
        const seen: unknown[] = [];
        const makeRoom = vi.spyOn(droppedBatches, "makeRoom").mockResolvedValue();
        const wantRoom = vi.spyOn(droppedBatches, "wantRoom").mockImplementation((memory) => {
            seen.push([memory(), runner.admission.freeBytes]);
            return false;
        });
        await join.count();
        const [memory, free] = seen[0] as [object, number];
        expect(free).toBeGreaterThan(mebibyte);
        expect(memory).toEqual({ aliveBytes: 5, unusedBytes: free });
        expect(makeRoom).not.toHaveBeenCalled();
        // Relations that were opened meanwhile hold what was granted.
        wantRoom.mockImplementation((read) => {
            relationBytes = 2 ** 28;
            seen.push(read());
            relationBytes = 0;
            return true;
        });
        await join.count();
        expect(seen[1]).toEqual({ aliveBytes: 5, unusedBytes: 0 });
        expect(makeRoom).toHaveBeenCalledTimes(1);
    });

    test("knows what of the budget no other query was granted, while it runs and when it has ended", async () => {
        const { runner } = fakeRuntime();
        const wanted = { minimumBytes: () => 0, wantedBytes: 2 ** 24, waitsForUser: false };
        const other = await runner.admission.admit(wanted, () => undefined);
        const left = 2 ** 28 - other.bytes;
        await runner.runJob(undefined, async (job) => {
            const { bytes, release } = await runner.admitRequest(job, wanted);
            expect([job.grantableBytes(), runner.admission.freeBytes]).toEqual([left, left - bytes]);
            release();
            expect([job.grantableBytes(), runner.admission.freeBytes]).toEqual([left, left]);
        });
    });

    test("takes no table that is being made for dropped batches", async () => {
        const { join } = fakeRuntime({ deliveredMemory: () => ({ aliveBytes: 5, unusedBytes: 0 }) });
        const seen: number[] = [];
        vi.spyOn(droppedBatches, "wantRoom").mockImplementation((memory) => {
            seen.push(memory().aliveBytes);
            return false;
        });
        droppedBatches.tableGrew(3);
        try {
            for await (const _ of join.batches());
        } finally {
            droppedBatches.tableGrew(-3);
        }
        // When it is admitted, and when its reader wants a batch.
        expect(seen).toEqual([2, 2]);
    });

    test("whose table does not fit is told how many rows its samples let expect", async () => {
        const rows = 20_000;
        // A hundred values, each 200 times.
        const sample = { rows, nulls: 0, min: 0n, max: 99n, sampledRows: 16_384, sampledDistinct: 100 };
        const keyStatistics = async () => ({ ...sample, heaviestShare: 0.01 });
        const { fake, runtime } = fakeRuntime({ keyStatistics });
        const keys = Int32Array.from({ length: rows }, (_, i) => i % 100);
        const [left, right] = [0, 1].map(() => runtime.fromTable(tableFromArrays({ k: keys })));
        fake.batches = [numbersBatch(Int32Array.of(0, 0))];
        fake.usedBytes = 2 ** 28;
        const table = runtime.join({ left: left!, right: right!, on: "k" }).toTable();
        await expect(table).rejects.toThrow(/4,000,000 rows that are expected/);
    });
});
