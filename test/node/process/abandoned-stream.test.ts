// SPDX-License-Identifier: Apache-2.0
// A stream that its reader drops without return() gives its memory back when it is collected, not when the runtime
// closes.
import { expect, test } from "vitest";
import { resultOf, runChild } from "../../support/child.js";

test("streams that were dropped after a batch end with their collection, others do not", async () => {
    const child = await runChild("abandoned-stream", { streams: 2 }, { nodeOptions: ["--expose-gc"] });
    const result = resultOf<{ holding: number; left: number; slow: number; rows: number }>(child);
    expect(result.holding).toBeGreaterThan(2 ** 20);
    expect(result.left).toBeLessThan(result.holding / 8);
    expect(result.slow).toBe(result.rows);
});
