// SPDX-License-Identifier: Apache-2.0
// Results that do not fit GPU memory: they leave it in pieces, counted first.
import { Int32, Table, Utf8, vectorFromArray } from "apache-arrow";
import { type JoinAlgorithm, type JoinType, type Query, type Runtime, type RuntimeOptions } from "spillway";
import { describe, expect, test } from "vitest";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import { tableJoins } from "../../support/table-joins.js";

useGpu();

const device = "1MiB";
const rows = 1200;

function numbers(make: (i: number) => number | null, count = rows) {
    return vectorFromArray(
        Array.from({ length: count }, (_, i) => make(i)),
        new Int32()
    );
}

const onGpu = <T>(options: RuntimeOptions, body: (runtime: Runtime) => Promise<T>): Promise<T> =>
    withRuntime({ device: "gpu", ...options }, body);

/** 1,440,000 pairs. */
function product(runtime: Runtime, hints = {}, algorithm: JoinAlgorithm = "auto"): Query {
    const table: Table = new Table({ one: numbers(() => 1), k: numbers((i) => i) });
    const [left, right] = [runtime.fromTable(table), runtime.fromTable(table)];
    return runtime.join({ left, right, on: "one", select: ["k", "k_right"], hints, algorithm });
}

function sumOf(table: Table, column: string): bigint {
    let sum = 0n;
    for (const value of table.getChild(column) ?? []) sum += BigInt(value as number);
    return sum;
}

async function expectProduct(query: Query): Promise<void> {
    const result = await query.toTable();
    expect(result.numRows).toBe(rows * rows);
    const sum = BigInt((rows * rows * (rows - 1)) / 2);
    expect(sumOf(result, "k")).toBe(sum);
    expect(sumOf(result, "k_right")).toBe(sum);
}

