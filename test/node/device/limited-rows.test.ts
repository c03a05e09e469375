// SPDX-License-Identifier: Apache-2.0
// Queries of some rows on the GPU: in its memory, in pieces, out of core, and below other operators.
import { Int32, Table, vectorFromArray } from "apache-arrow";
import type { JoinAlgorithm, Query, Runtime, RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu } from "../../support/gpu.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

const numbers = (rows: number, make: (i: number) => number) =>
    vectorFromArray(
        Array.from({ length: rows }, (_, i) => make(i)),
        new Int32()
    );

/** Keys from 0 on, each once, and seven times their value. */
const keyed = (rows: number, name: string): Table =>
    new Table({ k: numbers(rows, (i) => i), [name]: numbers(rows, (i) => 7 * i) });

const joinOf = (runtime: Runtime, rows: number, more: { algorithm?: JoinAlgorithm } = {}): Query => {
    const [left, right] = [runtime.fromTable(keyed(rows, "a")), runtime.fromTable(keyed(rows, "b"))];
    return runtime.join({ left, right, on: "k", ...more });
};

const onGpu = <T>(body: (runtime: Runtime) => Promise<T>, options: RuntimeOptions = {}): Promise<T> =>
    withRuntime({ device: "gpu", memory: { host: "256MiB", device: "64MiB" }, ...options }, body);

async function expectRows(query: Query, rows: number): Promise<void> {
    const table = await query.toTable();
    expect(table.numRows).toBe(rows);
    const seen = new Set<unknown>();
    for (let i = 0; i < rows; i++) {
        const key = Number(table.getChild("k")?.get(i));
        expect([table.getChild("a")?.get(i), table.getChild("b")?.get(i)]).toEqual([7 * key, 7 * key]);
        seen.add(key);
    }
    expect(seen.size).toBe(rows);
    expect(query.report()).toMatchObject({ device: "gpu", rowsOut: rows });
}

describe("in GPU memory", () => {
    test.each([0, 1, 500, 1000, 2000])("%d rows are as many as that, in every sink", async (limit) => {
        await onGpu(async (runtime) => {
            const query = joinOf(runtime, 1000).limit(limit);
            const rows = Math.min(limit, 1000);
            if (limit > 0) await expectRows(query, rows);
            expect(await query.count()).toBe(rows);
            let streamed = 0;
            for await (const batch of query) streamed += batch.numRows;
            expect(streamed).toBe(rows);
            using sandbox = new Sandbox();
            expect(await query.toArrowFile(sandbox.path("rows.arrow"))).toBe(rows);
        });
    });

    test.each(["npj", "smj-ur"] as const)("%s is not replaced where it was asked for", async (algorithm) => {
        await onGpu(async (runtime) => {
            const query = joinOf(runtime, 1000, { algorithm }).limit(3);
            await expectRows(query, 3);
            expect(query.report()?.stages.map(({ device }) => device?.algorithm)).toContain(algorithm);
        });
    });

    test("a large result is made in pieces, of which the first one is the last", async () => {
        await onGpu(async (runtime) => {
            const one = new Table({ one: numbers(2000, () => 1), k: numbers(2000, (i) => i) });
            const [left, right] = [runtime.fromTable(one), runtime.fromTable(one)];
            const query = runtime.join({ left, right, on: "one", hints: { resultRows: 4e6 } }).limit(50);
            const explained = await query.explain();
            expect(String(explained)).toContain("in pieces of 65,536 rows");
            expect((await query.toTable()).numRows).toBe(50);
            expect(query.report()).toMatchObject({ device: "gpu", rowsOut: 50 });
        });
    });

    test("the first rows alone are uploaded where they are likely to do", async () => {
        await onGpu(async (runtime) => {
            const query = joinOf(runtime, 600_000).limit(10);
            const { plan } = await query.explain();
            expect([plan.device, plan.first?.device]).toEqual(["gpu", "gpu"]);
            await expectRows(query, 10);
            expect(query.report()?.uploadedBytes).toBeLessThan(600_000);
        });
    });

    test("groups are cut, too", async () => {
        await onGpu(async (runtime) => {
            const groups = runtime
                .fromTable(keyed(1000, "a"))
                .groupBy({ keys: ["k"], aggregates: { b: { max: "a" } } });
            const query = groups.limit(5);
            expect((await query.toTable()).numRows).toBe(5);
            expect(await query.count()).toBe(5);
            expect(query.report()?.device).toBe("gpu");
        });
    });
});

describe("out of core", () => {
    const options = { debug: { outOfCore: true } };

    test.each(["staged", "triton", "stream-probe"] as const)(
        "%s ends at the last row that is wanted",
        async (algorithm) => {
            await onGpu(async (runtime) => {
                const query = joinOf(runtime, 100_000, { algorithm }).limit(1000);
                await expectRows(query, 1000);
                expect(await query.count()).toBe(1000);
            });
        }
    );

    test("a group-by, and a tree of joins", async () => {
        await onGpu(async (runtime) => {
            const keys = runtime.fromTable(keyed(50_000, "a"));
            const groups = keys.groupBy({ keys: ["k"], aggregates: { b: { sum: "a" } } }).limit(7);
            expect((await groups.toTable()).numRows).toBe(7);
            const tree = joinOf(runtime, 50_000).join(runtime.fromTable(keyed(50_000, "c")), { on: "k" });
            await expectRows(tree.limit(9), 9);
        }, options);
    });

    test("a stream is not read to its end", async () => {
        await onGpu(async (runtime) => {
            const [batch] = keyed(100_000, "a").batches;
            let given = 0;
            const stream = runtime.fromBatches(batch!.schema, async function* () {
                for (; given < 2000; given++) yield batch!;
            });
            const query = stream.join(runtime.fromTable(keyed(1000, "b")), { on: "k", hints: { buildSide: "right" } });
            expect((await query.limit(100).toTable()).numRows).toBe(100);
            expect(given).toBeLessThan(1000);
        }, options);
    });
});

describe("below other operators rows wait in host memory", () => {
    test.each([{}, { debug: { outOfCore: true } }])("%o", async (options) => {
        await onGpu(async (runtime) => {
            const query = joinOf(runtime, 1000)
                .limit(40)
                .join(runtime.fromTable(keyed(1000, "c")), { on: "k" });
            await expectRows(query, 40);
            const grouped = joinOf(runtime, 1000)
                .limit(40)
                .groupBy({ aggregates: { rows: { count: "*" } } });
            expect(Number((await grouped.toTable()).getChild("rows")?.get(0))).toBe(40);
            const groups = runtime
                .fromTable(keyed(1000, "a"))
                .groupBy({ keys: ["k"], aggregates: { c: { max: "a" } } });
            const joined = groups.limit(8).join(runtime.fromTable(keyed(1000, "b")), { on: "k" });
            expect((await joined.toTable()).numRows).toBe(8);
            expect(joined.report()?.device).toBe("gpu");
        }, options);
    });
});

test("with device auto the engine that is faster for the first rows has them", async () => {
    await withRuntime({ device: "auto", warm: true, memory: { host: "256MiB", device: "64MiB" } }, async (runtime) => {
        const query = joinOf(runtime, 600_000).limit(10);
        const { plan } = await query.explain();
        expect(plan.device).toBe("cpu");
        expect((await query.toTable()).numRows).toBe(10);
    });
});
