// SPDX-License-Identifier: Apache-2.0
// Streams of result batches and their readers, over a binding without an engine: what a reader that waits, pauses,
// leaves or forgets its stream means for the query.
import { describe, expect, test, vi } from "vitest";
import { collectGarbage } from "../../../src/execute/dropped-batches.js";
import type { NativeOutputBatch } from "../../../src/native/binding.js";
import type { BatchStream } from "../../../src/runtime/batch-stream.js";
import { numbersBatch } from "../../support/engine-batch.js";
import { fakeRuntime } from "../../support/fake-runtime.js";

type Overrides = NonNullable<Parameters<typeof fakeRuntime>[0]>;

const oneRow = (): NativeOutputBatch => numbersBatch(Int32Array.of(0), Int32Array.of(0), Int32Array.of(0));
const ticks = async (): Promise<void> => {
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};
const ended = { done: true, value: undefined };

/** A query of `rows` batches of one row that runs until it is cancelled or all batches are read. */
function streaming(rows = 2, overrides: Overrides = {}) {
    let end: (rows: number) => void = () => undefined;
    const running = new Promise<number>((resolve) => (end = resolve));
    const waits: boolean[] = [];
    let left = rows;
    const parts = fakeRuntime({
        joinStreaming: () => running,
        joinArray: () => running,
        joinPartitions: () => running,
        waitForJob: (_: never, waited: boolean) => waits.push(waited),
        cancelJob: (job: { cancelled?: boolean }) => {
            job.cancelled = true;
            end(0);
        },
        nextBatch: () => {
            if (left-- > 0) return Promise.resolve(oneRow());
            end(rows);
            return Promise.resolve(null);
        },
        ...overrides
    });
    const open = (signal?: AbortSignal) =>
        parts.join.batches(signal === undefined ? {} : { signal }) as unknown as BatchStream;
    return { ...parts, waits, open };
}

describe("a reader", () => {
    test("gets all batches, then the end as often as it asks", async () => {
        const { fake, open } = streaming();
        const stream = open();
        expect([stream.deliveredBytes, stream.schema.names]).toEqual([0, ["k", "a", "b"]]);
        const rows: unknown[] = [];
        for await (const batch of stream) rows.push([batch.numRows, stream.deliveredBytes]);
        expect(rows).toEqual([
            [1, 12],
            [1, 24]
        ]);
        expect([await stream.next(), await stream.return()]).toEqual([ended, ended]);
        expect(fake.leftOpen).toEqual(["engine"]);
        expect(fake.jobs).toHaveLength(1);
    });

    test("keeps the process alive while it waits for a batch, and only then", async () => {
        const { waits, open } = streaming(3);
        const stream = open();
        await stream.next();
        expect(waits).toEqual([false]); // while the first one waits there is no query yet that could be left alone
        await stream.next();
        expect(waits).toEqual([false, true, false]);
        waits.length = 0;
        await Promise.all([stream.next(), stream.next()]);
        expect(waits).toEqual([true, true, false]);
    });

    test("that leaves before it has begun runs nothing", async () => {
        const { fake, open } = streaming();
        const stream = open();
        expect(await stream.return()).toEqual(ended);
        expect(await stream.next()).toEqual(ended);
        expect(fake.jobs).toEqual([]);
    });

    test.each(["return", "throw"] as const)(
        "that leaves by %s cancels the query and waits for its end",
        async (how) => {
            const { fake, open } = streaming();
            const stream = open();
            await stream.next();
            const reason = new Error("enough");
            if (how === "return") expect(await stream.return()).toEqual(ended);
            else await expect(stream.throw(reason)).rejects.toBe(reason);
            expect(fake.jobs).toMatchObject([{ cancelled: true }]);
            expect(fake.leftOpen).toEqual(["engine"]);
            expect(await stream.next()).toEqual(ended);
        }
    );
});

