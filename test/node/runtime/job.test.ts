// SPDX-License-Identifier: Apache-2.0
// What a query that was cancelled still does.
import { expect, test, vi } from "vitest";
import { Job } from "../../../src/execute/job.js";
import { FakeBinding } from "../../support/fake-binding.js";

const { binding } = new FakeBinding();
const jobOf = (signal?: AbortSignal) => new Job(binding, undefined as never, signal);

test("a cancelled job is not to go on, and tells those who ask later", () => {
    const job = jobOf();
    const told: string[] = [];
    job.onCancel(() => told.push("before"));
    job.onCancel(() => told.push("forgotten"))();
    job.check();
    job.cancel();
    job.onCancel(() => told.push("after"));
    expect(told).toEqual(["before", "after"]);
    expect(() => job.check()).toThrow(expect.objectContaining({ code: "ABORTED" }) as Error);
});

test("a wait that has ended is forgotten: a stream of many batches leaves no listener behind", async () => {
    const job = jobOf();
    for (let i = 0; i < 100; i++) expect(await job.unlessCancelled(Promise.resolve(i))).toBe(i);
    await expect(job.unlessCancelled(Promise.reject(new RangeError("broken")))).rejects.toThrow("broken");
    // A listener that is left would ask why the query was cancelled.
    const asked = vi.spyOn(job, "outcome");
    job.cancel();
    expect(asked).not.toHaveBeenCalled();
    await expect(job.unlessCancelled(new Promise(() => undefined))).rejects.toMatchObject({ code: "ABORTED" });
});

test("a job that has ended leaves no listener on its signal, and runs what it was given last to first", () => {
    const controller = new AbortController();
    const cancelled: unknown[] = [];
    const noting = new FakeBinding({ cancelJob: (job: unknown) => cancelled.push(job) });
    const order: number[] = [];
    const job = new Job(noting.binding, undefined as never, controller.signal);
    for (const each of [1, 2, 3]) job.onEnd(() => order.push(each));
    job.end();
    job.end();
    expect(order).toEqual([3, 2, 1]);
    controller.abort();
    expect(cancelled).toEqual([]);
});

test("the reason of a job that failed, was closed or aborted is its own", () => {
    const failed = jobOf();
    failed.fail(new RangeError("broken pipe"));
    expect(() => failed.check()).toThrow("broken pipe");
    const closed = jobOf();
    closed.close();
    expect(() => closed.check()).toThrow(expect.objectContaining({ code: "CLOSED" }) as Error);
    expect(() => jobOf(AbortSignal.abort(new Error("enough"))).check()).toThrow("enough");
});

test("a job that is cancelled keeps the process alive until it has ended", () => {
    const waited: boolean[] = [];
    const noting = new FakeBinding({ waitForJob: (...[, wanted]: unknown[]) => waited.push(wanted as boolean) });
    const job = new Job(noting.binding, undefined as never, undefined);
    job.waitedFor(false);
    job.close();
    job.waitedFor(false);
    expect(waited).toEqual([false, true, true]);
});
