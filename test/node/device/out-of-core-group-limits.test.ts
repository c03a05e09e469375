// SPDX-License-Identifier: Apache-2.0
// When group-bys run out of core, what explain and reports say of them, and what becomes of them when something fails.
import { rmSync, truncateSync } from "node:fs";
import { Decimal, Float64, Int32, makeVector, Table, Utf8, vectorFromArray } from "apache-arrow";
import { type Query, type Runtime, type SpillwayError } from "spillway";
import { afterEach, describe, expect, test } from "vitest";
import { behave, withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { Sandbox } from "../../support/sandbox.js";
import { knobs } from "../../support/knobs.js";

useGpu();

const mebibyte = 2 ** 20;
const forced = { device: "gpu", memory: { device: "64MiB", host: "256MiB" }, debug: { outOfCore: true } } as const;

afterEach(() => behave(undefined));

/** Each key comes `times` times, the repetitions far apart. */
function table(rows: number, times = 2): Table {
    const keys = BigInt64Array.from({ length: rows }, (_, i) => BigInt(i % Math.ceil(rows / times)));
    return new Table({ k: makeVector(keys), v: makeVector(Int32Array.from({ length: rows }, (_, i) => i)) });
}

function groupOf(runtime: Runtime, rows = 3000, times = 2): Query {
    const aggregates = { n: { count: "*" }, sum: { sum: "v" } } as const;
    return runtime.groupBy(runtime.fromTable(table(rows, times)), { keys: ["k"], aggregates });
}

describe("the plan", () => {
    test("takes a group-by whose tables do not fit out of core, with the memory that is allowed", async () => {
        const rows = 1_800_000;
        await withRuntime({ device: "gpu", memory: { device: "52MiB", host: "512MiB" } }, async (runtime) => {
            const query = groupOf(runtime, rows, 20);
            const explained = await query.explain();
            expect(explained.plan.stages.map(({ kind }) => kind)).toEqual(["deviceOutOfCoreGroupBy"]);
            expect(explained.plan.deviceMemory?.estimatedBytes).toBeLessThanOrEqual(52 * mebibyte);
            let found = 0;
            for await (const batch of query.batches()) found += batch.numRows;
            expect(found).toBe(rows / 20);
            const report = query.report();
            expect(report).toMatchObject({ device: "gpu", rowsOut: rows / 20 });
            expect(report?.devicePeakBytes).toBeLessThanOrEqual(52 * mebibyte);
        });
        await withRuntime({ device: "gpu", memory: { device: "1GiB", host: "512MiB" } }, async (runtime) => {
            const { plan } = await groupOf(runtime, rows, 20).explain();
            expect(plan.stages.map(({ kind }) => kind)).toEqual(["upload", "deviceGroup", "deliver"]);
        });
    });

    test("says what the link carries, and the report what it carried", async () => {
        await withRuntime(forced, async (runtime) => {
            const query = groupOf(runtime);
            const text = String(await query.explain());
            expect(text).toMatch(/group: out of core on the GPU: chunks aggregated and partitioned/);
            expect(text).toMatch(/2\^5 partitions, pages for [\d,]+ groups in GPU memory, chunks of [\d,]+ rows/);
            expect(text).toMatch(/link: [\d.]+ KiB to the GPU, [\d.]+ KiB from it, with 0 B of spilled rows each way/);
            expect(text).toMatch(/read [\d.]+ ms, resident partitions [\d.]+ ms, spilled partitions [\d.]+ ms/);
            expect((await query.toTable()).numRows).toBe(1500);
            const { h2dBytes, d2hBytes, predicted, ...told } = query.report()!.stages[0]!.device!.outOfCoreGroupBy!;
            expect(h2dBytes).toBe(3000 * 12);
            expect(predicted.h2dBytes).toBe(h2dBytes);
            expect(d2hBytes).toBe(1500 * 24);
            expect(told).toMatchObject({ partitions: 32, residentPartitions: 32, spilledRows: 0, spilledBytes: 0 });
            expect(query.report()?.uploadedBytes).toBe(h2dBytes);
        });
        const debug = { outOfCore: true, residentShare: 0, radixBits: 4, chunkRows: 64 };
        await withRuntime({ ...forced, ...knobs(debug) }, async (runtime) => {
            const query = groupOf(runtime);
            expect(String(await query.explain())).toContain("2^4 partitions, pages for 128 groups");
            expect(await query.count()).toBe(1500);
            const { spilledRows, spilledBytes, h2dBytes } = query.report()!.stages[0]!.device!.outOfCoreGroupBy!;
            expect(spilledRows).toBeGreaterThan(1000);
            // Counted groups have no sums.
            expect(h2dBytes).toBe(spilledBytes + 3000 * 8);
        });
    });

    test("says why a group-by cannot run out of core", async () => {
        const names = ["k", "a", ...Array.from({ length: 14 }, (_, i) => `v${i}`)];
        const wide = new Table(Object.fromEntries(names.map((name) => [name, makeVector(BigInt64Array.of(1n, 2n))])));
        const sums = Object.fromEntries(names.slice(1).map((name) => [name, { sum: name }]));
        const text = new Table({
            t: vectorFromArray(["a", null], new Utf8()),
            k: vectorFromArray([1n, null], wide.schema.fields[0]!.type),
            i: vectorFromArray([1, null], new Int32()),
            d: makeVector({ type: new Decimal(2, 60, 256), data: new Uint32Array(16) })
        });
        const of =
            (input: Table, keys: string[], aggregates: Record<string, object>, more = {}) =>
            (r: Runtime) =>
                r.groupBy(r.fromTable(input), { keys, aggregates: aggregates as { a: { sum: string } }, ...more });
        const cases: [(runtime: Runtime) => Query, RegExp][] = [
            [
                (r) => {
                    const stream = r.fromBatches(wide.schema, async function* () {
                        for (const batch of wide.batches) yield await Promise.resolve(batch);
                    });
                    return r.groupBy(stream, { keys: ["k"], aggregates: sums as { a: { sum: string } } });
                },
                /28 numbers are added up for a key, which takes 2 group-bys, and the stream `\w+` comes once/
            ],
            [of(text, ["i"], { a: { sum: "d" } }), /`sum` of column `d` \(Decimal256\(60, 2\)\)/],
            [of(wide, ["k"], { a: { sum: "a" } }, { algorithm: "pgb-tr" }), /"pgb-tr" was asked for/]
        ];
        await withRuntime(forced, async (runtime) => {
            await withRuntime({ ...forced, device: "auto" }, async (automatic) => {
                for (const [make, reason] of cases) {
                    await expect(make(runtime).toTable()).rejects.toMatchObject({
                        code: "UNSUPPORTED_TYPE",
                        details: { option: "device" },
                        message: expect.stringMatching(reason) as string
                    });
                    const query = make(automatic);
                    await query.toTable();
                    expect(query.report()).toMatchObject({ device: "cpu" });
                    expect(query.report()?.deviceReason).toMatch(reason);
                }
            });
            const byText = of(text, ["t"], { n: { count: "t" } })(runtime);
            expect(
                (await byText.toTable())
                    .toArray()
                    .map(({ t, n }) => [t, Number(n)])
                    .sort()
            ).toEqual([
                [null, 0],
                ["a", 1]
            ]);
        });
    });

    test("says so where the memory is too little, and what would do", async () => {
        const counted = async (device: string): Promise<number> =>
            await withRuntime({ ...forced, memory: { device } }, async (runtime) => await groupOf(runtime).count());
        const error: unknown = await counted("24MiB").catch((thrown: unknown) => thrown);
        expect(error).toMatchObject({ code: "BUDGET_TOO_SMALL", details: { tier: "device" } });
        const smallest = String((error as SpillwayError).details["smallest"]);
        expect(await counted(smallest)).toBe(1500);
        await expect(counted(`${parseInt(smallest) - 1}MiB`)).rejects.toMatchObject({ details: { smallest } });
    });

    test("names the least of both ways where tables do not fit and their rows do not either", async () => {
        const counted = async (device: string): Promise<number> =>
            await withRuntime({ device: "gpu", memory: { device, host: "512MiB" } }, async (runtime) => {
                return await groupOf(runtime, 1_800_000, 20).count();
            });
        const error: unknown = await counted("24MiB").catch((thrown: unknown) => thrown);
        const smallest = String((error as SpillwayError).details["smallest"]);
        expect(await counted(smallest)).toBe(90_000);
        await expect(counted(`${parseInt(smallest) - 1}MiB`)).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL" });
    });

    // The memory that the query asked for left out that of a file's batches.
    test("has host memory for spilled groups beside the batches of a file", async () => {
        using sandbox = new Sandbox();
        const debug = { outOfCore: true, chunkRows: 1024, radixBits: 3, residentShare: 0 };
        const numbers = Array.from({ length: 60_000 }, (_, i) => (i % 7 === 0 ? null : i % 100));
        const rows = new Table({
            k: vectorFromArray(numbers, new Float64()),
            v: vectorFromArray(numbers, new Float64())
        });
        await withRuntime(
            { device: "gpu", memory: { device: "40MiB", host: "1GiB" }, ...knobs(debug) },
            async (runtime) => {
                const aggregates = { sum: { sum: "v" }, mean: { mean: "v" } } as const;
                const query = runtime.groupBy(runtime.fromTable(rows), { keys: ["k"], aggregates });
                const groups = await query.toArrowFile(sandbox.path("groups.arrow"));
                expect(groups).toBe(new Set(numbers).size);
                expect(query.report()).toMatchObject({ device: "gpu" });
            }
        );
    });
});

describe("a running group-by", () => {
    const memory = { device: "128MiB", host: "256MiB" };
    const chunked = { device: "gpu", memory, ...knobs({ outOfCore: true, chunkRows: 128 }) } as const;

    test.skipIf(usesRealGpu)("ends at once when it is aborted, and the next one runs", async () => {
        await withRuntime(chunked, async (runtime) => {
            behave("slow");
            const controller = new AbortController();
            setTimeout(() => controller.abort(), 50);
            const reason = { name: "AbortError" };
            await expect(groupOf(runtime).count({ signal: controller.signal })).rejects.toMatchObject(reason);
            behave(undefined);
            expect(await groupOf(runtime).count()).toBe(1500);
            expect(runtime.memory().host.usedBytes).toBe(0);
        });
    });

    test("ends when its reader does, and waits for one that runs queries of its own", async () => {
        await withRuntime(chunked, async (runtime) => {
            for await (const batch of groupOf(runtime).batches({ batchRows: 10 })) {
                expect(batch.numRows).toBeGreaterThan(0);
                break;
            }
            let rows = 0;
            for await (const batch of groupOf(runtime).batches({ batchRows: 500 })) {
                rows += batch.numRows;
                expect(await groupOf(runtime, 300).count()).toBe(150);
            }
            expect(rows).toBe(1500);
        });
    });

    test("ends when its input does, and the next one runs", async () => {
        using sandbox = new Sandbox();
        await withRuntime(chunked, async (runtime) => {
            const path = sandbox.write(table(50_000));
            const input = await runtime.fromArrowFile(path);
            const query = runtime.groupBy(input, { keys: ["k"], aggregates: { n: { count: "*" } } });
            truncateSync(path, 1000);
            await expect(query.toTable()).rejects.toMatchObject({ code: expect.stringMatching(/^FILE_/) as string });
            rmSync(path);
            expect(await groupOf(runtime).count()).toBe(1500);
            expect(runtime.memory().host.usedBytes).toBe(0);
        });
    });

    test.skipIf(usesRealGpu)("a GPU without memory is an error, or the CPU engine's turn", async () => {
        await withRuntime(chunked, async (runtime) => {
            expect(await groupOf(runtime).count()).toBe(1500);
            behave("refuse");
            await expect(groupOf(runtime).count()).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
            behave(undefined);
            expect(await groupOf(runtime).count()).toBe(1500);
        });
        // Groups that nobody has seen can be those of another engine.
        await withRuntime({ ...chunked, device: "auto" }, async (runtime) => {
            await groupOf(runtime).count();
            behave("refuse");
            const query = groupOf(runtime);
            expect((await query.toTable()).numRows).toBe(1500);
            expect(query.report()).toMatchObject({ device: "cpu" });
            let rows = 0;
            for await (const batch of groupOf(runtime).batches()) rows += batch.numRows;
            expect(rows).toBe(1500);
        });
    });
});
