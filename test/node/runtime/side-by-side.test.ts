// SPDX-License-Identifier: Apache-2.0
// What a query does for all of its relations at once, over a binding without an engine.
import { tableFromArrays } from "apache-arrow";
import { describe, expect, test } from "vitest";
import { fakeRuntime } from "../../support/fake-runtime.js";
import type { Query } from "../../../src/runtime/query.js";

type Overrides = Parameters<typeof fakeRuntime>[0];

const failure = Object.assign(new Error("no such file"), { code: "FILE_NOT_FOUND", details: { path: "/x" } });
const pressure = Object.assign(new Error("full"), { code: "BUDGET_TOO_SMALL", details: {} });
const sample = { rows: 2e4, nulls: 0, min: 0n, max: 9n, sampledRows: 100, sampledDistinct: 10, heaviestShare: 0.1 };
const ticks = async (): Promise<void> => {
    for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** A join of relations that are large enough for a sample. */
function largeJoin(overrides: Overrides) {
    const { fake, runtime } = fakeRuntime(overrides);
    const rows = Int32Array.from({ length: 20_000 }, (_, i) => i);
    const left = runtime.fromTable(tableFromArrays({ k: rows, a: rows }));
    const right = runtime.fromTable(tableFromArrays({ k: rows, b: rows }));
    return { fake, join: runtime.join({ left, right, on: "k" }) as unknown as Query };
}

test("sources of all relations are opened, and then sampled, side by side", async () => {
    let running = 0;
    let most = 0;
    const { fake, join } = largeJoin({
        keyStatistics: async () => {
            most = Math.max(most, ++running);
            await ticks();
            running--;
            return sample;
        }
    });
    expect(await join.count()).toBe(42);
    expect(most).toBe(2);
    const calls = fake.calls.filter((name) => ["openSource", "keyStatistics"].includes(name));
    expect(calls).toEqual(["openSource", "openSource", "keyStatistics", "keyStatistics"]);
    expect(fake.leftOpen).toEqual(["engine"]);
});

describe.each(["openSource", "keyStatistics"] as const)("%s of two relations", (call) => {
    test("that fails for one waits for the other, then throws the first error", async () => {
        const ended: number[] = [];
        let calls = 0;
        const { fake, join } = largeJoin({
            [call]: async () => {
                const turn = calls++;
                if (turn === 1) await ticks();
                ended.push(turn);
                throw turn === 0 ? failure : new Error("later");
            }
        });
        await expect(join.count()).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
        expect(ended).toEqual([0, 1]);
        expect(fake.leftOpen).toEqual(["engine"]);
    });
});

test("a sample is taken once per relation; memory pressure is no error and is tried again", async () => {
    let calls = 0;
    const { join } = largeJoin({ keyStatistics: () => (calls++ === 0 ? Promise.reject(pressure) : sample) });
    expect(await join.count()).toBe(42);
    expect(calls).toBe(2);
    expect(await join.count()).toBe(42);
    expect(calls).toBe(3);
    expect(await join.count()).toBe(42);
    expect(calls).toBe(3);
});

test("a query that is planned again gets the memory that its new plan wants", async () => {
    const full = Object.assign(new Error("full"), { code: "BUDGET_TOO_SMALL", details: { reason: "tableFull" } });
    const pools: number[] = [];
    const few = { ...sample, rows: 1e6, sampledRows: 1e4, sampledDistinct: 3 };
    const { fake, runtime } = fakeRuntime({
        keyStatistics: () => Promise.resolve(few),
        groupSource: () => Promise.reject(full),
        createPartitions: (_: never, spec: { poolBytes: number }) => {
            pools.push(spec.poolBytes);
            const handle = { kind: "partitions", spec } as never;
            fake.open.add(handle);
            return handle;
        }
    });
    const rows = 1_000_000;
    const many = runtime.fromTable(tableFromArrays({ k: new Int32Array(rows), a: new Int32Array(rows) }));
    const query = many.groupBy({ keys: ["k"], aggregates: { s: { sum: "a" } } });
    expect(await query.count()).toBe(42);
    expect(fake.calls).toContain("groupSource");
    // All rows (16 bytes each) in memory: a few groups were to take less than 1 MiB.
    expect(pools).toHaveLength(1);
    expect(pools[0]).toBeGreaterThanOrEqual(rows * 16);
});
