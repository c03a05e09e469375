// SPDX-License-Identifier: Apache-2.0
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { JobHandle, NativeGroupBySpec, SinkHandle } from "../../../src/native/binding.js";
import {
    allBits,
    binding,
    drain,
    generateSpec,
    int64Column,
    int64Values,
    memorySource,
    openEngine,
    partitionSpec,
    twoColumns
} from "./support.js";

function openQueue(maxBatches = 2, batchRows = 1 << 14): { job: JobHandle; sink: SinkHandle } {
    const job = binding.createJob(openEngine());
    return {
        job,
        sink: binding.createQueueSink(job, twoColumns, { batchRows, batchBytes: 1 << 30, maxBatches, kept: false })
    };
}

describe("nextBatch", () => {
    test("hands every row over once, then null for ever", async () => {
        const { job, sink } = openQueue();
        const rows = binding.generate(job, generateSpec(100_000), sink);
        const batches = await drain(sink);
        expect(await rows).toBe(100_000);
        const keys = batches.flatMap((batch) => [...int64Values(batch, 0)]);
        expect(keys.sort((a, b) => Number(a - b))).toEqual(Array.from({ length: 100_000 }, (_, key) => BigInt(key)));
        expect(await binding.nextBatch(sink)).toBeNull();
        expect(await binding.nextBatch(sink)).toBeNull();
    });

    test("answers several waiting calls in their order", async () => {
        const { job, sink } = openQueue(4, 100);
        const waiting = Array.from({ length: 12 }, () => binding.nextBatch(sink));
        await binding.generate(job, generateSpec(1000, 100), sink);
        const batches = await Promise.all(waiting);
        expect(batches.map((batch) => batch?.rows ?? null)).toEqual([...Array<number>(10).fill(100), null, null]);
    });

    test("is null when the stage fails, whose promise has the error", async () => {
        const { job, sink } = openQueue(1);
        const rows = binding.generate(job, generateSpec(1_000_000), sink);
        const failure = rows.catch((error: unknown) => error);
        expect(await binding.nextBatch(sink)).not.toBeNull();
        binding.cancelJob(job);
        await drain(sink);
        expect(await failure).toMatchObject({ code: "ABORTED" });
    });

    test("has what a stage gave that ran on this thread", async () => {
        const { job, sink } = openQueue(2, 500);
        binding.runStagesHere(job, true);
        const rows = binding.generate(job, generateSpec(1000, 500), sink);
        expect(binding.jobProgress(job).rowsOut).toBe(1000);
        const batches = await drain(sink);
        expect([await rows, batches.map((batch) => batch.rows)]).toEqual([1000, [500, 500]]);
    });

    test("leaves a stage on this thread no room, which fails instead of waiting", async () => {
        const { job, sink } = openQueue(2, 500);
        binding.runStagesHere(job, true);
        await expect(binding.generate(job, generateSpec(1001, 500), sink)).rejects.toMatchObject({
            details: { reason: "queueFull" }
        });
        // On a thread the job goes on.
        binding.runStagesHere(job, false);
        const other = binding.createQueueSink(job, twoColumns, {
            ...{ batchRows: 500, batchBytes: 1 << 30, maxBatches: 2, kept: false }
        });
        const rows = binding.generate(job, generateSpec(1001, 500), other);
        expect((await drain(other)).map((batch) => batch.rows)).toEqual([500, 500, 1]);
        expect(await rows).toBe(1001);
    });

    test("holds the producer back", async () => {
        const { job, sink } = openQueue(2, 1000);
        const rows = binding.generate(job, generateSpec(100_000, 1000), sink);
        for (let i = 0; i < 20; ++i) await turn();
        const before = binding.jobProgress(job).rowsOut;
        await new Promise((resolve) => setTimeout(resolve, 100));
        expect(binding.jobProgress(job).rowsOut).toBeLessThanOrEqual(2000);
        expect(before).toBeLessThanOrEqual(2000);
        await drain(sink);
        expect(await rows).toBe(100_000);
    });

    test("fails on a sink that has no batches", async () => {
        const { job } = openQueue();
        await expect(binding.nextBatch(binding.createCountSink(job))).rejects.toMatchObject({
            code: "INVALID_ARGUMENT",
            message: expect.stringContaining("createQueueSink")
        });
    });

    test("small batches are copied, large ones are not, both are whole", async () => {
        for (const batchRows of [1, 100, 512, 513, 1 << 16]) {
            const { job, sink } = openQueue(2, batchRows);
            const done = binding.generate(job, generateSpec(2 * batchRows, batchRows), sink);
            const batches = await drain(sink);
            await done;
            const keys = batches.flatMap((batch) => [...int64Values(batch, 0)]).sort((a, b) => Number(a - b));
            expect(keys).toEqual(Array.from({ length: 2 * batchRows }, (_, key) => BigInt(key)));
        }
    });
});

