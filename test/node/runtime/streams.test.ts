// SPDX-License-Identifier: Apache-2.0
// Relations that arrive batch by batch, over a binding without an engine.
import { Field, Int32, makeData, RecordBatch, Schema, Struct } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { fakeRuntime } from "../../support/fake-runtime.js";

const failure = Object.assign(new Error("no space"), { code: "DISK_FULL", details: { path: "/tmp" } });

describe("streams", () => {
    const schema = new Schema([new Field("k", new Int32(), true)]);
    const rowsOf = (length: number): RecordBatch =>
        new RecordBatch(
            schema,
            makeData({
                type: new Struct(schema.fields),
                length,
                children: [makeData({ type: new Int32(), data: new Int32Array(length) })]
            })
        );

    test("are pushed in groups, with row numbers that go on", async () => {
        const numbers: number[] = [];
        const { fake, runtime, right } = fakeRuntime({
            partitionSource: (...args: unknown[]) => {
                if (args.length > 3) numbers.push(args[3] as number);
                return Promise.resolve();
            }
        });
        const stream = runtime.fromBatches(schema, async function* () {
            for (let i = 0; i < 5; i++) yield rowsOf(2 ** 20);
        });
        await runtime.join({ left: stream, right, on: "k" }).count();
        expect(numbers.length).toBeGreaterThan(1);
        expect(numbers[1]).toBe(2 * 2 ** 20);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test.each(["count", "toTable"] as const)("leave memory for queries of their own iterator: %s", async (call) => {
        const { fake, runtime, right, join } = fakeRuntime();
        let inner: number | undefined;
        const stream = runtime.fromBatches(schema, async function* () {
            // This one waits for the query that asks for batches if that has taken all memory, and that one for this.
            inner = await join.count({ signal: AbortSignal.timeout(2000) });
            yield rowsOf(10);
        });
        await runtime.join({ left: stream, right, on: "k" })[call]();
        expect(inner).toBe(42);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("that fail are closed and their error is the query's", async () => {
        let closed = false;
        const broken = new RangeError("broken pipe");
        const { fake, runtime, right } = fakeRuntime();
        const stream = runtime.fromBatches(schema, async function* () {
            try {
                yield rowsOf(10);
                throw broken;
            } finally {
                closed = true;
            }
        });
        await expect(runtime.join({ left: stream, right, on: "k" }).count()).rejects.toBe(broken);
        expect(closed).toBe(true);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("are closed when the engine fails", async () => {
        let closed = false;
        const { fake, runtime, right } = fakeRuntime({
            // Of the stream alone: it states the row that each group begins with.
            partitionSource: (...args: unknown[]) => (args.length > 3 ? Promise.reject(failure) : Promise.resolve())
        });
        const stream = runtime.fromBatches(schema, async function* () {
            try {
                for (;;) yield rowsOf(2 ** 21);
            } finally {
                closed = true;
            }
        });
        await expect(runtime.join({ left: stream, right, on: "k" }).count()).rejects.toMatchObject({
            code: "DISK_FULL"
        });
        expect(closed).toBe(true);
        expect(fake.leftOpen).toEqual(["engine"]);
    });
});
