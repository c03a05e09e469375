// SPDX-License-Identifier: Apache-2.0
// Held rows that host memory has no room for: they wait in a file of the spill directory.
import { Decimal, Dictionary, Int32, Int64, makeVector, Table, Utf8, vectorFromArray, type Vector } from "apache-arrow";
import { openRuntime, type Query, type Relation, type Runtime, type RuntimeOptions } from "spillway";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { cellTable } from "../../support/cells.js";
import { errorOf, resultOf, runChild } from "../../support/child.js";
import { useGpu } from "../../support/gpu.js";
import { knobs } from "../../support/knobs.js";
import { expectSameRows, rowTexts } from "../../support/rows.js";
import { Sandbox } from "../../support/sandbox.js";

useGpu();

let sandbox: Sandbox;
beforeEach(() => (sandbox = new Sandbox()));
afterEach(() => sandbox[Symbol.dispose]());

const small = { outOfCore: true, chunkRows: 1024, radixBits: 3, residentShare: 0.4 };

async function within<T>(options: RuntimeOptions, use: (runtime: Runtime) => Promise<T>): Promise<T> {
    const memory = { host: "24MiB", device: "128MiB", spillDirectory: sandbox.spill };
    await using runtime = await openRuntime({ threads: 2, ...options, memory: { ...memory, ...options.memory } });
    return await use(runtime);
}

const rows = 120_000;
const each = <T>(make: (row: number) => T): T[] => Array.from({ length: rows }, (_, row) => make(row));
const text = new Dictionary(new Utf8(), new Int32());

/** Columns of every kind that is held, with NULLs, all of them with this ending. */
function facts(ending = ""): Table {
    const amounts = each((i) => (i % 17 === 0 ? null : Uint32Array.of(i % 7, 0, i % 3, 0)));
    const columns = {
        k: vectorFromArray(
            each((i) => BigInt((i * 7919) % rows)),
            new Int64()
        ),
        v: vectorFromArray(
            each((i) => BigInt(i)),
            new Int64()
        ),
        word: vectorFromArray(
            each((i) => (i % 11 === 0 ? null : `word ${(i * 31) % 37}`)),
            text
        ),
        text: vectorFromArray(
            each((i) => (i % 13 === 0 ? null : `text ${i % 41}`)),
            new Utf8()
        ),
        amount: vectorFromArray(amounts, new Decimal(2, 30, 128)),
        wide: vectorFromArray(
            each((i) => `a text that takes its time and its memory: ${i % 1000}`),
            new Utf8()
        )
    };
    return new Table(Object.fromEntries(Object.entries(columns).map(([name, data]) => [`${name}${ending}`, data])));
}
const [ones, others] = [facts(), facts("_2")];

/** All rows of one relation with those of the other one, grouped by what no pipe takes. */
function grouped(relation: Relation, runtime: Runtime, resultRows?: number): Query {
    const hints = resultRows === undefined ? {} : { hints: { resultRows } };
    const joined = relation.join(runtime.fromTable(others), { on: { k: "k_2" }, type: "left", ...hints });
    const aggregates = {
        ...{ n: { count: "*" }, sum: { sum: "v_2" }, most: { max: "v" } },
        ...{ least: { min: "wide_2" }, apart: { countDistinct: "text" } }
    } as const;
    return joined.groupBy({ keys: ["word", "amount_2"], aggregates });
}

const streamOf = (runtime: Runtime): Relation =>
    runtime.fromBatches(ones.schema, async function* () {
        for (const batch of ones.batches) yield await Promise.resolve(batch);
    });

async function rowsOf(query: Query): Promise<string[]> {
    return rowTexts(cellTable(await query.toTable()));
}

/** The same query on both devices, with rows on disk between its stages on the GPU. */
async function compare(make: (runtime: Runtime) => Query, onHost = make): Promise<void> {
    const expected = await within({ device: "cpu", memory: { host: "256MiB" } }, async (runtime) => {
        return await rowsOf(onHost(runtime));
    });
    await within({ device: "gpu", ...knobs(small) }, async (runtime) => {
        const query = make(runtime);
        expectSameRows(await rowsOf(query), expected, "GPU");
        const { stages } = query.report()!;
        expect(stages).toHaveLength(2);
        expect(stages[0]!.spilledBytes).toBeGreaterThan(2 ** 20);
        await sandbox.expectClean([], 4);
    });
    expect(sandbox.openFiles()).toEqual([]);
}

describe("rows of a join on disk are grouped", () => {
    const plain = (runtime: Runtime): Query => grouped(runtime.fromTable(ones), runtime);

    test("where the plan expects them there", async () => {
        await compare(plain);
        await within({ device: "gpu", ...knobs(small) }, async (runtime) => {
            const explained = await plain(runtime).explain();
            expect(String(explained)).toMatch(/its rows are held: .* in host memory, about .* on disk/);
            expect(explained.plan.stages[0]!.predictedSpillBytes).toBeGreaterThan(2 ** 20);
        });
    });

    test("where more of them come than were expected", async () => {
        await compare((runtime) => grouped(runtime.fromTable(ones), runtime, 10), plain);
    });

    test("where they are made of a stream, which comes once", async () => {
        await compare((runtime) => grouped(streamOf(runtime), runtime), plain);
    });
});