describe("closeSink", () => {
    test("ends waiting calls with null and later ones with CLOSED", async () => {
        const { sink } = openQueue();
        const waiting = [binding.nextBatch(sink), binding.nextBatch(sink)];
        binding.closeSink(sink);
        expect(await Promise.all(waiting)).toEqual([null, null]);
        await expect(binding.nextBatch(sink)).rejects.toMatchObject({ code: "CLOSED" });
    });

    test("stops a producer that waits for the consumer", async () => {
        const { job, sink } = openQueue(1, 100);
        const rows = binding.generate(job, generateSpec(100_000, 100), sink);
        await binding.nextBatch(sink);
        binding.closeSink(sink);
        await expect(rows).rejects.toMatchObject({ code: "ABORTED" });
    });

    test("after the end frees what was not taken", async () => {
        const engine = openEngine();
        const job = binding.createJob(engine);
        const sink = binding.createQueueSink(job, twoColumns, {
            batchRows: 1 << 14,
            batchBytes: 1 << 30,
            maxBatches: 100,
            kept: false
        });
        await binding.generate(job, generateSpec(100_000), sink);
        expect(binding.engineMemory(engine).usedBytes).toBeGreaterThan(0);
        binding.closeSink(sink);
        await binding.generate(job, generateSpec(1), binding.createCountSink(job));
        expect(binding.engineMemory(engine).usedBytes).toBe(0);
    });
});

describe("a hash group-by whose table is full", () => {
    test("leaves its job and its sink to the stage that replaces it", async () => {
        const rows = 100_000;
        const engine = openEngine();
        const job = binding.createJob(engine);
        const source = await binding.openSource(engine, memorySource(rows));
        const spec = partitionSpec({ nullKeys: "equal", carry: [0] });
        const sink = binding.createQueueSink(job, twoColumns, {
            batchRows: 1 << 14,
            batchBytes: 1 << 30,
            maxBatches: 2,
            kept: false
        });
        const groups: NativeGroupBySpec = {
            keyFields: [0],
            aggregates: [{ kind: "countRows", field: -1, resultType: int64Column("count"), decimalScale: 0 }],
            ...{ rowNumberField: -1, schedule: new Int32Array(0), tableBytes: 1 << 16, workers: 2, hashMask: allBits }
        };
        const batches = drain(sink);
        await expect(binding.groupSource(job, source, spec, groups, sink)).rejects.toMatchObject({
            code: "BUDGET_TOO_SMALL",
            details: { reason: "tableFull" }
        });
        const partitions = binding.createPartitions(job, spec);
        await binding.partitionSource(job, partitions, source);
        await binding.finishPartitions(job, partitions);
        const schedule = Int32Array.from({ length: 8 }, (_, partition) => partition);
        const larger = { ...groups, schedule, tableBytes: 1 << 27 };
        expect(await binding.groupPartitions(job, partitions, larger, sink)).toBe(rows);
        const keys = (await batches).flatMap((batch) => [...int64Values(batch, 0)]);
        expect(new Set(keys).size).toBe(rows);
    });
});

describe("a queue", () => {
    test("serves one stage only", async () => {
        const { job, sink } = openQueue(100);
        await binding.generate(job, generateSpec(1000), sink);
        await drain(sink);
        await expect(binding.generate(job, generateSpec(1000), sink)).rejects.toThrow(/stream of this sink has ended/);
    });

    test("whose handle is lost does not stop its stage", async () => {
        const job = binding.createJob(openEngine());
        const stage = (() => {
            const sink = binding.createQueueSink(job, twoColumns, {
                batchRows: 1 << 14,
                batchBytes: 1 << 30,
                maxBatches: 100,
                kept: false
            });
            return binding.generate(job, generateSpec(10_000), sink);
        })();
        expect(await stage).toBe(10_000);
    });
});
