// SPDX-License-Identifier: Apache-2.0
// Who gets how much of the budget, who waits for whom, and who is told that waiting would not help.
import { describe, expect, test } from "vitest";
import { SpillwayError } from "../../../src/errors.js";
import { parseBytes } from "../../../src/model/sizes.js";
import { Admission, type MemoryRequest } from "../../../src/runtime/admission.js";

const request = (minimumBytes: number, wantedBytes: number, waitsForUser = false): MemoryRequest => ({
    minimumBytes: () => minimumBytes,
    wantedBytes,
    waitsForUser
});
const never = (): void => undefined;
/** Has it been decided after all microtasks? */
async function settled(promise: Promise<unknown>): Promise<boolean> {
    let done = false;
    void promise.then(
        () => (done = true),
        () => (done = true)
    );
    await new Promise((resolve) => setImmediate(resolve));
    return done;
}

describe("a query", () => {
    test("gets twice what it wants, at most what there is", async () => {
        const admission = new Admission(1000);
        const small = await admission.admit(request(10, 100), never);
        expect(small.bytes).toBe(200);
        expect((await admission.admit(request(10, 700), never)).bytes).toBe(800);
        small.release();
    });

    test("that asks for more than all is refused at once, with the figure", async () => {
        await expect(new Admission(1000).admit(request(5000, 9000), never)).rejects.toMatchObject({
            code: "BUDGET_TOO_SMALL",
            details: { option: "memory.host" }
        });
    });

    test("finds less while a table is collected, and waits for it", async () => {
        const admission = new Admission(1000);
        const table = {};
        const collecting = await admission.admit(request(100, 100), never);
        admission.holdTable(table, { bytes: 300, waitsForUser: false });
        admission.holdTable(table, { bytes: 500, waitsForUser: false });
        expect(admission.freeBytes).toBe(300);
        const small = await admission.admit(request(100, 150), never);
        expect(small.bytes).toBe(300);
        small.release();
        const large = admission.admit(request(400, 400), never);
        expect(await settled(large)).toBe(false);
        admission.dropTable(table);
        expect((await large).bytes).toBe(800);
        collecting.release();
        admission.dropTable(table);
        expect(admission.freeBytes).toBe(200);
    });

    test("does not wait for a table whose rows come from the user, who may wait for the query", async () => {
        const admission = new Admission(1000);
        admission.holdTable({}, { bytes: 700, waitsForUser: true });
        await expect(admission.admit(request(400, 400), never)).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL" });
    });

    test("waits for queries that end by themselves, in order", async () => {
        const admission = new Admission(1000);
        const first = await admission.admit(request(600, 900), never);
        const second = admission.admit(request(600, 900), never);
        const third = admission.admit(request(100, 100), never);
        expect(await settled(second)).toBe(false);
        expect(await settled(third)).toBe(false); // behind the second, or that one would starve
        first.release();
        const [a, b] = [await second, third];
        expect(a.bytes).toBeGreaterThanOrEqual(600);
        a.release();
        expect((await b).bytes).toBe(200);
    });

    test("does not overtake one that waits, though its own memory is free", async () => {
        const admission = new Admission(1000);
        const first = await admission.admit(request(100, 300), never);
        expect(first.bytes).toBe(600);
        const large = admission.admit(request(900, 900), never);
        const small = admission.admit(request(50, 100), never);
        expect([await settled(large), await settled(small)]).toEqual([false, false]);
        first.release();
        expect((await large).bytes).toBe(1000);
        expect(await settled(small)).toBe(false);
        (await large).release();
        expect((await small).bytes).toBe(200);
    });

    test("gets what is free where that is all that it wishes, or all that it needs", async () => {
        const unasked = { minimumBytes: () => expect.fail("memory is not short"), wantedBytes: 500 };
        const plenty = await new Admission(1000).admit({ ...unasked, waitsForUser: false }, never);
        expect(plenty.bytes).toBe(1000);
        const shared = await new Admission(2000).admit({ ...unasked, waitsForUser: true }, never);
        expect(shared.bytes).toBe(1000);
        // All of the budget, to the byte.
        expect((await new Admission(1000).admit(request(1000, 1000), never)).bytes).toBe(1000);
        const admission = new Admission(1000);
        await admission.admit(request(100, 300), never);
        expect((await admission.admit(request(400, 400), never)).bytes).toBe(400);
    });

    test("takes less than it wishes if that is halfway from its needs to its wants, else it waits", async () => {
        const admission = new Admission(1000);
        const first = await admission.admit(request(10, 300), never);
        // 400 are free: halfway from 100 to 700, and a byte less than halfway from 102 to 700.
        const halfway = await admission.admit(request(100, 700), never);
        expect(halfway.bytes).toBe(400);
        halfway.release();
        const waiting = admission.admit(request(102, 700), never);
        expect(await settled(waiting)).toBe(false);
        first.release();
        expect((await waiting).bytes).toBe(1000);
    });

    test("waits where those that end by themselves hold just what it lacks", async () => {
        const admission = new Admission(1000);
        const reading = await admission.admit(request(10, 100, true), never);
        const other = await admission.admit(request(10, 400), never);
        expect([reading.bytes, other.bytes]).toEqual([200, 800]);
        const waiting = admission.admit(request(800, 800), never);
        expect(await settled(waiting)).toBe(false);
        other.release();
        expect((await waiting).bytes).toBe(800);
        await expect(admission.admit(request(801, 801), never)).rejects.toMatchObject({
            code: "BUDGET_TOO_SMALL",
            details: { wantedBytes: 801, freeBytes: 800 }
        });
    });

    test("that is refused counts who holds the rest", async () => {
        const admission = new Admission(1000);
        for (let i = 0; i < 2; i++) await admission.admit(request(300, 500, true), never);
        await expect(admission.admit(request(900, 900), never)).rejects.toThrow(
            /held by 2 queries with an open result/
        );
    });

    test("does not wait for one that may wait for user code", async () => {
        const admission = new Admission(1000);
        const reading = await admission.admit(request(600, 900, true), never);
        await expect(admission.admit(request(600, 900), never)).rejects.toMatchObject({
            code: "BUDGET_TOO_SMALL",
            message: expect.stringMatching(/one query with an open result/) as string
        });
        reading.release();
        expect((await admission.admit(request(600, 900), never)).bytes).toBe(1000);
    });

    test("that may wait for user code leaves half to others, and one of many most of it", async () => {
        const admission = new Admission(1600);
        expect((await admission.admit(request(10, 900, true), never)).bytes).toBe(800);
        expect((await admission.admit(request(10, 900, true), never)).bytes).toBe(100);
        expect((await admission.admit(request(10, 900, true), never)).bytes).toBe(87);
    });

    test("that is refused because of others that wait for user code hears of a budget that does for all", async () => {
        const requests = Array.from({ length: 12 }, () => request(70, 900, true));
        const admitAll = async (limit: number): Promise<string[]> => {
            const admission = new Admission(limit);
            const refused: string[] = [];
            for (const each of requests) {
                await admission.admit(each, never).catch((error: SpillwayError) => {
                    refused.push(String(error.details["smallest"]));
                });
            }
            return refused;
        };
        let limit = 400;
        let steps = 0;
        for (let refused = await admitAll(limit); refused.length > 0; refused = await admitAll(limit)) {
            expect(++steps).toBeLessThan(10);
            limit = parseBytes(refused.at(-1), "memory.host");
        }
        expect(limit).toBeLessThan(4096);
        expect(steps).toBeGreaterThan(0);
    });

    test("that is cancelled while it waits leaves the line", async () => {
        const admission = new Admission(1000);
        const first = await admission.admit(request(900, 900), never);
        let cancel = never;
        const waiting = admission.admit(request(900, 900), (listener) => (cancel = listener));
        const behind = admission.admit(request(50, 50), never);
        expect(await settled(waiting)).toBe(false);
        cancel();
        await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
        first.release();
        expect((await behind).bytes).toBe(100);
    });

    test("that is cancelled while it waits lets those behind it in at once", async () => {
        const admission = new Admission(1000);
        await admission.admit(request(100, 300), never);
        let cancel = never;
        const waiting = admission.admit(request(900, 900), (listener) => (cancel = listener));
        const behind = admission.admit(request(50, 100), never);
        expect(await settled(behind)).toBe(false);
        cancel();
        await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
        expect((await behind).bytes).toBe(200);
        expect(admission.running).toBe(2);
    });

    test("that is cancelled after it got its memory takes nobody out of the line", async () => {
        const admission = new Admission(1000);
        const first = await admission.admit(request(600, 900), never);
        let cancel = never;
        const second = admission.admit(request(600, 900), (listener) => (cancel = listener));
        first.release();
        const granted = await second;
        const third = admission.admit(request(600, 900), never);
        cancel();
        expect(await settled(third)).toBe(false);
        granted.release();
        expect((await third).bytes).toBe(1000);
    });

    test("that may wait for user code waits for its share of what others hold, though more is free", async () => {
        const admission = new Admission(1000);
        const first = await admission.admit(request(100, 100), never);
        // It may have 400 of the 800 that are free, and halfway from 100 to 900 are 500.
        const reading = admission.admit(request(100, 900, true), never);
        expect(await settled(reading)).toBe(false);
        first.release();
        expect((await reading).bytes).toBe(500);
    });

    test("is refused when the runtime closes", async () => {
        const admission = new Admission(1000);
        await admission.admit(request(900, 900), never);
        const waiting = admission.admit(request(900, 900), never);
        admission.close(new SpillwayError("CLOSED", "closed"));
        await expect(waiting).rejects.toMatchObject({ code: "CLOSED" });
    });
});