describe("a result larger than GPU memory", () => {
    test("that nobody expected: the join is made again, in pieces", async () => {
        await onGpu({ memory: { device } }, async (runtime) => {
            const query = product(runtime, { resultRows: 1 });
            expect(String(await query.explain())).not.toContain("in pieces");
            await expectProduct(query);
            const report = query.report();
            expect(report).toMatchObject({ device: "gpu", deviceReason: null, rowsOut: rows * rows });
            expect(report?.devicePieces).toBeGreaterThan(10);
            expect(report?.devicePeakBytes).toBeLessThanOrEqual(2 ** 20);
            expect(report?.stages.map(({ name }) => name)).toEqual(["upload", "upload", "join", "deliver"]);
        });
    });

    test("that the plan expects: pieces are planned, also with device auto", async () => {
        for (const options of [{}, { device: "auto", debug: { gpu: true } }] as RuntimeOptions[]) {
            await onGpu({ ...options, memory: { device } }, async (runtime) => {
                const query = product(runtime, { resultRows: rows * rows });
                const explained = await query.explain();
                expect(String(explained)).toMatch(/in pieces of [\d,.]+ ?\w* rows/);
                expect(explained.plan.device).toBe("gpu");
                await expectProduct(query);
                expect(query.report()?.devicePieces).toBeGreaterThan(10);
            });
        }
    });

    test("counts, group-bys and results that fit are whole", async () => {
        await onGpu({ memory: { device: "64MiB" } }, async (runtime) => {
            const query = product(runtime, { resultRows: 1 });
            expect(await query.count()).toBe(rows * rows);
            expect(query.report()?.devicePieces).toBe(0);
            await expectProduct(query);
            expect(query.report()?.devicePieces).toBe(0);
        });
        await onGpu({ memory: { device } }, async (runtime) => {
            expect(await product(runtime).count()).toBe(rows * rows);
            // What a group-by reads has to be there as a whole.
            const grouped = product(runtime, { resultRows: 1 }).groupBy({ aggregates: { n: { count: "k" } } });
            const details = { tier: "device", option: "memory.device" };
            await expect(grouped.toTable()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", details });
        });
    });

    test("waits for its reader, beside other queries, and ends when the reader does", async () => {
        await onGpu({ memory: { device: "4MiB", host: "64MiB" } }, async (runtime) => {
            const batches = product(runtime, { resultRows: rows * rows }).batches({ batchRows: 100 });
            await batches.next();
            const small = new Table({ one: numbers((i) => i, 100) });
            const counts = Array.from({ length: 3 }, () => {
                const [left, right] = [runtime.fromTable(small), runtime.fromTable(small)];
                return runtime.join({ left, right, on: "one" }).count();
            });
            expect(await Promise.all(counts)).toEqual([100, 100, 100]);
            await batches.return?.();
            const controller = new AbortController();
            const reason = new Error("enough");
            const aborted = product(runtime, { resultRows: rows * rows }).toTable({ signal: controller.signal });
            setTimeout(() => controller.abort(reason), 20);
            await expect(aborted).rejects.toBe(reason);
            await expectProduct(product(runtime));
        });
    });
});

describe("pieces of a size that was asked for", () => {
    const left: Table = new Table({
        k: numbers((i) => (i % 11 === 0 ? null : i % 40), 130),
        a: vectorFromArray(
            Array.from({ length: 130 }, (_, i) => (i % 3 === 0 ? null : `text ${i}`)),
            new Utf8()
        )
    });
    const right: Table = new Table({
        k: numbers((i) => (i % 13 === 0 ? null : (i % 70) + 20), 170),
        b: numbers((i) => i, 170)
    });
    const sorted = async (query: Query): Promise<string[]> =>
        (await query.toTable())
            .toArray()
            .map((row) => String(row))
            .sort();

    test.each(["inner", "left", "right", "full", "semi", "anti"] as JoinType[])("%s joins", async (type) => {
        const join = (runtime: Runtime): Query =>
            runtime.join({ left: runtime.fromTable(left), right: runtime.fromTable(right), on: "k", type });
        const expected = await onGpu({ device: "cpu" }, (runtime) => sorted(join(runtime)));
        for (const pieceRows of [1, 100, 1_000_000]) {
            await onGpu({ debug: { pieceRows } }, async (runtime) => {
                const query = join(runtime);
                expect(await sorted(query)).toEqual(expected);
                const pieces = query.report()?.devicePieces ?? 0;
                const least = Math.ceil(expected.length / Math.max(pieceRows, 64));
                expect(pieces).toBeGreaterThanOrEqual(least);
                if (!usesRealGpu) expect(pieces).toBe(least);
                expect(await query.count()).toBe(expected.length);
            });
        }
    });

    test.each(tableJoins)("by %s: made by phj-tr, as explain and report say", async (algorithm) => {
        const join = (runtime: Runtime): Query => {
            const [build, probe] = [runtime.fromTable(keys), runtime.fromTable(right)];
            return runtime.join({ left: build, right: probe, on: "k", algorithm, hints: { buildSide: "left" } });
        };
        const keys: Table = new Table({ k: numbers((i) => i, 90) });
        await onGpu({ debug: { pieceRows: 64 } }, async (runtime) => {
            const query = join(runtime);
            const name = algorithm === "auto" ? "phj-tr" : algorithm;
            const chosenBy = algorithm === "auto" ? "planner" : "user";
            const by = name === "phj-tr" ? "" : " by phj-tr";
            const text = new RegExp(
                `${name}, .* on the GPU, inner \\(chosen by the ${chosenBy}\\), in pieces${by}(?! by)`,
                "m"
            );
            expect(String(await query.explain())).toMatch(text);
            await query.toTable();
            const report = query.report();
            expect(report?.devicePieces).toBeGreaterThan(1);
            const stage = report?.stages.find((one) => one.name === "join");
            expect(stage?.algorithm).toMatch(text);
            expect(stage?.device).toMatchObject({ algorithm: name, chosenBy });
            expect(stage?.device?.ranAs).toBe(name === "phj-tr" ? undefined : "phj-tr");
            // Counts need no pieces: the algorithm of that name does them.
            await query.count();
            const counted = query.report()?.stages.find((one) => one.name === "count");
            expect(counted?.device?.ranAs).toBeUndefined();
        });
    });

    test("that turn out to be needed are reported as another algorithm's too", async () => {
        await onGpu({ memory: { device } }, async (runtime) => {
            const query = product(runtime, { resultRows: 1 }, "smj-ur");
            expect(String(await query.explain())).toMatch(/smj-ur, .* \(chosen by the user\)(?!.*in pieces)/);
            await expectProduct(query);
            const stage = query.report()?.stages.find((one) => one.name === "join");
            expect(stage?.device).toMatchObject({ algorithm: "smj-ur", chosenBy: "user", ranAs: "phj-tr" });
        });
    });

    test("an empty result has none", async () => {
        await onGpu({ debug: { pieceRows: 10 } }, async (runtime) => {
            const none = runtime.fromTable(new Table({ k: numbers((i) => -1 - i, 5) }));
            const query = runtime.join({ left: runtime.fromTable(left), right: none, on: "k" });
            expect((await query.toTable()).numRows).toBe(0);
            expect(query.report()?.devicePieces).toBe(0);
        });
    });
});
