// SPDX-License-Identifier: Apache-2.0
// What samples tell a plan for the GPU of keys that fill no range: the share of rows that match.
import { openRuntime } from "spillway";
import { expect, test } from "vitest";
import { useGpu } from "../../support/gpu.js";

useGpu();

test("sparse keys: the share of matching rows is found by samples of both sides", async () => {
    const runtime = await openRuntime({ device: "gpu", memory: { host: "512MiB", device: "1GiB" } });
    try {
        const rows = 2_200_000;
        const sides = async (matchRatio: number) => {
            const key = { role: "foreign", sparse: true, domainRows: rows, matchRatio } as const;
            return await runtime.generate({ rows, seed: 2, key, payload: 1 }, "memory");
        };
        const left = await runtime.generate({ rows, key: { sparse: true }, payload: 2 }, "memory");
        const shareOf = async (matchRatio: number): Promise<number> => {
            const text = String(await runtime.join({ left, right: await sides(matchRatio), on: "key" }).explain());
            return Number(/([\d.]+) % of the probe rows match/.exec(text)?.[1]);
        };
        expect(await shareOf(1)).toBeGreaterThan(90);
        const quarter = await shareOf(0.25);
        expect(quarter).toBeGreaterThan(20);
        expect(quarter).toBeLessThan(30);
    } finally {
        await runtime.close();
    }
});
