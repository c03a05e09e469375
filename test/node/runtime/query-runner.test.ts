// SPDX-License-Identifier: Apache-2.0
// The life of queries over a binding without an engine: which calls are made, and that every handle is closed.
import { tableFromArrays, type RecordBatch } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { SpillwayError } from "../../../src/errors.js";
import type { Progress } from "../../../src/model/progress.js";
import type { NativeOutputBatch } from "../../../src/native/binding.js";
import { numbersBatch } from "../../support/engine-batch.js";
import type { FakeBinding } from "../../support/fake-binding.js";
import { fakeRuntime } from "../../support/fake-runtime.js";

const radix = { algorithm: "radix" } as const;
const failure = Object.assign(new Error("no space"), { code: "DISK_FULL", details: { path: "/tmp" } });
const stageCalls = ["joinPartitions", "joinStreaming", "groupPartitions", "groupSource", "partitionSource"];
const stagesOf = (fake: FakeBinding): string[] => fake.calls.filter((call) => stageCalls.includes(call));

const batch = (rows: number): NativeOutputBatch => {
    return numbersBatch(new Int32Array(rows), new Int32Array(rows), new Int32Array(rows));
};

describe("a run", () => {
    test("makes its stages in order and closes everything", async () => {
        const { fake, join } = fakeRuntime({}, radix);
        expect(await join.count()).toBe(42);
        expect(stagesOf(fake)).toEqual(["partitionSource", "partitionSource", "joinPartitions"]);
        expect(fake.leftOpen).toEqual(["engine"]);
        expect(join.report()).toMatchObject({ rowsOut: 42, stages: [{}, {}, { name: "join", rowsOut: 42 }] });
        expect(fake.calls.at(-1)).toBe("drainEngine");
    });

    test.each(["openSource", "createPartitions", "partitionSource", "finishPartitions", "joinPartitions"] as const)(
        "that fails in %s closes everything and says why",
        async (call) => {
            const fail = (): never => {
                throw failure;
            };
            const fails = call === "createPartitions" ? fail : async (): Promise<never> => fail();
            const { fake, join } = fakeRuntime({ [call]: fails }, radix);
            await expect(join.count()).rejects.toMatchObject({ code: "DISK_FULL", details: { path: "/tmp" } });
            expect(fake.leftOpen.filter((kind) => kind !== "engine")).toEqual([]);
            expect(join.report()).toBeUndefined();
        }
    );

    test("whose groups do not fit is planned anew without hash tables per worker", async () => {
        const full = Object.assign(new Error("full"), { code: "BUDGET_TOO_SMALL", details: { reason: "tableFull" } });
        const { fake, left } = fakeRuntime({ groupSource: () => Promise.reject(full) }, { algorithm: "hash" });
        expect(await left.groupBy({ keys: ["k"] }).count()).toBe(42);
        expect(stagesOf(fake)).toEqual(["groupSource", "partitionSource", "groupPartitions"]);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("of a chain closes the sets of a join as soon as it has ended", async () => {
        const { fake, join, right } = fakeRuntime({}, radix);
        await join.join(right, { on: "k", suffix: "_2" }).count();
        const order = fake.calls.filter((call) =>
            ["joinPartitions", "closePartitions", "createPartitions"].includes(call)
        );
        expect(order.slice(0, 6)).toEqual([
            ...["createPartitions", "createPartitions", "createPartitions", "joinPartitions"],
            ...["closePartitions", "closePartitions"]
        ]);
        expect(fake.leftOpen).toEqual(["engine"]);
    });
});

describe("an abort", () => {
    const reason = new Error("enough");

    test("before the run starts nothing", async () => {
        const { fake, join } = fakeRuntime();
        const before = fake.calls.length;
        await expect(join.count({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
        expect(fake.calls.length).toBe(before);
    });

    test("in a stage cancels the job and rejects with its reason", async () => {
        const controller = new AbortController();
        const aborted = Object.assign(new Error("aborted"), { code: "ABORTED", details: {} });
        const { fake, join } = fakeRuntime(
            {
                joinPartitions: () => {
                    controller.abort(reason);
                    return Promise.reject(aborted);
                }
            },
            radix
        );
        await expect(join.count({ signal: controller.signal })).rejects.toBe(reason);
        expect(fake.jobs.at(-1)!.cancelled).toBe(true);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("leaves no listener on the signal", async () => {
        const { join } = fakeRuntime();
        let listeners = 0;
        const { signal } = new AbortController();
        const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
        signal.addEventListener = (...args: Parameters<typeof add>) => (listeners++, add(...args));
        signal.removeEventListener = (...args: Parameters<typeof add>) => (listeners--, remove(...args));
        await join.count({ signal });
        expect(listeners).toBe(0);
    });
});

describe("batches", () => {
    test("come as record batches; the end is the query's end", async () => {
        const { fake, join } = fakeRuntime();
        fake.batches = [batch(3), batch(2)];
        const rows: number[] = [];
        for await (const { numRows, schema } of join.batches()) {
            rows.push(numRows);
            expect(schema.fields.map((field) => field.name)).toEqual(["k", "a", "b"]);
        }
        expect(rows).toEqual([3, 2]);
        expect(fake.leftOpen).toEqual(["engine"]);
        expect(join.report()?.rowsOut).toBe(42);
    });

    test("leave the event loop its turns while a slow reader takes one after the other", async () => {
        const { fake, join } = fakeRuntime();
        fake.batches = Array.from({ length: 20 }, () => batch(1));
        let turns = 0;
        const timer = setInterval(() => turns++, 1);
        for await (const _ of join.batches()) {
            for (const end = performance.now() + 2; performance.now() < end;);
        }
        clearInterval(timer);
        // Two timers of 1 ms may fall into one turn.
        expect(turns).toBeGreaterThanOrEqual(10);
    });

    test("that nobody reads start nothing", () => {
        const { fake, join } = fakeRuntime();
        const before = fake.calls.length;
        join.batches();
        expect(fake.calls.length).toBe(before);
    });

    test("left early cancel the query", async () => {
        let finish: (rows: number) => void = () => undefined;
        const { fake, join } = fakeRuntime({ joinStreaming: () => new Promise((resolve) => (finish = resolve)) });
        fake.batches = [batch(3), batch(2)];
        for await (const _ of join.batches()) {
            setImmediate(() => finish(5));
            break;
        }
        expect(fake.jobs.at(-1)!.cancelled).toBe(true);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("of a stage that fails end with its error, once", async () => {
        const { fake, join } = fakeRuntime({ joinStreaming: () => Promise.reject(failure) });
        const batches = join.batches();
        await expect(batches.next()).rejects.toMatchObject({ code: "DISK_FULL" });
        expect(await batches.next()).toEqual({ done: true, value: undefined });
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("of a stage that never began, and so never ended its queue, end when the query does", async () => {
        // An abort between the opening of the queue and the first step of the stage: the reader hung for ever.
        const controller = new AbortController();
        const reason = new Error("no longer wanted");
        let endQueue: (end: null) => void = () => undefined;
        const queueEnd = new Promise<null>((resolve) => {
            endQueue = resolve;
        });
        const aborted = Object.assign(new Error("aborted"), { code: "ABORTED", details: {} });
        const { fake, join } = fakeRuntime(
            {
                joinPartitions: async () => {
                    await new Promise((resolve) => setTimeout(resolve, 20)); // the reader waits for its first batch
                    controller.abort(reason);
                    throw aborted;
                },
                nextBatch: () => queueEnd,
                closeSink: (queue: never) => {
                    fake.open.delete(queue);
                    endQueue(null);
                }
            },
            radix
        );
        await expect(join.toTable({ signal: controller.signal })).rejects.toBe(reason);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("asked for several at a time come in order", async () => {
        const { fake, join } = fakeRuntime();
        fake.batches = [batch(1), batch(2), batch(3)];
        const batches = join.batches();
        const results = await Promise.all([batches.next(), batches.next(), batches.next(), batches.next()]);
        expect(results.map(({ value }) => (value as RecordBatch | undefined)?.numRows)).toEqual([1, 2, 3, undefined]);
    });
});

describe("a table", () => {
    test("larger than the budget is refused with the ways out", async () => {
        const { fake, join } = fakeRuntime();
        fake.batches = [batch(2)];
        fake.usedBytes = 2 ** 28;
        await expect(join.toTable()).rejects.toMatchObject({
            code: "BUDGET_TOO_SMALL",
            message: expect.stringMatching(
                /2 rows of it.*batches\(\).*toArrowFile\(\).*about "\d+MiB".*1,000 rows that are expected/
            ) as string,
            details: { estimated: expect.stringMatching(/^\d+MiB$/) as string }
        });
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("larger than the budget and than was expected is refused without a guess", async () => {
        const { fake, join } = fakeRuntime();
        fake.batches = [batch(2000)];
        fake.usedBytes = 2 ** 28;
        const error = (await join.toTable().catch((thrown: unknown) => thrown)) as SpillwayError;
        expect(error.code).toBe("BUDGET_TOO_SMALL");
        expect(error.details).not.toHaveProperty("estimated");
        expect(error.message).toMatch(/2,000 rows .*raise `memory.host`$/);
    });

    test("without rows has its columns", async () => {
        const { join } = fakeRuntime();
        const table = await join.toTable();
        expect([table.numRows, table.schema.fields.length]).toEqual([0, 3]);
    });
});

describe("closing", () => {
    test("cancels what runs, waits for it, and refuses what comes", async () => {
        let stop: (error: Error) => void = () => undefined;
        const { fake, runtime, join } = fakeRuntime({
            joinStreaming: () => new Promise((_, reject) => (stop = reject)),
            cancelJob: () => stop(Object.assign(new Error("aborted"), { code: "ABORTED", details: {} }))
        });
        const running = join.count();
        const outcome = expect(running).rejects.toMatchObject({ code: "CLOSED" });
        while (!fake.calls.includes("joinStreaming")) await new Promise((resolve) => setImmediate(resolve));
        await runtime.close();
        await outcome;
        expect(fake.leftOpen).toEqual([]);
        await runtime.close();
        await expect(join.count()).rejects.toMatchObject({ code: "CLOSED" });
        expect(() => join.batches()).toThrow(/closed/);
        expect(() => runtime.fromTable(tableFromArrays({ k: Int32Array.of(1) }))).toThrow(/closed/);
        expect(runtime.closed).toBe(true);
    });
});

describe("progress", () => {
    test("ends with done; errors of the callback do not matter", async () => {
        const { join } = fakeRuntime();
        const states: Progress[] = [];
        const onProgress = (progress: Progress): void => {
            states.push(progress);
            throw new Error("a broken progress bar");
        };
        expect(await join.count({ onProgress })).toBe(42);
        expect(states.at(-1)).toMatchObject({ done: true, fraction: 1, etaMs: 0 });
        const asynchronous = { onProgress: (() => Promise.reject(new Error("later"))) as never };
        expect(await join.count(asynchronous)).toBe(42);
    });

    test("only grows", async () => {
        let rowsIn = 0;
        const counters = { bytesIn: 0, rowsOut: 0, bytesOut: 0, spilledBytes: 0, unspilledBytes: 0, partitionsDone: 0 };
        const slow = async (): Promise<number> => {
            for (let i = 0; i < 5; i++) {
                rowsIn += 150;
                await new Promise((resolve) => setTimeout(resolve, 60));
            }
            return 42;
        };
        const { join } = fakeRuntime({ joinStreaming: slow, jobProgress: () => ({ rowsIn, ...counters }) });
        const fractions: number[] = [];
        await join.count({ onProgress: ({ fraction }) => fractions.push(fraction) });
        expect(fractions.length).toBeGreaterThanOrEqual(2);
        expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
        expect(fractions.at(-1)).toBe(1);
    });
});
