// SPDX-License-Identifier: Apache-2.0
// Group-bys out of core that spill to disk below host memory: the same groups as the CPU engine gives, what reports
// say, and what is left when something fails.
import { rmSync } from "node:fs";
import { Int32, makeVector, Table, vectorFromArray } from "apache-arrow";
import type { Query, Runtime, RuntimeOptions } from "spillway";
import { afterEach, beforeEach, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { errorOf, runChild } from "../../support/child.js";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox, until } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

useGpu();

let sandbox: Sandbox;
beforeEach(() => (sandbox = new Sandbox()));
afterEach(() => sandbox[Symbol.dispose]());

async function withSpill<T>(options: RuntimeOptions, body: (runtime: Runtime) => Promise<T>): Promise<T> {
    const memory = { host: "64MiB", device: "64MiB", spillDirectory: sandbox.spill, ...options.memory };
    return await withRuntime({ ...options, memory }, body);
}

/** Each key comes twice, some are NULL, and so are some of the numbers. */
function table(rows: number): Table {
    const keys = Array.from({ length: rows }, (_, i) => (i % 17 === 3 ? null : i % Math.ceil(rows / 2)));
    const numbers = Array.from({ length: rows }, (_, i) => (i % 5 === 0 ? null : i));
    const wide = BigInt64Array.from({ length: rows }, (_, i) => BigInt(i) * 3n);
    return new Table({
        k: vectorFromArray(keys, new Int32()),
        n: vectorFromArray(numbers, new Int32()),
        w: makeVector(wide)
    });
}

const aggregateSets = [
    { n: { count: "*" }, sum: { sum: "n" } },
    { least: { min: "w" }, most: { max: "n" } },
    { mean: { mean: "n" } },
    { sum: { sum: "w" } },
    {}
] as const;

function groupOf(runtime: Runtime, rows = 3000, aggregates: object = aggregateSets[0]): Query {
    return runtime.groupBy(runtime.fromTable(table(rows)), { keys: ["k"], aggregates: { ...aggregates } });
}

const onDisk = { outOfCore: true, chunkRows: 64, radixBits: 3, residentShare: 0, hostSpillBytes: 2000 };

test("groups are those of the CPU engine", async () => {
    await withSpill({ device: "cpu" }, async (cpu) => {
        await withSpill({ device: "gpu", ...knobs(onDisk) }, async (gpu) => {
            for (const aggregates of aggregateSets) {
                const what = Object.keys(aggregates).join(", ");
                const expected = rowTexts(cellTable(await groupOf(cpu, 3000, aggregates).toTable()));
                const query = groupOf(gpu, 3000, aggregates);
                expectSameRows(rowTexts(cellTable(await query.toTable())), expected, what);
                const report = query.report()!;
                const told = report.stages[0]!.device!.outOfCoreGroupBy!;
                expect(told.diskWrittenBytes, what).toBeGreaterThan(1000);
                expect(told.diskReadBytes, what).toBeGreaterThanOrEqual(told.diskWrittenBytes);
                expect(report).toMatchObject({
                    spilledBytes: told.diskWrittenBytes,
                    unspilledBytes: told.diskReadBytes,
                    device: "gpu"
                });
                expect(await query.count()).toBe(expected.length);
                expect(sandbox.leftovers()).toEqual([]);
                expect(gpu.memory().host.usedBytes).toBe(0);
            }
        });
    });
    expect(sandbox.openFiles()).toEqual([]);
});

test("no file is written where host memory holds what is spilled", async () => {
    const { hostSpillBytes: _, ...debug } = onDisk;
    await withSpill({ device: "gpu", ...knobs(debug) }, async (gpu) => {
        const query = groupOf(gpu);
        expect(await query.count()).toBeGreaterThan(1000);
        const { spilledRows, diskWrittenBytes, diskReadBytes } = query.report()!.stages[0]!.device!.outOfCoreGroupBy!;
        expect(spilledRows).toBeGreaterThan(0);
        expect([diskWrittenBytes, diskReadBytes]).toEqual([0, 0]);
    });
});

test("explain says what goes to disk", async () => {
    await withSpill({ device: "gpu", ...knobs({ ...onDisk, hostSpillBytes: 0 }) }, async (gpu) => {
        const explained = await groupOf(gpu).explain();
        expect(String(explained)).toMatch(/spilled to host memory and disk/);
        expect(String(explained)).toMatch(/disk: [\d.]+ KiB of them, 0 B stay in host memory/);
        expect(explained.plan.stages[0]!.predictedSpillBytes).toBeGreaterThan(0);
    });
});

