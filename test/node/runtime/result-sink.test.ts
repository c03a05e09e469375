// SPDX-License-Identifier: Apache-2.0
// The queue of a query that is planned anew, over a binding without an engine.
import { describe, expect, test, vi } from "vitest";
import { droppedBatches } from "../../../src/execute/dropped-batches.js";
import { FileSink, QueueSink } from "../../../src/execute/result-sink.js";
import { Job } from "../../../src/execute/job.js";
import type { NativeDelivered } from "../../../src/native/binding.js";
import type { Plan } from "../../../src/plan/plan.js";
import { numbersBatch } from "../../support/engine-batch.js";
import { FakeBinding } from "../../support/fake-binding.js";
import { fakeRuntime } from "../../support/fake-runtime.js";

const oneRow = numbersBatch(Int32Array.of(0), Int32Array.of(0), Int32Array.of(0));
const planOf = (batchRows: number, queuedBatches: number) =>
    ({ batchRows, batchBytes: batchRows * 8, queuedBatches, sink: "batches" }) as Plan;

function queue() {
    const queues: { options: Record<string, unknown>; end: (end: null) => void; ended: Promise<null> }[] = [];
    const fake = new FakeBinding({
        createQueueSink: (...[, , options]: unknown[]) => {
            let end: (end: null) => void = () => undefined;
            const ended = new Promise<null>((resolve) => (end = resolve));
            queues.push({ options: options as Record<string, unknown>, end, ended });
            return queues.length - 1;
        },
        // The first plan delivers nothing: its reader is answered when the queue is closed.
        nextBatch: (handle: number) => (handle === 0 ? queues[0]!.ended : Promise.resolve(oneRow)),
        closeSink: (handle: number) => queues[handle]!.end(null)
    });
    const job = new Job(fake.binding, undefined as never, undefined);
    const sink = new QueueSink(job, fakeRuntime().join._node);
    return { queues, fake, sink };
}

describe("a file for another plan", () => {
    function file() {
        const made: Record<string, unknown>[] = [];
        const closed: unknown[] = [];
        const fake = new FakeBinding({
            createFileSink: (...[, , options]: unknown[]) => made.push(options as Record<string, unknown>),
            closeSink: (handle: unknown) => closed.push(handle)
        });
        const job = new Job(fake.binding, undefined as never, undefined);
        return { made, closed, job, sink: new FileSink(job, fakeRuntime().join._node, "/tmp/never.arrow", true) };
    }

    test("is the same file where its batches have the same sizes and no dictionary is in it yet", () => {
        const { made, closed, job, sink } = file();
        sink.prepare(planOf(1000, 4));
        sink.prepare(planOf(1000, 2));
        expect(made).toMatchObject([{ path: "/tmp/never.arrow", overwrite: true, batchRows: 1000, batchBytes: 8000 }]);
        expect(closed).toEqual([]);
        job.end();
        expect(closed).toEqual([1]);
    });

    test.each([
        ["rows", { batchRows: 10 }],
        ["bytes", { batchBytes: 10 }]
    ])("is another one for other %s, and the first is closed", (_, more) => {
        const { made, closed, sink } = file();
        sink.prepare(planOf(1000, 4));
        sink.prepare({ ...planOf(1000, 4), ...more });
        expect(made).toMatchObject([{ batchRows: 1000, batchBytes: 8000 }, more]);
        expect(closed).toEqual([1]);
    });

    test("is another one once dictionaries may have been written", async () => {
        const { made, closed, sink } = file();
        expect(await sink.open(planOf(1000, 4), () => undefined)).toBe(1);
        expect(await sink.open(planOf(1000, 4), () => undefined)).toBe(2);
        expect([made.length, closed]).toEqual([2, [1]]);
    });
});

