// SPDX-License-Identifier: Apache-2.0
// What generating rows asks of the engine, and what becomes of its handles, over a binding without an engine.
import { afterEach, describe, expect, test, vi } from "vitest";
import type { NativeOutputBatch } from "../../../src/native/binding.js";
import { checkGenerateOptions } from "../../../src/runtime/generate-options.js";
import { generateToFile, generateToMemory } from "../../../src/runtime/generate.js";
import { numbersBatch } from "../../support/engine-batch.js";
import { fakeRuntime } from "../../support/fake-runtime.js";

type Overrides = NonNullable<Parameters<typeof fakeRuntime>[0]>;
type Values = Record<string, unknown>;

const failure = Object.assign(new Error("no space"), { code: "DISK_FULL", details: {} });
const ticks = async (): Promise<void> => {
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};
const ofRows = (rows: number, more: Values = {}) => checkGenerateOptions({ rows, payload: 0, ...more });
/** Two keys of eight bytes, without a payload. */
const twoRows = (): NativeOutputBatch => numbersBatch(BigInt64Array.of(5n, 6n));

/** Notes what the engine is asked for; `limitBytes`: its budget. */
function generating(overrides: Overrides = {}, { threads = 8, limitBytes = 2 ** 28 } = {}) {
    const specs: Values[] = [];
    const sinks: Values[] = [];
    const noted = async (_: never, spec: never): Promise<number> => {
        specs.push(spec);
        return Promise.resolve(42);
    };
    const sink = (...[, , options]: unknown[]): unknown => {
        sinks.push(options as Values);
        const handle = { kind: "sink" };
        parts.fake.open.add(handle);
        return handle;
    };
    const engineMemory = () => ({ limitBytes, usedBytes: 0, peakBytes: 0, relationBytes: 0 });
    const fakes = { generate: noted, generateTable: noted, createQueueSink: sink, createFileSink: sink, engineMemory };
    const parts = fakeRuntime({ ...fakes, ...overrides }, {}, { threads });
    const toFile = (request: Parameters<typeof generateToFile>[1], run = {}) =>
        generateToFile(parts.runner, request, "/tmp/never.arrow", run);
    return { ...parts, specs, sinks, toFile };
}

describe("batches and workers", () => {
    const wide = ["a", "b", "c", "d"].map((name) => ({ name }));
    const text = { name: "t", type: "utf8", width: 100 };
    const mebibyte = 2 ** 20;
    test.each([
        // 16 MiB of rows, and no more than 512 Ki of them.
        ["much memory", { payload: wide }, 2, 2 ** 40, 2 ** 18, 2, 12 * 56 * 2 ** 18],
        ["much memory for narrow rows", { payload: 0 }, 8, 2 ** 40, 2 ** 19, 8, 36 * 8 * 2 ** 19],
        // Half of it for four and a half batches of each worker, in powers of two.
        ["little memory", { payload: 1 }, 8, 64 * mebibyte, 2 ** 15, 8, 36 * 20 * 2 ** 15],
        ["two threads", { payload: 1 }, 2, 64 * mebibyte, 2 ** 16, 2, 12 * 20 * 2 ** 16],
        ["long text", { payload: [text] }, 2, 64 * mebibyte, 2 ** 14, 2, 12 * 112 * 2 ** 14],
        // Batches of 1024 rows or of a wanted size make do with fewer workers.
        ["too little for all workers", { payload: 1 }, 8, 2 * 20 * 20 * 1024, 1024, 4, 20 * 20 * 1024],
        ["a wanted size that just fits", { payload: 1, batchRows: 1000 }, 8, 800_000, 1000, 4, 400_000],
        ["a wanted size that just does not", { payload: 1, batchRows: 1000 }, 8, 799_998, 1000, 2, 240_000],
        ["an odd number of threads", { payload: 1, batchRows: 1000 }, 5, 800_000 - 160_000, 1000, 3, 320_000],
        ["one worker, whatever half of it is", { payload: 1, batchRows: 1000 }, 5, 160_000, 1000, 1, 160_000]
    ] as [string, Values, number, number, number, number, number][])(
        "for %s",
        async (_, options, threads, limitBytes, batchRows, workers, batchBytes) => {
            const { sinks, specs, toFile } = generating({}, { threads, limitBytes });
            await toFile(ofRows(10, options));
            expect(specs).toMatchObject([{ batchRows, workers }]);
            expect(sinks).toMatchObject([{ batchRows, batchBytes }]);
        }
    );

    test.each([
        ["orders", 2 ** 16, 12 * 140 * 2 ** 16],
        ["lineitem", 2 ** 15, 12 * 180 * 2 ** 15],
        ["nation", 2 ** 16, 12 * 100 * 2 ** 16]
    ])("for %s", async (table, batchRows, batchBytes) => {
        const { sinks, specs, toFile } = generating({}, { threads: 2, limitBytes: 320 * mebibyte });
        await toFile(checkGenerateOptions({ table, scale: 2, seed: 3, part: 2, parts: 3 }));
        const sizes = { scale: 2, seed: 3n, part: 2, parts: 3, batchRows, workers: 2 };
        expect(specs).toEqual([{ benchmark: "tpch", table, ...sizes, dictionaryIds: [] }]);
        expect(sinks).toMatchObject([{ batchBytes }]);
    });

    test("that do not fit are refused, and nothing is made", async () => {
        const { fake, sinks, toFile } = generating({}, { limitBytes: 159_999 });
        const refused = toFile(ofRows(10, { payload: 1, batchRows: 1000 }));
        await expect(refused).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL" });
        expect([sinks, fake.leftOpen]).toEqual([[], ["engine"]]);
    });
});

