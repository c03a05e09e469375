// SPDX-License-Identifier: Apache-2.0
// Streams whose iterator does not answer, over a binding without an engine: the query ends all the same.
import { tableFromArrays, type RecordBatch } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { fakeRuntime } from "../../support/fake-runtime.js";

const rows = tableFromArrays({ k: Int32Array.of(1, 2, 3) });
const batch = rows.batches[0]! as RecordBatch;
const never = new Promise<never>(() => undefined);
const reason = new Error("no longer wanted");
const ticks = async (): Promise<void> => {
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};

type Next = Promise<IteratorResult<RecordBatch>>;

/** A stream of one batch, then of what `next` says; notes how often each method is called. */
function streamOf(next: () => Next, end: () => Promise<unknown> = () => Promise.resolve()) {
    const calls = { next: 0, return: 0 };
    const open = () => ({
        [Symbol.asyncIterator]: () => ({
            next: (): Next => (calls.next++ === 0 ? Promise.resolve({ done: false, value: batch }) : next()),
            return: async (): Next => {
                calls.return++;
                await end();
                return { done: true, value: undefined };
            }
        })
    });
    return { calls, open };
}

function joinOf(open: () => AsyncIterable<RecordBatch>, overrides: Parameters<typeof fakeRuntime>[0] = {}) {
    const parts = fakeRuntime(overrides);
    const query = parts.runtime.join({
        left: parts.runtime.fromBatches(rows.schema, open),
        right: parts.right,
        on: "k"
    });
    return { ...parts, query };
}

describe("a batch that does not come", () => {
    test("does not hold up an abort, whatever return() does", async () => {
        for (const end of [() => Promise.resolve(), () => never, () => Promise.reject(new Error("return failed"))]) {
            const { calls, open } = streamOf(() => never, end);
            const { fake, query } = joinOf(open);
            const controller = new AbortController();
            const count = query.count({ signal: controller.signal });
            await ticks();
            controller.abort(reason);
            await expect(count).rejects.toBe(reason);
            expect(calls).toEqual({ next: 2, return: 1 });
            expect(fake.leftOpen).toEqual(["engine"]);
        }
    });

    test("does not hold up an abort when a generator waits for it", async () => {
        const { fake, query } = joinOf(async function* () {
            yield batch;
            await never;
        });
        const controller = new AbortController();
        const count = query.count({ signal: controller.signal });
        await ticks();
        controller.abort(reason);
        await expect(count).rejects.toBe(reason);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("does not hold up close()", async () => {
        const { fake, runtime, query } = joinOf(streamOf(() => never).open);
        const count = expect(query.count()).rejects.toMatchObject({ code: "CLOSED" });
        await ticks();
        await runtime.close();
        await count;
        expect(fake.leftOpen).toEqual([]);
    });

    test("does not hold up a reader that leaves", async () => {
        const { calls, open } = streamOf(() => never);
        const { fake, query } = joinOf(open);
        const batches = query.batches();
        const next = expect(batches.next()).rejects.toMatchObject({ code: "ABORTED" });
        await ticks();
        expect(await batches.return!()).toEqual({ done: true, value: undefined });
        await next;
        expect(calls.return).toBe(1);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("does not hold up the error of the engine", async () => {
        const failure = Object.assign(new Error("no space"), { code: "DISK_FULL", details: {} });
        const large = tableFromArrays({ k: new Int32Array(2 ** 22) }).batches[0]! as RecordBatch;
        const { query } = joinOf(
            async function* () {
                yield large;
                await never;
            },
            { partitionSource: (...args: unknown[]) => (args.length > 3 ? Promise.reject(failure) : Promise.resolve()) }
        );
        await expect(query.count()).rejects.toMatchObject({ code: "DISK_FULL" });
    });

    test("is dropped when it comes late, and so is a late error", async () => {
        for (const late of ["value", "error"]) {
            let settle = (): void => undefined;
            const { calls, open } = streamOf(
                () =>
                    new Promise((resolve, reject) => {
                        const error = new Error("late");
                        settle = () => (late === "value" ? resolve({ done: false, value: batch }) : reject(error));
                    })
            );
            const controller = new AbortController();
            const count = joinOf(open).query.count({ signal: controller.signal });
            await ticks();
            controller.abort(reason);
            await expect(count).rejects.toBe(reason);
            settle();
            await ticks(); // an unhandled rejection would fail this run
            expect(calls).toEqual({ next: 2, return: 1 });
        }
    });
});

describe("a stream that is left", () => {
    test("before its end by an error of the query has ended when the query has", async () => {
        let ended = false;
        const { query } = joinOf(async function* () {
            try {
                yield 7 as never;
            } finally {
                await ticks();
                ended = true;
            }
        });
        await expect(query.count()).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
        expect(ended).toBe(true);
    });

    test("is not asked for more by a query that is no longer wanted", async () => {
        const slow = async (): Next => {
            await new Promise((resolve) => setImmediate(resolve));
            return { done: false, value: batch };
        };
        const { calls, open } = streamOf(slow);
        const { query } = joinOf(open);
        const batches = query.batches();
        const next = batches.next().catch(() => undefined);
        await ticks();
        await batches.return!();
        await next;
        const asked = calls.next;
        await ticks();
        expect(calls).toEqual({ next: asked, return: 1 });
    });

    test("at its end is not told to return", async () => {
        const { calls, open } = streamOf(() => Promise.resolve({ done: true, value: undefined }));
        expect(await joinOf(open).query.count()).toBe(42);
        expect(calls).toEqual({ next: 2, return: 0 });
    });
});
