// SPDX-License-Identifier: Apache-2.0
// What a query asks of an iterable of the caller's, and when it tells him that it is left.
import { describe, expect, test } from "vitest";
import { CallersIterator } from "../../../src/execute/callers-iterator.js";
import { Job } from "../../../src/execute/job.js";
import { FakeBinding } from "../../support/fake-binding.js";

const newJob = () => new Job(new FakeBinding().binding, undefined as never, undefined);

/** An async iterable of 1 and 2 that notes what is asked of it; `more`: in place of its own methods. */
function noted(more: object = {}) {
    const asked: string[] = [];
    let last = 0;
    const iterator = {
        next: async () => {
            asked.push("next");
            return last < 2 ? { done: false, value: ++last } : { done: true, value: undefined };
        },
        return: async () => {
            asked.push("return");
            return { done: true, value: undefined };
        },
        ...more
    };
    return { asked, iterable: { [Symbol.asyncIterator]: () => iterator } };
}

async function valuesOf(iterable: unknown): Promise<unknown[]> {
    const iterator = new CallersIterator(newJob(), iterable);
    const values: unknown[] = [];
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) values.push(next.value);
    return values;
}

test("values come from async iterables and from others", async () => {
    expect(await valuesOf(noted().iterable)).toEqual([1, 2]);
    expect(await valuesOf([1, 2])).toEqual([1, 2]);
    expect(await valuesOf(new Set([3]))).toEqual([3]);
});

test.each([[null], [undefined], [7], ["text"], [{}], [{ next: () => ({ done: true }) }]])(
    "%o is no iterable of batches",
    (value) => {
        const invalid = expect.objectContaining({ code: "INVALID_ARGUMENT", message: expect.stringContaining("open") });
        expect(() => new CallersIterator(newJob(), value)).toThrow(invalid as Error);
    }
);

describe("an iterator that is left", () => {
    test("before its end is told once", async () => {
        const { asked, iterable } = noted();
        const iterator = new CallersIterator(newJob(), iterable);
        await iterator.next();
        await iterator.leave();
        await iterator.leave();
        expect(asked).toEqual(["next", "return"]);
    });

    test("before its first value is told", async () => {
        const { asked, iterable } = noted();
        await new CallersIterator(newJob(), iterable).leave();
        expect(asked).toEqual(["return"]);
    });

    test("after its end, or after it threw, is not told", async () => {
        const ended = noted();
        const all = new CallersIterator(newJob(), ended.iterable);
        while ((await all.next()).done !== true);
        await all.leave();
        expect(ended.asked).toEqual(["next", "next", "next"]);
        const broken = noted({ next: async () => Promise.reject(new RangeError("broken")) });
        const failing = new CallersIterator(newJob(), broken.iterable);
        await expect(failing.next()).rejects.toThrow("broken");
        await failing.leave();
        expect(broken.asked).toEqual([]);
    });

    test("may have no return(), or one that throws or rejects", async () => {
        const fails = (): never => {
            throw new RangeError("broken");
        };
        for (const method of [undefined, fails, async () => fails()]) {
            await new CallersIterator(newJob(), noted({ return: method }).iterable).leave();
        }
    });

    test("is waited for, but not longer than the query runs", async () => {
        let finish = (): void => undefined;
        const slow = noted({ return: async () => new Promise<void>((resolve) => (finish = resolve)) });
        let left = false;
        const leaving = new CallersIterator(newJob(), slow.iterable).leave().then(() => (left = true));
        await new Promise((resolve) => setImmediate(resolve));
        expect(left).toBe(false);
        finish();
        await leaving;
        const job = newJob();
        const never = noted({ return: async () => new Promise(() => undefined) });
        const cutOff = new CallersIterator(job, never.iterable).leave();
        job.cancel();
        await cutOff;
    });
});

test("a query that is cancelled waits for no value, and asks for none any more", async () => {
    const job = newJob();
    let asked = 0;
    const next = async () => {
        asked++;
        return await new Promise(() => undefined);
    };
    const iterator = new CallersIterator(job, noted({ next }).iterable);
    const waiting = iterator.next();
    job.cancel();
    await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
    await expect(iterator.next()).rejects.toMatchObject({ code: "ABORTED" });
    expect(asked).toBe(1);
});
