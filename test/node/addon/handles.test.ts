// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { EngineHandle, JobHandle, SinkHandle } from "../../../src/native/binding.js";
import { Sandbox } from "../../support/sandbox.js";
import {
    binding,
    drain,
    generateSpec,
    joinSpec,
    memorySource,
    openEngine,
    partitionSpec,
    twoColumns
} from "./support.js";

const wrong = (value: unknown): never => value as never;

describe("a handle of the wrong kind", () => {
    const engine = openEngine();
    const job = binding.createJob(engine);
    const values: [string, unknown][] = [
        ["a handle of another kind", job],
        ["a plain object", {}],
        ["null", null],
        ["nothing", undefined],
        ["a number", 1]
    ];
    test.each(values)("%s is refused by functions that return a value", (_, value) => {
        expect(() => binding.engineMemory(wrong(value))).toThrow(
            expect.objectContaining({ code: "INVALID_ARGUMENT", details: { handle: "runtime" } })
        );
        expect(() => binding.closeSink(wrong(value))).toThrow(/expected a sink handle/);
    });

    test.each(values)("%s makes functions that return a promise reject", async (_, value) => {
        const promise = binding.openSource(wrong(value), memorySource(1));
        await expect(promise).rejects.toMatchObject({ code: "INVALID_ARGUMENT", details: { handle: "runtime" } });
    });

    test("makes a JS error with code, message and details", () => {
        let failure: unknown;
        try {
            binding.jobProgress(wrong(engine));
        } catch (error) {
            failure = error;
        }
        expect(failure).toBeInstanceOf(Error);
        expect(failure).toMatchObject({
            code: "INVALID_ARGUMENT",
            message: expect.stringContaining("job handle") as string,
            details: { handle: "job" }
        });
    });
});

describe("a closed handle", () => {
    test("is refused, closing it again is not", async () => {
        const engine = openEngine();
        const job = binding.createJob(engine);
        const source = await binding.openSource(engine, memorySource(10));
        binding.closeSource(source);
        binding.closeSource(source);
        const options = { sampleRows: 1, exactRange: false, workers: 1 };
        await expect(binding.keyStatistics(job, source, [], options)).rejects.toMatchObject({
            code: "CLOSED",
            details: { handle: "source" }
        });
        binding.closeEngine(engine);
        binding.closeEngine(engine);
        expect(() => binding.createJob(engine)).toThrow(expect.objectContaining({ code: "CLOSED" }));
    });

    test("may be closed while a stage uses it", async () => {
        const engine = openEngine();
        const job = binding.createJob(engine);
        const source = await binding.openSource(engine, memorySource(200_000));
        const partitions = binding.createPartitions(job, partitionSpec());
        const pass = binding.partitionSource(job, partitions, source);
        binding.closeSource(source);
        binding.closePartitions(partitions);
        await pass;
        expect(binding.jobProgress(job).rowsIn).toBe(200_000);
        await expect(binding.finishPartitions(job, partitions)).rejects.toMatchObject({ code: "CLOSED" });
    });
});