describe("a stream ends with", () => {
    test("CLOSED where its runtime was closed before it began", async () => {
        const { runtime, open } = streaming();
        const stream = open();
        await runtime.close();
        await expect(stream.next()).rejects.toMatchObject({ code: "CLOSED" });
        expect(await stream.next()).toEqual(ended);
    });

    test("the reason of a signal that was aborted before it began", async () => {
        const reason = new Error("not wanted");
        const stream = streaming().open(AbortSignal.abort(reason));
        await expect(stream.next()).rejects.toBe(reason);
        expect(await stream.next()).toEqual(ended);
    });

    test("the error of the engine, after the batches that were there", async () => {
        const failure = Object.assign(new Error("no space"), { code: "DISK_FULL", details: {} });
        let fail: (error: Error) => void = () => undefined;
        const running = new Promise<never>((_, reject) => (fail = reject));
        const failing = () => running;
        const { fake, open } = streaming(1, {
            ...{ joinStreaming: failing, joinArray: failing, joinPartitions: failing },
            nextBatch: () => Promise.resolve(oneRow())
        });
        const stream = open();
        expect((await stream.next()).done).toBe(false);
        fail(failure);
        await ticks();
        await expect(stream.next()).rejects.toMatchObject({ code: "DISK_FULL" });
        expect(await stream.next()).toEqual(ended);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    /** The batch cannot be handed over, and the query ends since nobody takes it. */
    const undelivered = () => {
        const failure = Object.assign(new Error("no room"), { code: "OUT_OF_MEMORY", details: { wantedBytes: "12" } });
        let end: (rows: number) => void = () => undefined;
        const running = new Promise<number>((resolve) => (end = resolve));
        const parts = streaming(1, {
            ...{ joinStreaming: () => running, joinArray: () => running, joinPartitions: () => running },
            nextBatch: () => Promise.reject(failure),
            closeSink: (sink: never) => {
                expect(parts.fake.open.delete(sink)).toBe(true);
                end(0);
            }
        });
        return parts;
    };

    test("the error of a batch that could not be handed over", async () => {
        const { fake, open } = undelivered();
        const stream = open();
        await expect(stream.next()).rejects.toMatchObject({ code: "OUT_OF_MEMORY", details: { wantedBytes: 12 } });
        expect(await stream.next()).toEqual(ended);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("the reason of its signal, whatever became of the batch", async () => {
        const reason = new Error("not wanted");
        const controller = new AbortController();
        const { fake, open } = streaming(1, {
            nextBatch: () => {
                controller.abort(reason);
                return Promise.reject(new Error("cancelled"));
            }
        });
        await expect(open(controller.signal).next()).rejects.toBe(reason);
        expect(fake.leftOpen).toEqual(["engine"]);
    });
});

describe("a stream that its reader has dropped", () => {
    // In a function of its own, so that nothing of the stream stays in the test's registers.
    async function drop(open: () => BatchStream, read: (stream: BatchStream) => Promise<unknown>): Promise<void> {
        await read(open());
        await ticks();
    }

    test("leaves its query when it is collected", async () => {
        const { fake, open } = streaming();
        await drop(open, (stream) => stream.next());
        expect(fake.jobs).not.toMatchObject([{ cancelled: true }]);
        await vi.waitFor(async () => {
            await collectGarbage();
            expect(fake.jobs).toMatchObject([{ cancelled: true }]);
        });
        await ticks();
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test.each([
        ["at its end", async (stream: BatchStream) => [await stream.next(), await stream.next(), await stream.next()]],
        ["when it was left", async (stream: BatchStream) => [await stream.next(), await stream.return()]]
    ])("%s is watched no more", async (_, read) => {
        const unregister = vi.spyOn(FinalizationRegistry.prototype, "unregister");
        try {
            const { open } = streaming();
            let stream: BatchStream | undefined;
            await drop(() => (stream = open()), read);
            expect(unregister.mock.calls.filter(([token]) => token === stream)).not.toEqual([]);
        } finally {
            unregister.mockRestore();
        }
    });

    test("is watched until it ends", async () => {
        const unregister = vi.spyOn(FinalizationRegistry.prototype, "unregister");
        try {
            const stream = streaming().open();
            await stream.next();
            expect(unregister.mock.calls.filter(([token]) => token === stream)).toEqual([]);
            await stream.return();
        } finally {
            unregister.mockRestore();
        }
    });
});