describe("relations of files that hold part of the budget", () => {
    const mebibyte = 2 ** 20;
    const bytesOf = (text: unknown): number => parseBytes(text, "memory.host");

    test("leave the rest to queries", async () => {
        const admission = new Admission(1000, () => 300);
        expect(admission.freeBytes).toBe(700);
        expect((await admission.admit(request(10, 700), never)).bytes).toBe(700);
        expect(admission.freeBytes).toBe(0);
    });

    test("are in what a query is told to need that fits the budget only without them", async () => {
        let held = 300 * mebibyte;
        const admission = new Admission(1000 * mebibyte, () => held);
        const large = request(701 * mebibyte, 900 * mebibyte);
        const error = (await admission.admit(large, never).catch((thrown: unknown) => thrown)) as SpillwayError;
        expect(error).toMatchObject({ code: "BUDGET_TOO_SMALL", details: { freeBytes: 1000 * mebibyte } });
        expect(error.details["wantedBytes"]).toBe(bytesOf(error.details["smallest"]));
        expect(error.details["wantedBytes"]).toBeGreaterThanOrEqual(1001 * mebibyte);
        expect(error.details["wantedBytes"]).toBeLessThan(1103 * mebibyte);
        expect(error.message).toMatch(/with the batches of its files, needs/);
        // To the byte.
        expect((await admission.admit(request(700 * mebibyte, 900 * mebibyte), never)).bytes).toBe(700 * mebibyte);
        held = 0;
        const alone = new Admission(1000 * mebibyte, () => held).admit(
            request(1001 * mebibyte, 2000 * mebibyte),
            never
        );
        await expect(alone).rejects.toThrow(/^The query needs/);
    });

    test("refuse at once what they leave no room for, whoever else runs", async () => {
        const admission = new Admission(1000, () => 300);
        await admission.admit(request(100, 350), never);
        const refused = admission.admit(request(701, 800), never);
        expect(await settled(refused)).toBe(true);
        await expect(refused).rejects.toThrow(/are allowed/);
        const waiting = admission.admit(request(700, 800), never);
        expect(await settled(waiting)).toBe(false);
    });

    test("are in the budget that would do beside results that are read", async () => {
        const held = 100 * mebibyte;
        const [reader, next] = [request(300 * mebibyte, 500 * mebibyte, true), request(315 * mebibyte, 315 * mebibyte)];
        const admission = new Admission(700 * mebibyte, () => held);
        // Half of the 600 MiB that are left, and then half of 630.
        expect((await admission.admit(reader, never)).bytes).toBe(300 * mebibyte);
        const error = (await admission.admit(next, never).catch((thrown: unknown) => thrown)) as SpillwayError;
        expect(error.details).toMatchObject({ freeBytes: 300 * mebibyte, smallest: "730MiB" });
        const larger = new Admission(bytesOf(error.details["smallest"]), () => held);
        for (const each of [reader, next]) expect((await larger.admit(each, never)).bytes).toBe(315 * mebibyte);
    });
});

test("what a query needs at least is not worked out while it waits for others that leave it all", async () => {
    const admission = new Admission(1000);
    const asked: string[] = [];
    const counting = (name: string): MemoryRequest => ({
        minimumBytes: () => asked.push(name),
        wantedBytes: 100,
        waitsForUser: false
    });
    const running = await Promise.all(Array.from({ length: 5 }, (_, i) => admission.admit(counting(`${i}`), never)));
    const waiting = ["a", "b", "c"].map((name) => admission.admit(counting(name), never));
    expect(admission.waiting).toBe(3);
    for (const { release } of running) release();
    for (const { bytes } of await Promise.all(waiting)) expect(bytes).toBe(200);
    expect(asked).toEqual([]);
});

test("whoever waits for nobody any more is told, once for each end", async () => {
    let told = 0;
    const admission = new Admission(
        1000,
        () => 0,
        () => told++
    );
    const { release } = await admission.admit(request(10, 500), never);
    const waiting = admission.admit(request(500, 500), never);
    expect(told).toBe(0);
    release();
    release();
    await waiting;
    expect(told).toBe(1);
    expect([admission.running, admission.freeBytes]).toEqual([1, 0]);
});
