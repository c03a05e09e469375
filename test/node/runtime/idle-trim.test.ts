// SPDX-License-Identifier: Apache-2.0
import { afterEach, describe, expect, test, vi } from "vitest";
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
});
