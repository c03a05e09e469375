// SPDX-License-Identifier: Apache-2.0
// Readers of one runtime that take turns in a random order, with random budgets: whatever memory they leave each other,
// each query that begins to deliver gets to its end, with the rows that the CPU engine gives.
import type { Query, Runtime } from "spillway";
import { describe, expect, test } from "vitest";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu, usesRealGpu } from "../../support/gpu.js";
import * as results from "../../support/open-results.js";
import { Reader, type Totals } from "../../support/open-results.js";
import { forSeeds, runsOneSeed, type Random } from "../../support/random.js";
import { knobs } from "../../support/knobs.js";

useGpu();

const mebibyte = 2 ** 20;

type Drawn = (runtime: Runtime) => Query;

function draw(random: Random): Drawn {
    const rows = 2 * random.between(500, 60_000);
    const small = random.between(100, 700);
    const expected = random.pick([1, small, small ** 2]);
    return random.pick<Drawn>([
        (runtime) => results.joinOf(runtime, rows),
        (runtime) => results.joinOf(runtime, rows),
        (runtime) => results.groupOf(runtime, rows),
        (runtime) => results.productOf(runtime, small, expected)
    ]);
}

/** One at a time on the CPU engine. */
async function expectedTotals(drawn: readonly Drawn[]): Promise<Totals[]> {
    return await withRuntime({ device: "cpu" }, async (runtime) => {
        const totals: Totals[] = [];
        for (const make of drawn) totals.push(await new Reader(make(runtime), 100_000).toEnd());
        return totals;
    });
}

/** True: it was refused before its first row, since others hold the memory. */
function isRefusal(error: unknown, rows: number): boolean {
    const { code, details } = error as { code?: string; details?: { tier?: string } };
    return rows === 0 && (code === "BUDGET_TOO_SMALL" || code === "OUT_OF_MEMORY") && details?.tier === "device";
}

describe.skipIf(usesRealGpu)("readers in any order", () => {
    test("get all of their rows", { timeout: 120_000 }, async () => {
        let ended = 0;
        await forSeeds(1, 12, async (random) => {
            const drawn = Array.from({ length: random.between(2, 5) }, () => draw(random));
            const totals = await expectedTotals(drawn);
            const device = random.pick(["gpu", "auto"] as const);
            const memory = { device: random.between(24, 70) * mebibyte, host: random.pick(["128MiB", "512MiB"]) };
            const debug = { gpu: true, ...random.pick([{}, { outOfCore: true }]), chunkRows: random.pick([512, 4096]) };
            const batchRows = random.pick([300, 2000, 20_000]);
            await withRuntime({ device, memory, ...knobs(debug), threads: random.between(1, 4) }, async (runtime) => {
                const readers = drawn.map((make) => new Reader(make(runtime), batchRows));
                const open = readers.map((_, i) => i);
                while (open.length > 0) {
                    const at = random.between(0, open.length - 1);
                    const i = open[at] as number;
                    const reader = readers[i] as Reader;
                    const steps = random.pick([1, 1, 5, 50]);
                    try {
                        let more = true;
                        for (let step = 0; step < steps && more; step++) more = await reader.next();
                        if (more) continue;
                        expect(reader.totals).toEqual(totals[i]);
                        ended++;
                    } catch (error) {
                        if (device === "auto" || !isRefusal(error, reader.rows)) throw error;
                    }
                    open.splice(at, 1);
                }
                expect(runtime.memory().host.usedBytes).toBe(0);
            });
        });
        if (!runsOneSeed) expect(ended).toBeGreaterThan(12);
    });
});
