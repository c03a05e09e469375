// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { tableFromArrays } from "apache-arrow";
import { openRuntime } from "spillway";
import { expect, test, vi } from "vitest";

test("an idle runtime really shrinks", async () => {
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