describe("an engine", () => {
    const started = (engine: EngineHandle): [JobHandle, SinkHandle, Promise<number>] => {
        const job = binding.createJob(engine);
        const sink = binding.createQueueSink(job, twoColumns, {
            batchRows: 1 << 14,
            batchBytes: 1 << 30,
            maxBatches: 1,
            kept: false
        });
        return [job, sink, binding.generate(job, generateSpec(1_000_000), sink)];
    };

    test("is not closed while one of its jobs runs", async () => {
        const engine = openEngine();
        const [, sink, rows] = started(engine);
        expect(() => binding.closeEngine(engine)).toThrow(/1 of its jobs still run/);
        await drain(sink);
        await rows;
        binding.closeEngine(engine);
    });

    test("gives its memory back when handles are closed", async () => {
        const engine = openEngine();
        const job = binding.createJob(engine);
        const source = await binding.openSource(engine, memorySource(300_000));
        const partitions = binding.createPartitions(job, partitionSpec());
        await binding.partitionSource(job, partitions, source);
        expect(binding.engineMemory(engine).usedBytes).toBeGreaterThan(0);
        binding.closePartitions(partitions);
        binding.closeSource(source);
        // A stage that starts now finds the budget free: it waits until what was closed has been given back. One of
        // few batches is opened by the call itself.
        const again = await binding.openSource(engine, memorySource(100, 100));
        expect(binding.engineMemory(engine)).toMatchObject({ usedBytes: 0, limitBytes: 1 << 30 });
        expect(binding.engineMemory(engine).peakBytes).toBeGreaterThan(0);
        binding.closeSource(again);
        binding.closeEngine(engine);
    });

    test("tells when everything closed is gone", async () => {
        const engine = openEngine();
        const job = binding.createJob(engine);
        const source = await binding.openSource(engine, memorySource(300_000));
        const partitions = binding.createPartitions(job, partitionSpec());
        await binding.partitionSource(job, partitions, source);
        binding.closePartitions(partitions);
        await binding.drainEngine(engine);
        expect(binding.engineMemory(engine).usedBytes).toBe(0);
    });

    test("has no spill file open once it is drained and trimmed, whoever held the partitions last", async () => {
        using sandbox = new Sandbox();
        for (let run = 0; run < 60; run++) {
            const engine = binding.createEngine({ memoryBytes: 1 << 28, spillDirectory: sandbox.spill, threads: 2 });
            const job = binding.createJob(engine);
            const partitions = binding.createPartitions(job, partitionSpec({ spill: true, forceSpill: true }));
            const sink = binding.createPartitionSink(job, partitions, 1 << 30);
            await binding.generate(job, generateSpec(200_000), sink);
            binding.closeSink(sink);
            binding.closePartitions(partitions); // the sink, which is freed in the background, refers to them
            await binding.drainEngine(engine);
            await binding.trimEngine(engine);
            expect(sandbox.openFiles(), `run ${run}`).toEqual([]);
            binding.closeEngine(engine);
        }
    });

    test("gives cached blocks back as far as other memory needs their room", async () => {
        const engine = openEngine(64 << 20);
        const job = binding.createJob(engine);
        const partitions = binding.createPartitions(job, partitionSpec({ poolBytes: 32 << 20 }));
        const source = await binding.openSource(engine, memorySource(1_000_000));
        await binding.partitionSource(job, partitions, source);
        await binding.finishPartitions(job, partitions);
        binding.closePartitions(partitions);
        await binding.drainEngine(engine);
        const unused = () => binding.deliveredMemory(engine).unusedBytes;
        const [used, before] = [binding.engineMemory(engine).usedBytes, unused()];
        const cached = (64 << 20) - used - before;
        expect(cached).toBeGreaterThan(8 << 20);
        binding.trimCache(engine, before);
        expect(unused()).toBe(before);
        binding.trimCache(engine, before + (4 << 20));
        expect(unused()).toBeGreaterThanOrEqual(before + (4 << 20));
        expect(unused()).toBeLessThan(before + cached);
        binding.trimCache(engine, 2 ** 40);
        expect(unused()).toBe((64 << 20) - used);
    });

    test("cancels a job that waits for its consumer", async () => {
        const engine = openEngine();
        const [job, sink, rows] = started(engine);
        await binding.nextBatch(sink);
        binding.cancelJob(job);
        await expect(rows).rejects.toMatchObject({ code: "ABORTED" });
        const next = binding.createCountSink(job);
        await expect(binding.generate(job, generateSpec(10), next)).rejects.toMatchObject({ code: "ABORTED" });
    });
});

describe("one object in two stages", () => {
    test("is refused", async () => {
        const engine = openEngine();
        const job = binding.createJob(engine);
        const source = await binding.openSource(engine, memorySource(100_000));
        const partitions = binding.createPartitions(job, partitionSpec());
        const first = binding.partitionSource(job, partitions, source);
        await expect(binding.finishPartitions(job, partitions)).rejects.toThrow(/in use by another stage/);
        await first;
        await binding.finishPartitions(job, partitions);
        await expect(binding.partitionSource(job, partitions, source)).rejects.toThrow(/take no more rows/);
        const sink = binding.createCountSink(job);
        await expect(binding.joinPartitions(job, partitions, partitions, joinSpec(), sink)).rejects.toThrow(/in use/);
    });

    test("cannot use the same rows twice", async () => {
        const engine = openEngine();
        const job = binding.createJob(engine);
        const source = await binding.openSource(engine, memorySource(1000));
        const sides = [0, 1].map(() => binding.createPartitions(job, partitionSpec()));
        for (const side of sides) await binding.partitionSource(job, side, source);
        const sink = binding.createCountSink(job);
        const join = () => binding.joinPartitions(job, sides[0]!, sides[1]!, joinSpec(), sink);
        await expect(join()).rejects.toThrow(/finishPartitions first/);
        for (const side of sides) await binding.finishPartitions(job, side);
        expect(await join()).toBe(1000);
        await expect(join()).rejects.toThrow(/used up by an earlier stage/);
    });
});
