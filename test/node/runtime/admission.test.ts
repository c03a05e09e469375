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

    test("is refused when the runtime closes", async () => {
        const admission = new Admission(1000);
        await admission.admit(request(900, 900), never);
        const waiting = admission.admit(request(900, 900), never);
        admission.close(new SpillwayError("CLOSED", "closed"));
        await expect(waiting).rejects.toMatchObject({ code: "CLOSED" });
    });
});
