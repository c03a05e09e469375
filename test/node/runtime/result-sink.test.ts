// SPDX-License-Identifier: Apache-2.0
// The queue of a query that is planned anew, over a binding without an engine.
import { describe, expect, test } from "vitest";
import { QueueSink } from "../../../src/execute/result-sink.js";
import { Job } from "../../../src/execute/job.js";
import type { NativeOutputBatch } from "../../../src/native/binding.js";
import type { Plan } from "../../../src/plan/plan.js";
import { FakeBinding } from "../../support/fake-binding.js";
import { fakeRuntime } from "../../support/fake-runtime.js";

const oneRow: NativeOutputBatch = {
    rows: 1,
    nodes: Float64Array.of(1, 0, 1, 0, 1, 0),
    buffers: [null, new ArrayBuffer(4), null, new ArrayBuffer(4), null, new ArrayBuffer(4)]
};
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

describe("a queue for another plan", () => {
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
