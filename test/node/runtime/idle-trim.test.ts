// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { tableFromArrays } from "apache-arrow";
import { afterEach, describe, expect, test, vi } from "vitest";
import { openRuntime } from "../../../src/index.js";
import { fakeRuntime } from "../../support/fake-runtime.js";

afterEach(() => void vi.useRealTimers());

describe("an idle runtime", () => {
    test("gives its memory back three seconds after the last query", async () => {
        vi.useFakeTimers();
        const { fake, runtime, join } = fakeRuntime();
        await join.count();
        vi.advanceTimersByTime(2900);
        await join.count();
        vi.advanceTimersByTime(2900);
        expect(fake.calls).not.toContain("trimEngine");
        vi.advanceTimersByTime(200);
        expect(fake.calls.filter((name) => name === "trimEngine")).toHaveLength(1);
        await runtime.close();
    });

    test("that is closed gives it back at once, and not again", async () => {
        vi.useFakeTimers();
        const { fake, runtime, join } = fakeRuntime();
        await join.count();
        await runtime.close();
        vi.advanceTimersByTime(10_000);
        expect(fake.calls.filter((name) => name === "trimEngine")).toHaveLength(1);
        expect(fake.leftOpen).toEqual([]);
    });

    test("that is closed while it gives memory back waits for that first", async () => {
        vi.useFakeTimers();
        let release = (): void => undefined;
        const trimmed = new Promise<void>((resolve) => (release = resolve));
        const { fake, runtime, join } = fakeRuntime({ trimEngine: () => trimmed });
        await join.count();
        vi.advanceTimersByTime(3100);
        const closed = runtime.close();
        await Promise.resolve();
        expect(fake.calls).not.toContain("closeEngine");
        release();
        await closed;
        expect(fake.calls).toContain("closeEngine");
    });

    test("really shrinks", async () => {
        const residentMiB = (): number =>
            Number(/VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1024;
        const runtime = await openRuntime({ memory: { host: "512MiB" }, threads: 2 });
        // Far apart: dense keys would be counted with a bit each, in no memory to speak of.
        const rows = BigInt64Array.from({ length: 2_000_000 }, (_, i) => BigInt(i) * 1000n);
        const left = runtime.fromTable(tableFromArrays({ k: rows, a: rows }));
        const right = runtime.fromTable(tableFromArrays({ k: rows, b: rows }));
        const join = runtime.join({ left, right, on: "k" });
        expect(await join.count()).toBe(2_000_000);
        const before = residentMiB();
        await vi.waitFor(() => expect(residentMiB()).toBeLessThan(before - 20), { timeout: 15_000, interval: 100 });
        expect(await join.count()).toBe(2_000_000); // and works again
        await runtime.close();
    });
});