/** More groups than are expected leave GPU memory, and a result that needs host memory leaves little of it. */
test("more groups than were expected go to disk, within the budget", async () => {
    const rows = 400_000;
    const memory = { host: "10MiB" };
    const debug = { outOfCore: true, chunkRows: 1024, radixBits: 3, residentShare: 0 };
    await withSpill({ device: "gpu", memory, ...knobs(debug) }, async (gpu) => {
        const input = await gpu.fromArrowFile(sandbox.write(table(rows)));
        const aggregates = { n: { count: "*" }, sum: { sum: "n" } } as const;
        const query = gpu.groupBy(input, { keys: ["k"], aggregates, hints: { groups: 10 } });
        let found = 0;
        for await (const batch of query.batches()) found += batch.numRows;
        expect(found).toBe(rows / 2 + 1);
        const report = query.report()!;
        expect(report).toMatchObject({ device: "gpu" });
        expect(report.peakBytes).toBeLessThanOrEqual(10 * 2 ** 20);
        expect(report.stages[0]!.device!.outOfCoreGroupBy!.diskWrittenBytes).toBeGreaterThan(0);
    });
    expect(sandbox.openFiles()).toEqual([]);
});

test("a spill folder that has gone is one error, and the next query runs", async () => {
    await withSpill({ device: "gpu", ...knobs(onDisk) }, async (gpu) => {
        rmSync(sandbox.spill, { recursive: true });
        await expect(groupOf(gpu).toTable()).rejects.toMatchObject({
            name: "SpillwayError",
            code: "BUDGET_TOO_SMALL",
            details: { tier: "host", option: "memory.host", otherOption: "memory.spillDirectory" }
        });
        expect(gpu.memory().host.usedBytes).toBe(0);
    });
    sandbox[Symbol.dispose]();
    sandbox = new Sandbox();
    await withSpill({ device: "gpu", ...knobs(onDisk) }, async (gpu) => {
        expect(await groupOf(gpu).count()).toBeGreaterThan(1000);
    });
});

test("a disk that is full is one error, and no file stays", async () => {
    const argument = {
        runtime: {
            ...{ threads: 2, device: "gpu", ...knobs({ ...onDisk, chunkRows: 1024 }) },
            memory: { host: "64MiB", device: "64MiB", spillDirectory: sandbox.spill }
        },
        left: sandbox.write(table(400_000)),
        groupBy: { keys: ["k"], aggregates: aggregateSets[0] },
        action: "table"
    };
    // No file may grow beyond 128 KiB (units of 512 bytes).
    const child = await runChild("query", argument, { wrapper: ["sh", "-c", 'ulimit -f 256 && exec "$@"', "sh"] });
    expect(errorOf(child)).toMatchObject({
        name: "SpillwayError",
        code: "DISK_FULL",
        details: { path: sandbox.spill }
    });
    await sandbox.expectClean();
});

test("a reader that stops early leaves nothing behind", async () => {
    await withSpill({ device: "gpu", ...knobs(onDisk) }, async (gpu) => {
        const query = groupOf(gpu);
        for await (const batch of query.batches({ batchRows: 10 })) {
            expect(batch.numRows).toBeGreaterThan(0);
            break;
        }
        await sandbox.expectClean();
        expect(await query.count()).toBeGreaterThan(1000);
        expect(gpu.memory().host.usedBytes).toBe(0);
    });
    expect(sandbox.openFiles()).toEqual([]);
});

test.skipIf(usesRealGpu)("an abort while rows are on disk leaves nothing behind", async () => {
    await withSpill({ device: "gpu", ...knobs(onDisk) }, async (gpu) => {
        process.env["SPILLWAY_FAKE_GPU"] = "slow"; // once all rows are there: several blocks of them are on disk
        try {
            const controller = new AbortController();
            const aborted = expect(groupOf(gpu, 200_000).toTable({ signal: controller.signal })).rejects.toMatchObject({
                name: "AbortError"
            });
            await until(() => sandbox.openFiles().length > 0, 10_000);
            controller.abort();
            await aborted;
        } finally {
            delete process.env["SPILLWAY_FAKE_GPU"];
        }
        await sandbox.expectClean();
        expect(gpu.memory().host.usedBytes).toBe(0);
        expect(await groupOf(gpu).count()).toBeGreaterThan(1000);
    });
    expect(sandbox.openFiles()).toEqual([]);
});
