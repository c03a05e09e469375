// SPDX-License-Identifier: Apache-2.0
// Planning near the least budget, where page sizes and runs that are powers of two jump as the budget grows.
import { Int32, Int64, Utf8, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { Knobs } from "../../../src/model/debug-knobs.js";
import { memoryNeeds, planQuery } from "../../../src/planner/plan-query.js";
import { group, inputNode, join, planQueryOf } from "../../support/planning.js";
import { forSeeds, type Random } from "../../support/random.js";

const columns = (random: Random): Record<string, DataType> =>
    Object.fromEntries([
        ["k", new Int64()] as const,
        ...Array.from({ length: random.below(6) }, (_, i) => [`c${i}`, random.pick([new Int32(), new Utf8()])] as const)
    ]);

function knobs(random: Random): Knobs {
    const debug: Knobs = { algorithm: random.pick(["radix", "partitioned"]) };
    if (random.chance(0.5)) debug.radixBits = random.below(8);
    if (random.chance(0.3)) debug.pageBytes = random.pick([1024, 4096]);
    if (random.chance(0.3)) debug.forceSpill = true;
    return debug;
}

test("every budget above the least has a plan that keeps to it", async () => {
    await forSeeds(2000, 100, async (random) => {
        const input = () =>
            inputNode(columns(random), {
                rows: Math.round(10 ** (random.unit() * 7)),
                textBytes: random.pick([1, 20, 300]),
                streamed: random.chance(0.2)
            });
        const root = random.chance(0.5)
            ? join(input(), input(), { on: "k", suffix: "_2" })
            : group(input(), { keys: ["k"], aggregates: { n: { count: "*" } } });
        const more = { threads: random.pick([1, 4]), debug: random.chance(0.3) ? {} : knobs(random) };
        const { minimumBytes: least, wantedBytes } = memoryNeeds(planQueryOf(root, { ...more, budgetBytes: 2 ** 40 }));
        expect(least).toBeLessThanOrEqual(wantedBytes); // admission counts on that
        planQuery(planQueryOf(root, { ...more, budgetBytes: 2 * wantedBytes }));
        for (let step = 0; step < 40; ++step) {
            const budgetBytes = Math.ceil(least * (1 + step / 50));
            const plan = planQuery(planQueryOf(root, { ...more, budgetBytes }));
            for (const { live, memory } of plan.stages) {
                const pools = live.reduce((sum, set) => sum + plan.sets[set]!.poolBytes, 0);
                const bytes = pools + memory.inputBytes + memory.tableBytes + memory.outputBytes;
                expect(bytes + plan.memory.fixedBytes, `of ${budgetBytes}`).toBeLessThanOrEqual(budgetBytes);
            }
        }
        await Promise.resolve();
    });
});

test("result batches of variable-length rows have no more rows than bytes allow, whatever was asked for", () => {
    const types = { k: new Int64(), a: new Int64(), t: new Utf8() };
    const wide = inputNode(types, { rows: 10_000_000, textBytes: 10 });
    const small = inputNode({ k: new Int64() }, { rows: 1000 });
    const plan = planQuery(
        planQueryOf(join(wide, small, { on: "k" }), { batchRows: 2 ** 31 - 1, budgetBytes: 2 ** 32 })
    );
    expect(plan.batchBytes).toBeLessThanOrEqual(64 * 2 ** 20);
    expect(plan.batchRows * 24).toBeLessThanOrEqual(64 * 2 ** 20);
});

describe("the most rows of a batch", () => {
    const many = () => inputNode({ k: new Int64(), v: new Int64() }, { rows: 200_000 });
    const query = (more: object) => planQueryOf(join(many(), many(), { on: "k", suffix: "_2" }), more);
    const least = (more: object): number => memoryNeeds(query({ ...more, budgetBytes: 2 ** 40 })).minimumBytes;

    test("take no more memory to run than without them", () => {
        for (const batchRows of [100_000, 1_000_000, 2 ** 31 - 1]) expect(least({ batchRows })).toBe(least({}));
        expect(least({ batchRows: 1 })).toBeLessThanOrEqual(least({}));
        for (const batchRows of [1, 100_000, 2 ** 31 - 1]) {
            const plan = planQuery(query({ batchRows, budgetBytes: least({}) }));
            expect(plan.batchRows).toBeLessThanOrEqual(batchRows);
        }
    });

    test("are what the budget has room for, and never more", () => {
        const rowsAt = (budgetBytes: number, more: object): number =>
            planQuery(query({ ...more, budgetBytes })).batchRows;
        for (let budgetBytes = 2 ** 20; budgetBytes <= 2 ** 32; budgetBytes *= 4) {
            const rows = rowsAt(budgetBytes, { batchRows: 100_000 });
            expect(rows).toBeLessThanOrEqual(100_000);
            expect(rows).toBeGreaterThanOrEqual(Math.min(100_000, rowsAt(budgetBytes, {})));
            expect(rowsAt(budgetBytes, { batchRows: 10 })).toBe(10);
        }
        expect(rowsAt(2 ** 30, { batchRows: 100_000 })).toBe(100_000);
    });
});

test("few but huge rows need no more memory than a part of them", () => {
    const bytes = 300 * 105_000;
    const huge = () => inputNode({ k: new Int64(), t: new Utf8() }, { rows: 300, textBytes: 105_000 });
    const roots = [
        join(huge(), huge(), { on: "k", suffix: "_2" }),
        group(huge(), { keys: ["t"], aggregates: { n: { count: "*" } } })
    ];
    for (const root of roots) {
        const { minimumBytes } = memoryNeeds(planQueryOf(root, { threads: 2, budgetBytes: 2 ** 40 }));
        expect(minimumBytes).toBeLessThan(bytes / 2);
        // With more, batches and pages are as they are worth it.
        const plan = planQuery(planQueryOf(root, { threads: 2, budgetBytes: 2 ** 32 }));
        expect(plan.batchRows * 105_000).toBeGreaterThan(2 ** 20);
    }
});

describe("batches for a reader", () => {
    const mebibyte = 2 ** 20;
    const wide = Object.fromEntries(["k", "a", "b", "c", "d", "e", "f"].map((name) => [name, new Int64()]));
    const bytesOf = (rows: number, budgetBytes: number, more: object = {}): number => {
        const inputs = [inputNode(wide, { rows }), inputNode(wide, { rows })] as const;
        const query = planQueryOf(join(...inputs, { on: "k", suffix: "_2" }), { budgetBytes, ...more });
        return planQuery(query).batchBytes;
    };

    test("are larger than others where the result is large and the budget has room for them", () => {
        expect(bytesOf(10_000_000, 4096 * mebibyte) / mebibyte).toBeGreaterThan(2);
        expect(bytesOf(10_000_000, 4096 * mebibyte) / mebibyte).toBeLessThanOrEqual(4.125);
    });

    test.each([
        ["a small result", 100_000, 4096, {}],
        ["a small budget", 10_000_000, 64, {}],
        ["other sizes that were asked for", 10_000_000, 4096, { batchRows: 1000 }]
    ])("are as usual with %s", (_, rows, budget, more) => {
        expect(bytesOf(rows, budget * mebibyte, more) / mebibyte).toBeLessThanOrEqual(1.125);
    });
});