describe("generating beside queries", () => {
    const all = { minimumBytes: () => 2 ** 28, wantedBytes: 2 ** 28, waitsForUser: false };
    const register = (): void => undefined;

    test("waits for their memory", async () => {
        const { runner, specs, toFile } = generating();
        const grant = await runner.admission.admit(all, register);
        const rows = toFile(ofRows(10));
        await ticks();
        expect(specs).toEqual([]);
        grant.release();
        expect(await rows).toBe(42);
        expect(runner.admission.running).toBe(0);
    });

    test("ends when it is aborted while it waits", async () => {
        const { fake, runner, toFile } = generating();
        await runner.admission.admit(all, register);
        const controller = new AbortController();
        const rows = toFile(ofRows(10), { signal: controller.signal });
        await ticks();
        controller.abort(failure);
        await expect(rows).rejects.toBe(failure);
        expect([runner.admission.running, fake.calls.includes("createFileSink")]).toEqual([1, false]);
    });

    test("ends by itself, so that they wait for it", async () => {
        let end = (): void => undefined;
        const { runner, toFile } = generating({ generate: () => new Promise((resolve) => (end = () => resolve(7))) });
        const rows = toFile(ofRows(10));
        await ticks();
        const grant = runner.admission.admit(all, register);
        await ticks();
        end();
        expect(await rows).toBe(7);
        expect((await grant).bytes).toBe(2 ** 28);
    });
});