describe("memory of delivered batches", () => {
    /** What is told of it before each batch, of a queue with always as many bytes alive and half as many unused. */
    async function told(sinkKind: "batches" | "table", opened = true, aliveBytes = 1000, grantable = Infinity) {
        const seen: NativeDelivered[] = [];
        const wanted = vi.spyOn(droppedBatches, "wantRoom").mockImplementation((memory) => {
            seen.push(memory());
            return seen.length === 3;
        });
        const room = vi.spyOn(droppedBatches, "makeRoom").mockResolvedValue();
        try {
            const fake = new FakeBinding({
                deliveredMemory: () => ({ aliveBytes, unusedBytes: aliveBytes / 2 }),
                nextBatch: () => Promise.resolve(oneRow)
            });
            const job = new Job(fake.binding, undefined as never, undefined);
            job.grantableBytes = () => grantable;
            const sink = new QueueSink(job, fakeRuntime().join._node);
            if (opened) await sink.open({ ...planOf(10, 2), sink: sinkKind }, () => undefined);
            for (let i = 0; i < 3; i++) await sink.next();
            // A stream that has failed is closed twice.
            for (let times = 0; times < 2; times++) sink.close();
            return { seen, delivered: sink.deliveredBytes, collections: room.mock.calls.length };
        } finally {
            wanted.mockRestore();
            room.mockRestore();
        }
    }

    test("is the engine's for a reader of batches, and room is made only where it is wanted", async () => {
        const { seen, delivered, collections } = await told("batches");
        expect(seen).toEqual(Array(3).fill({ aliveBytes: 1000, unusedBytes: 500 }));
        // Three batches of one row, each with three buffers of 4 bytes.
        expect([delivered, collections]).toEqual([36, 1]);
    });

    test("is without those of a table, which nobody drops and which use what is unused", async () => {
        const { seen } = await told("table");
        // 12 bytes each, in blocks that are a sixteenth larger; whole bytes.
        const own = [0, 13, 26];
        expect(seen).toEqual(own.map((bytes) => ({ aliveBytes: 1000 - bytes, unusedBytes: 500 - bytes })));
        // That one is there now, and is its reader's.
        expect((await told("table")).seen).toEqual(seen);
    });

    test("is without those of a table that is being made for another reader", async () => {
        const deliveredMemory = () => ({ aliveBytes: 1000, unusedBytes: 500 });
        const fake = new FakeBinding({ deliveredMemory, nextBatch: () => Promise.resolve(oneRow) });
        const table = new QueueSink(new Job(fake.binding, undefined as never, undefined), fakeRuntime().join._node);
        await table.open({ ...planOf(10, 2), sink: "table" }, () => undefined);
        await table.next();
        const without = { aliveBytes: 987, unusedBytes: 500 };
        expect((await told("batches")).seen).toEqual(Array(3).fill(without));
        table.close();
        expect((await told("batches")).seen).toEqual(Array(3).fill({ aliveBytes: 1000, unusedBytes: 500 }));
    });

    test("of a table is never less than none", async () => {
        const { seen } = await told("table", true, 4);
        expect(seen).toEqual([{ aliveBytes: 4, unusedBytes: 2 }, ...Array(2).fill({ aliveBytes: 0, unusedBytes: 0 })]);
    });

    test("leaves to other queries what they were granted", async () => {
        expect((await told("batches", true, 1000, 200)).seen).toEqual(
            Array(3).fill({ aliveBytes: 1000, unusedBytes: 200 })
        );
    });

    test("is none before there is a queue", async () => {
        expect((await told("batches", false)).seen).toEqual(Array(3).fill({ aliveBytes: 0, unusedBytes: 0 }));
    });
});

describe("a queue for another plan", () => {
    test("gives a waiting reader nothing of the first one, and what is left is of the second", async () => {
        const { queues, sink } = queue();
        await sink.open(planOf(1000, 4), () => undefined);
        const reading = sink.next();
        expect(sink.restart()).toBe(true);
        queues[0]!.end(oneRow as never); // on its way when the first plan failed
        await sink.open(planOf(10, 2), () => undefined);
        expect((await reading)?.numRows).toBe(1);
        expect(sink.deliveredBytes).toBe(12);
        // From now on the reader has rows that another plan would bring again.
        expect(sink.restart()).toBe(false);
    });

    test("serves a reader that saw the first one end before it was known that there is another plan", async () => {
        const { queues, sink } = queue();
        await sink.open(planOf(1000, 4), () => undefined);
        const reading = sink.next();
        queues[0]!.end(null);
        await new Promise((resolve) => setTimeout(resolve, 5));
        expect(sink.restart()).toBe(true);
        await sink.open(planOf(10, 2), () => undefined);
        expect((await reading)?.numRows).toBe(1);
    });

    test("does not come where the query has ended well, and the reader is told so", async () => {
        const { queues, sink } = queue();
        await sink.open(planOf(1000, 4), () => undefined);
        const reading = sink.next();
        queues[0]!.end(null);
        await sink.finish();
        expect(await reading).toBeNull();
    });

    test("that never comes ends the reader's wait when the queue is closed", async () => {
        const { sink } = queue();
        await sink.open(planOf(1000, 4), () => undefined);
        const reading = sink.next();
        expect(sink.restart()).toBe(true);
        sink.close();
        expect(await reading).toBeNull();
    });

    test("has the sizes of that plan, and the first one is closed", async () => {
        const { queues, fake, sink } = queue();
        await sink.open(planOf(1000, 4), () => undefined);
        await sink.open(planOf(10, 2), () => undefined);
        expect(queues.map(({ options }) => options)).toMatchObject([
            { batchRows: 1000, batchBytes: 8000, maxBatches: 4 },
            { batchRows: 10, batchBytes: 80, maxBatches: 2 }
        ]);
        expect(fake.calls.filter((call) => call === "closeSink").length).toBe(1);
    });

    test("goes on to serve a reader that waits", async () => {
        const { sink } = queue();
        await sink.open(planOf(1000, 4), () => undefined);
        const waiting = sink.next();
        await new Promise((resolve) => setTimeout(resolve, 5));
        await sink.open(planOf(10, 2), () => undefined);
        expect((await waiting)?.numRows).toBe(1);
    });

    test("that was closed for good ends", async () => {
        const { sink } = queue();
        await sink.open(planOf(1000, 4), () => undefined);
        const waiting = sink.next();
        await new Promise((resolve) => setTimeout(resolve, 5));
        sink.close();
        expect(await waiting).toBeNull();
    });
});
