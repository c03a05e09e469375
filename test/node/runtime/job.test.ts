// SPDX-License-Identifier: Apache-2.0
// What a query that was cancelled still does.
import { expect, test } from "vitest";
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
