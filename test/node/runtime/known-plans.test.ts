// SPDX-License-Identifier: Apache-2.0
// Plans of queries that are asked again: when they are used, when not, and what they may not keep.
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi, type MockInstance } from "vitest";
import { tableFromArrays } from "apache-arrow";
import { openRuntime } from "spillway";
import { fakeRuntime } from "../../support/fake-runtime.js";
import { collectGarbage } from "../../../src/execute/dropped-batches.js";
import type { LogicalNode } from "../../../src/plan/logical.js";
import { PlanDraft } from "../../../src/planner/compile.js";
import { KnownPlans } from "../../../src/runtime/known-plans.js";

let compiled: MockInstance;

/** How often a plan was compiled meanwhile. */
async function compiledBy(run: () => Promise<unknown>): Promise<number> {
    const before = compiled.mock.calls.length;
    await run();
    return compiled.mock.calls.length - before;
}

const inputOf = (relation: unknown) => {
    const { _node: node } = relation as { _node: LogicalNode };
    if (node.kind !== "input") throw new Error("no relation");
    return node.input;
};

describe("the plan of a query", () => {
    beforeEach(() => {
        compiled = vi.spyOn(PlanDraft.prototype, "addPass");
    });

    afterEach(() => {
        compiled.mockRestore();
    });

    test("is used again by an equal query, with the same result", async () => {
        const { runtime, left, right, join } = fakeRuntime();
        expect(await compiledBy(async () => join.count())).toBe(1);
        expect(await compiledBy(async () => join.count())).toBe(0);
        const equal = runtime.join({ left, right, on: "k" });
        expect(await compiledBy(async () => expect(await equal.count()).toBe(42))).toBe(0);
        expect(equal.report()).toMatchObject({ predictedMs: join.report()!.predictedMs, rowsOut: 42 });
    });

    test.each<[string, (made: ReturnType<typeof fakeRuntime>) => Promise<unknown>]>([
        ["rows instead of their number", async ({ join }) => join.toTable()],
        [
            "another type",
            async ({ runtime, left, right }) => runtime.join({ left, right, on: "k", type: "semi" }).count()
        ],
        [
            "sides turned round",
            async ({ runtime, left, right }) => runtime.join({ left: right, right: left, on: "k" }).count()
        ],
        ["other keys", async ({ runtime, left, right }) => runtime.join({ left, right, on: { k: "b" } }).count()],
        ["hints", async ({ left, right }) => left.join(right, { on: "k", hints: { resultRows: 9 } }).count()],
        ["equal NULLs", async ({ left, right }) => left.join(right, { on: "k", nullEquality: true }).count()],
        [
            "an equal relation that is not the same one",
            async ({ runtime, right }) => {
                const rows = new Int32Array(1000);
                await runtime
                    .fromTable(tableFromArrays({ k: rows, a: rows }))
                    .join(right, { on: "k" })
                    .count();
            }
        ],
        ["knobs", async ({ left, right }) => left.join(right, { on: "k", debug: { workers: 1 } }).count()]
    ])("is not that of one with %s", async (_, run) => {
        const made = fakeRuntime();
        await made.join.count();
        expect(await compiledBy(async () => run(made))).toBeGreaterThan(0);
    });

    test("with knobs is not kept", async () => {
        const { runtime, left, right } = fakeRuntime();
        const join = runtime.join({ left, right, on: "k", debug: { workers: 1 } });
        await join.count();
        expect(await compiledBy(async () => join.count())).toBe(1);
    });

    test("of other aggregates or keys is another one", async () => {
        const { left } = fakeRuntime();
        const sizes = vi.spyOn(PlanDraft.prototype, "limited");
        const calls = async (query: { count: () => Promise<number> }): Promise<number> => {
            const before = sizes.mock.calls.length;
            await query.count();
            return sizes.mock.calls.length - before;
        };
        const grouped = () => left.groupBy({ keys: ["k"], aggregates: { s: { sum: "a" } } });
        expect(await calls(grouped())).toBe(1);
        expect(await calls(grouped())).toBe(0);
        expect(await calls(left.groupBy({ keys: ["k"], aggregates: { s: { max: "a" } } }))).toBe(1);
        expect(await calls(left.groupBy({ keys: ["a"], aggregates: { s: { sum: "a" } } }))).toBe(1);
        sizes.mockRestore();
    });

    test.each<[string, (made: ReturnType<typeof fakeRuntime>) => void]>([
        ["texts are longer", ({ runner, left }) => runner.statistics.forgetTexts(inputOf(left))],
        ["keys are not dense", ({ runner, right }) => runner.statistics.disprove(inputOf(right), [])]
    ])("is made anew once it is known that %s", async (_, learn) => {
        const made = fakeRuntime();
        await made.join.count();
        learn(made);
        expect(await compiledBy(async () => made.join.count())).toBe(1);
        expect(await compiledBy(async () => made.join.count())).toBe(0);
    });

    test("of a stream is not kept", () => {
        const plans = new KnownPlans(() => 0);
        const { runtime, left, runner } = fakeRuntime();
        const stream = runtime.fromBatches(left.schema, async function* () {});
        const { _node: node } = stream.join(left, { on: "k" }) as unknown as { _node: LogicalNode };
        expect(plans.of(runner.planRequest(node, "count", {}))).toBeUndefined();
    });
});

describe("plans that are kept", () => {
    test("are those that were used last", () => {
        const plans = new KnownPlans(() => 0);
        const { join, runner } = fakeRuntime();
        const { _node: node } = join as unknown as { _node: LogicalNode };
        const limited = (limit: number) => plans.of(runner.planRequest({ ...node, limit } as LogicalNode, "count", {}));
        const first = limited(0);
        for (let limit = 1; limit < 1000; limit++) {
            limited(limit);
            expect(limited(0)).toBe(first);
        }
        const second = limited(1);
        expect(second).toEqual({});
        for (let limit = 2000; limit < 3000; limit++) limited(limit);
        expect(limited(0)).not.toBe(first);
    });

    test("keep no relation: who drops one gets its memory back", async () => {
        await using runtime = await openRuntime({ device: "cpu", threads: 1, memory: { host: "64 MiB" } });
        const ask = async (): Promise<WeakRef<object>> => {
            const rows = Int32Array.from({ length: 1000 }, (_, i) => i);
            const table = tableFromArrays({ k: rows });
            const relation = runtime.fromTable(table);
            for (let i = 0; i < 3; i++) expect(await relation.join(relation, { on: "k" }).count()).toBe(1000);
            return new WeakRef(table);
        };
        const table = await ask();
        for (let i = 0; i < 20 && table.deref() !== undefined; i++) {
            await setImmediate(); // what was looked at is alive until the event loop turns
            await collectGarbage();
        }
        expect(table.deref()).toBeUndefined();
    });
});