describe("into a file", () => {
    test("writes what is asked for, and replaces a file only where that is", async () => {
        const { fake, specs, sinks, toFile } = generating();
        expect(await toFile(ofRows(10, { seed: 2, payload: 1 }))).toBe(42);
        await toFile(ofRows(10), { overwrite: true });
        expect(specs[0]).toMatchObject({
            ...{ rows: 10, seed: 2n, payload: [{ name: "payload0", kind: "int", width: 8 }] },
            key: { name: "key", role: "primary", domainRows: 10 }
        });
        expect(sinks).toMatchObject([{ path: "/tmp/never.arrow", overwrite: false }, { overwrite: true }]);
        expect(fake.calls).toContain("finishFileSink");
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test.each(["generate", "finishFileSink"] as const)("closes it when %s fails", async (call) => {
        const { fake, toFile } = generating({ [call]: () => Promise.reject(failure) });
        await expect(toFile(ofRows(10))).rejects.toMatchObject({ code: "DISK_FULL" });
        expect(fake.leftOpen).toEqual(["engine"]);
    });
});

describe("into memory", () => {
    test("collects all batches, which stay with the caller", async () => {
        const { fake, runner, sinks } = generating();
        fake.batches = [twoRows(), twoRows()];
        const { table, name } = await generateToMemory(runner, ofRows(4));
        expect([...table.getChild("key")!.toArray()]).toEqual([5n, 6n, 5n, 6n]);
        expect([name, table.batches.length]).toEqual(["generated", 2]);
        expect(sinks).toMatchObject([{ kept: true }]);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("has the columns of a table of no rows, and is called like it", async () => {
        const { runner } = generating();
        const { table, name } = await generateToMemory(runner, checkGenerateOptions({ table: "orders", scale: 0 }));
        expect([name, table.numRows, table.numCols]).toEqual(["orders", 0, 9]);
    });

    test("has the dictionaries of a table of a benchmark", async () => {
        const asked: unknown[] = [];
        const generatedDictionaries = (...names: string[]): string[][] => {
            asked.push(names);
            return [["ab", "c"]];
        };
        const { fake, runner, specs } = generating({ generatedDictionaries });
        fake.batches = [];
        const request = checkGenerateOptions({ table: "customer", scale: 1, dictionary: true });
        const { table } = await generateToMemory(runner, request);
        expect(asked).toEqual([["tpch", "customer"]]);
        expect(specs).toMatchObject([{ dictionaryIds: [0] }]);
        expect(String(table.schema.fields[6])).toBe("c_mktsegment: Dictionary<Int32, Utf8>");
    });

    test("ends with the error of a stage that has not begun, though its queue has no end", async () => {
        let end: (batch: null) => void = () => undefined;
        const { fake, runner } = generating({
            generate: () => Promise.reject(failure),
            nextBatch: () => new Promise((resolve) => (end = resolve)),
            closeSink: (sink: never) => {
                expect(fake.open.delete(sink)).toBe(true);
                end(null);
            }
        });
        await expect(generateToMemory(runner, ofRows(4))).rejects.toMatchObject({ code: "DISK_FULL" });
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("that breaks off stops the engine, and says what the engine says where that failed too", async () => {
        for (const code of [undefined, "DISK_FULL"]) {
            const broken = Object.assign(new Error("out of memory"), { code: "OUT_OF_MEMORY", details: {} });
            let closed = (): void => undefined;
            const end = new Promise<void>((resolve) => (closed = resolve));
            const { fake, runner } = generating({
                generate: () => end.then(() => (code === undefined ? 4 : Promise.reject(failure))),
                nextBatch: () => Promise.reject(broken),
                closeSink: (sink: never) => {
                    expect(fake.open.delete(sink)).toBe(true);
                    closed();
                }
            });
            const expected = { code: code ?? "OUT_OF_MEMORY" };
            await expect(generateToMemory(runner, ofRows(4))).rejects.toMatchObject(expected);
            expect(fake.leftOpen).toEqual(["engine"]);
        }
    });
});

describe("progress of a file", () => {
    afterEach(() => {
        vi.useRealTimers();
    });

    /** What is told of rows that are there after each tenth of a second. */
    async function told(options: unknown, rowsOut: number[], outcome: Promise<number> | undefined) {
        vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
        vi.advanceTimersByTime(1000);
        const left = [...rowsOut];
        let now = 0;
        const { toFile } = generating({
            generate: () => running,
            generateTable: () => running,
            jobProgress: () => ({ rowsOut: (now = left.shift() ?? now), bytesOut: 8 * now })
        });
        let end = (_: Promise<number> | number): void => undefined;
        const running = new Promise<number>((resolve) => (end = resolve));
        const seen: Values[] = [];
        const file = toFile(checkGenerateOptions(options), { onProgress: (progress: Values) => seen.push(progress) });
        await ticks();
        vi.advanceTimersByTime(99);
        expect(seen).toEqual([]);
        vi.advanceTimersByTime(1 + 100 * (rowsOut.length - 1));
        end(outcome ?? now);
        const result = await file.catch((error: unknown) => error);
        vi.advanceTimersByTime(1000);
        return { seen, result };
    }

    test("tells rows, bytes, the share of all rows and the time that is left", async () => {
        const { seen, result } = await told({ rows: 1000 }, [0, 19, 20, 250, 1000], undefined);
        const constant = { phase: "generate", spilledBytes: 0, totalRows: 1000 };
        const at = (rows: number, elapsedMs: number, fraction: number, etaMs: unknown, done = false) => ({
            ...{ ...constant, rows, rowsOut: rows, bytes: 8 * rows, elapsedMs, fraction, etaMs, done }
        });
        expect(seen).toEqual([
            at(0, 100, 0, null),
            at(19, 200, 0.019, null),
            at(20, 300, 0.02, expect.closeTo(14_700)),
            at(250, 400, 0.25, expect.closeTo(1200)),
            // Until the file is whole, it is never all.
            at(1000, 500, 0.999, expect.closeTo(0.5005, 3)),
            at(1000, 500, 1, 0, true)
        ]);
        expect(result).toBe(1000);
    });

    test.each([
        [{ table: "orders", scale: 0.001 }, 1500],
        [{ table: "lineitem", scale: 0.0000011 }, 7],
        [{ table: "lineitem", scale: 1, part: 2, parts: 8 }, 750_000],
        [{ table: "region", scale: 100 }, 5],
        [{ benchmark: "ssb", table: "part", scale: 0.5 }, 100_000],
        [{ benchmark: "ssb", table: "part", scale: 4.5 }, 600_000],
        [{ rows: 0 }, 0]
    ])("knows about how many rows come of %j", async (options, totalRows) => {
        const { seen } = await told(options, [0], undefined);
        const wanted = { totalRows, rows: 0 };
        expect(seen).toMatchObject([
            { ...wanted, fraction: 0, done: false },
            { ...wanted, fraction: 1, done: true }
        ]);
    });

    test("ends without the last word where the file fails", async () => {
        const failing = Promise.reject<number>(failure);
        failing.catch(() => undefined);
        const { seen, result } = await told({ rows: 1000 }, [250, 500], failing);
        expect(result).toMatchObject({ code: "DISK_FULL" });
        expect(seen).toMatchObject([{ rows: 250 }, { rows: 500, done: false }]);
    });

    test("is not asked for where nobody listens", async () => {
        const { fake, toFile } = generating();
        await toFile(ofRows(10));
        expect(fake.calls).not.toContain("jobProgress");
    });
});
