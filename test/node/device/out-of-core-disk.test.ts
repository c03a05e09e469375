// SPDX-License-Identifier: Apache-2.0
// Joins out of core that spill to disk below host memory, and inputs of files larger than it: the same rows as the CPU
// engine gives, what reports say, and what is left when something fails.
import { readFileSync, rmSync } from "node:fs";
import { Int32, makeVector, Table, tableFromIPC, vectorFromArray } from "apache-arrow";
import { openRuntime, type Query, type Runtime, type RuntimeOptions } from "spillway";
import { afterEach, beforeEach, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { errorOf, resultOf, runChild } from "../../support/child.js";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { writeNumeric } from "../../support/numeric-files.js";
import { joinTypes } from "../../support/reference.js";
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

/** Keys 0, step, 2 step, ..., some of them NULL, and numbers of which some are NULL. */
function table(rows: number, step: number): Table {
    const keys = Array.from({ length: rows }, (_, i) => (i % 17 === 3 ? null : (i * step) % 1000));
    const numbers = Array.from({ length: rows }, (_, i) => (i % 5 === 0 ? null : i));
    const wide = BigInt64Array.from({ length: rows }, (_, i) => BigInt(i) * 3n);
    return new Table({
        k: vectorFromArray(keys, new Int32()),
        n: vectorFromArray(numbers, new Int32()),
        w: makeVector(wide)
    });
}

/** Keys 0, step, 2 step, ..., and numbers that cannot be packed into fewer bits. */
function uniqueKeys(rows: number, step: number): Table {
    const keys = Int32Array.from({ length: rows }, (_, i) => i * step);
    const wide = BigInt64Array.from({ length: rows }, (_, i) => BigInt.asIntN(64, BigInt(i) * 0x9e3779b97f4a7c15n));
    return new Table({ k: makeVector(keys), w: makeVector(wide) });
}

const onDisk = { outOfCore: true, chunkRows: 128, radixBits: 3, residentShare: 0.25, hostSpillBytes: 2000 };

test("rows of every type of join are those of the CPU engine", async () => {
    const tables = [table(900, 3), table(700, 2)] as const;
    await withSpill({ device: "cpu" }, async (cpu) => {
        await withSpill({ device: "gpu", ...knobs(onDisk) }, async (gpu) => {
            for (const type of joinTypes) {
                const queryOn = (runtime: Runtime) => {
                    const [left, right] = tables.map((given) => runtime.fromTable(given));
                    return runtime.join({ left: left!, right: right!, on: "k", type });
                };
                const expected = rowTexts(cellTable(await queryOn(cpu).toTable()));
                const query = queryOn(gpu);
                expectSameRows(rowTexts(cellTable(await query.toTable())), expected, type);
                const report = query.report()!;
                const told = report.stages[0]!.device!.outOfCore!;
                expect(told.diskWrittenBytes, type).toBeGreaterThan(1000);
                expect(told.diskReadBytes, type).toBeGreaterThanOrEqual(told.diskWrittenBytes);
                expect(report).toMatchObject({
                    spilledBytes: told.diskWrittenBytes,
                    unspilledBytes: told.diskReadBytes,
                    device: "gpu"
                });
                expect(sandbox.leftovers()).toEqual([]);
            }
        });
    });
    expect(sandbox.openFiles()).toEqual([]);
});

test("explain says what goes to disk", async () => {
    await withSpill({ device: "gpu", ...knobs({ ...onDisk, hostSpillBytes: 0 }) }, async (gpu) => {
        const query = gpu.join({ left: gpu.fromTable(table(900, 3)), right: gpu.fromTable(table(700, 2)), on: "k" });
        const explained = await query.explain();
        expect(String(explained)).toMatch(/spilled to host memory and disk/);
        expect(String(explained)).toMatch(/disk: [\d.]+ KiB of them, 0 B stay in host memory/);
        expect(explained.plan.stages[0]!.predictedSpillBytes).toBeGreaterThan(0);
    });
    const wrong = openRuntime({ debug: { hostSpillBytes: -1 } });
    await expect(wrong).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
});

test("a spill folder that has gone is an error that names both options, and the next query runs", async () => {
    const tables = [table(900, 3), table(700, 2)] as const;
    const codes: unknown[] = [];
    for (const options of [
        { device: "gpu", ...knobs(onDisk) } as const,
        { device: "cpu", debug: { forceSpill: true } } as const
    ]) {
        await withSpill(options, async (runtime) => {
            rmSync(sandbox.spill, { recursive: true });
            const query = runtime.join({
                left: runtime.fromTable(tables[0]),
                right: runtime.fromTable(tables[1]),
                on: "k"
            });
            const error = await query.toTable().catch((thrown: unknown) => thrown as { code: string; details: object });
            codes.push(error);
            expect(runtime.memory().host.usedBytes).toBe(0);
        });
        sandbox[Symbol.dispose]();
        sandbox = new Sandbox();
    }
    const [gpu, cpu] = codes;
    // The GPU keeps what it can in host memory, and finds out that it is full.
    const details = { tier: "host", option: "memory.host", otherOption: "memory.spillDirectory" };
    expect(gpu).toMatchObject({ code: "BUDGET_TOO_SMALL", details });
    expect(gpu).toMatchObject({ message: expect.stringContaining("does not exist") });
    expect(cpu).toMatchObject({ code: "INVALID_ARGUMENT", details: { option: "memory.spillDirectory" } });
    await withSpill({ device: "gpu", ...knobs(onDisk) }, async (runtime) => {
        const query = runtime.join({
            left: runtime.fromTable(tables[0]),
            right: runtime.fromTable(tables[1]),
            on: "k"
        });
        expect(await query.count()).toBeGreaterThan(0);
    });
});

test("a disk that is full is one error, no file stays, and the same runtime joins when there is room", async () => {
    const rows = 120_000;
    const [left, right] = [2, 3].map((step) => uniqueKeys(rows, step));
    const output = sandbox.path("joined.arrow");
    const argument = {
        runtime: {
            ...{ threads: 2, device: "gpu", ...knobs({ ...onDisk, chunkRows: 1024 }) },
            memory: { host: "64MiB", device: "64MiB", spillDirectory: sandbox.spill }
        },
        ...{ left: sandbox.write(left!), right: sandbox.write(right!), on: "k", output }
    };
    // No file may grow beyond 128 KiB (units of 512 bytes) until the child raises this limit.
    const child = await runChild("full-disk", argument, { wrapper: ["sh", "-c", 'ulimit -S -f 256; exec "$@"', "sh"] });
    expect(errorOf(child)).toMatchObject({
        name: "SpillwayError",
        code: "DISK_FULL",
        details: { path: sandbox.spill }
    });
    expect(child.stdout).toContain('used {"bytes":0}');
    const told = resultOf<{ rows: number; device: string; diskWrittenBytes: number }>(child);
    expect(told).toMatchObject({ rows: rows / 3, device: "gpu" });
    expect(told.diskWrittenBytes).toBeGreaterThan(2 ** 18);
    await withSpill({ device: "cpu" }, async (cpu) => {
        const query = cpu.join({ left: cpu.fromTable(left!), right: cpu.fromTable(right!), on: "k" });
        const expected = rowTexts(cellTable(await query.toTable()));
        expectSameRows(rowTexts(cellTable(tableFromIPC(readFileSync(output)))), expected, "joined after DISK_FULL");
    });
    await sandbox.expectClean();
});

test("a reader that stops early leaves nothing behind", async () => {
    await withSpill({ device: "gpu", ...knobs(onDisk) }, async (gpu) => {
        const query = gpu.join({ left: gpu.fromTable(table(900, 3)), right: gpu.fromTable(table(700, 2)), on: "k" });
        for await (const batch of query.batches({ batchRows: 10 })) {
            expect(batch.numRows).toBeGreaterThan(0);
            break;
        }
        await sandbox.expectClean();
        expect(await query.count()).toBeGreaterThan(0);
        expect(gpu.memory().host.usedBytes).toBe(0);
    });
    expect(sandbox.openFiles()).toEqual([]);
});

test.skipIf(usesRealGpu)("an abort while rows are on disk leaves nothing behind", async () => {
    await withSpill({ device: "gpu", ...knobs(onDisk) }, async (gpu) => {
        const joined = (rows: number): Query => {
            const [left, right] = [gpu.fromTable(table(rows, 3)), gpu.fromTable(table(700, 2))];
            return gpu.join({ left, right, on: "k", hints: { buildSide: "left" } });
        };
        process.env["SPILLWAY_FAKE_GPU"] = "slow"; // once the build rows are there: several blocks of them are on disk
        try {
            const controller = new AbortController();
            const aborted = expect(joined(200_000).toTable({ signal: controller.signal })).rejects.toMatchObject({
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
        expect(await joined(900).count()).toBeGreaterThan(0);
    });
    expect(sandbox.openFiles()).toEqual([]);
});

test("files larger than host memory are joined, and what is spilled of them too", async () => {
    const [rows, keys] = [400_000, 200_000];
    const side = (prefix: string): string => writeNumeric(sandbox.path(`${prefix}.arrow`), { rows, keys, prefix });
    const paths = [side("l"), side("r")] as const;
    const counts: number[] = [];
    const memory = { host: "5MiB" };
    const debug = { outOfCore: true, chunkRows: 4096, radixBits: 4, residentShare: 0 };
    for (const options of [
        { device: "gpu", memory, ...knobs(debug) },
        { device: "cpu", memory }
    ] as const) {
        await withSpill(options, async (runtime) => {
            const [left, right] = await Promise.all(paths.map((path) => runtime.fromArrowFile(path)));
            const query = runtime.join({ left: left!, right: right!, on: { lkey: "rkey" } });
            counts.push(await query.count());
            const report = query.report()!;
            expect(report.peakBytes).toBeLessThanOrEqual(5 * 2 ** 20);
            if (options.device === "cpu") return;
            const told = report.stages[0]!.device!.outOfCore!;
            expect(told.h2dBytes - told.spilledBytes.build - told.spilledBytes.probe).toBe(2 * rows * 8);
            expect(told.diskWrittenBytes).toBeGreaterThan(0);
            expect(report.bytesIn).toBeGreaterThanOrEqual(2 * rows * 8); // keys were sampled, too
        });
    }
    expect(counts[0]).toBe(counts[1]);
    expect(counts[0]).toBeGreaterThan(rows);
});