describe("rows made of a stream", () => {
    const count = 30_000;
    const numbers = (length: number, distinct: number): Vector =>
        makeVector(BigInt64Array.from({ length }, (_, row) => BigInt((row * 7919) % distinct)));
    const texts = (distinct: number, padding: number): Vector =>
        vectorFromArray(
            Array.from({ length: count }, (_, row) => `text ${row % distinct} ${"x".repeat(padding)}`),
            new Utf8()
        );
    const words = (length: number): Vector =>
        vectorFromArray(
            Array.from({ length }, (_, row) => `word ${row % 7}`),
            text
        );
    const streamed: Table = new Table({ b: numbers(count, count / 8), b_text: texts(5000, 0), b_word: words(count) });
    const stream = (runtime: Runtime): Relation => {
        const batches = async function* () {
            for (let at = 0; at < count; at += 10_000)
                yield* await Promise.resolve(streamed.slice(at, at + 10_000).batches);
        };
        return runtime.fromBatches(streamed.schema, batches, { rows: count });
    };
    const withFacts = (runtime: Runtime, padding: number, more: object = {}): Query => {
        const wideFacts: Table = new Table({ a: numbers(count, count / 8), a_text: texts(10, padding) });
        return runtime.fromTable(wideFacts).join(stream(runtime), { on: { a: "b" }, ...more });
    };

    test("go there in any host memory, though columns of them are gathered by stages that follow", async () => {
        const last: Table = new Table({ c: numbers(count / 4, count / 8), c_v: numbers(count / 4, 977) });
        const aggregates = { n: { count: "*" }, least: { min: "b_text" }, most: { max: "c_v" } } as const;
        const make = (runtime: Runtime): Query =>
            withFacts(runtime, 100)
                .join(runtime.fromTable(last), { on: { b: "c" } })
                .groupBy({ keys: ["a_text"], aggregates });
        const expected = await within({ device: "cpu", memory: { host: "1GiB" } }, async (runtime) =>
            rowsOf(make(runtime))
        );
        for (const host of ["28MiB", "40MiB", "52MiB", "64MiB", "96MiB"]) {
            const memory = { device: "64MiB", host };
            await within({ device: "gpu", ...knobs({ outOfCore: true }), memory }, async (runtime) => {
                const query = make(runtime);
                expectSameRows(await rowsOf(query), expected, host);
                expect(query.report()!.device).toBe("gpu");
                expect(query.report()!.spilledBytes).toBeGreaterThan(2 ** 24);
                await sandbox.expectClean([], 4);
            });
        }
    });

    test("end with one error where neither they nor what is gathered of them has room", async () => {
        const last: Table = new Table({ c: words(7), c_v: numbers(7, 977) });
        for (const buildSide of ["left", "right"] as const) {
            for (const host of ["32MiB", "48MiB"]) {
                const memory = { device: "64MiB", host };
                await within({ device: "gpu", ...knobs({ outOfCore: true }), memory }, async (runtime) => {
                    const held = withFacts(runtime, 1000, { hints: { buildSide } });
                    const on = { b_word: "c" };
                    const query = held.join(runtime.fromTable(last), { on, select: ["a_text", "c_v"] });
                    // Before the first row, or when those of the join turn out to be too many.
                    const message: unknown = expect.stringMatching(
                        /^(Rows of a join|The query needs) .*`memory\.host`/
                    );
                    const details: unknown = expect.objectContaining({ tier: "host", option: "memory.host" });
                    await expect(query.toTable()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", message, details });
                    expect(runtime.memory().host.usedBytes).toBe(0);
                    await sandbox.expectClean([], 4);
                });
            }
        }
    });
});

test("a disk that is full is one error, no file stays, and the same runtime goes on when there is room", async () => {
    const memory = { host: "24MiB", device: "64MiB", spillDirectory: sandbox.spill };
    const count = 400_000;
    const numbers = (make: (row: number) => number): Vector =>
        makeVector(BigInt64Array.from({ length: count }, (_, row) => BigInt(make(row))));
    const left = { k: numbers((i) => i), a: numbers((i) => i % 10), b: numbers((i) => i), c: numbers((i) => 3 * i) };
    const right = { k: numbers((i) => count - 1 - i), d: numbers((i) => i % 4), e: numbers((i) => 5 * i) };
    const argument = {
        runtime: { threads: 2, device: "gpu", ...knobs({ ...small, residentShare: 1 }), memory },
        ...{ left: sandbox.write(new Table(left)), right: sandbox.write(new Table(right)), on: "k" },
        groupBy: { keys: ["a", "d"], aggregates: { b: { sum: "b" }, c: { max: "c" }, e: { min: "e" } } },
        output: sandbox.path("grouped.arrow")
    };
    // No file may grow beyond 128 KiB (units of 512 bytes) until the child raises this limit.
    const child = await runChild("full-disk", argument, { wrapper: ["sh", "-c", 'ulimit -S -f 256; exec "$@"', "sh"] });
    expect(errorOf(child)).toMatchObject({ code: "DISK_FULL", details: { path: sandbox.spill } });
    expect(child.stdout).toContain('used {"bytes":0}');
    expect(resultOf(child)).toMatchObject({ rows: 20, device: "gpu" });
    await sandbox.expectClean();
});

test("an abort while rows go to disk leaves nothing behind", async () => {
    await within({ device: "gpu", ...knobs(small) }, async (runtime) => {
        const left = runtime.fromTable(ones);
        for (const afterMs of [0, 20, 50, 100, 200]) {
            const aborted = new AbortController();
            setTimeout(() => aborted.abort(), afterMs);
            const run = grouped(left, runtime).toTable({ signal: aborted.signal });
            await expect(run).rejects.toMatchObject({ name: "AbortError" });
            expect(runtime.memory().host.usedBytes).toBe(0);
        }
        await sandbox.expectClean();
    });
    expect(sandbox.openFiles()).toEqual([]);
});
