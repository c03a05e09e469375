// SPDX-License-Identifier: Apache-2.0
// What a query over few rows may cost: calls of the engine, turns of the event loop, plans.
import { describe, expect, test, vi } from "vitest";
import { tableFromArrays } from "apache-arrow";
import { openRuntime } from "spillway";
import { fakeRuntime } from "../../support/fake-runtime.js";
import { QueryStarts } from "../../../src/runtime/query-starts.js";
import { PlanDraft } from "../../../src/planner/compile.js";

const stages = ["partitionSource", "finishPartitions", "joinStreaming", "partitionAndJoin"];

describe("a join of few rows", () => {
    const joined = async () => Promise.resolve({ rows: 7, builds: [{ rowsIn: 1000, rows: 990, elapsedMs: 0.25 }] });

    test("is one call, and reports both of its stages", async () => {
        const { fake, join } = fakeRuntime({ partitionAndJoin: joined });
        expect(await join.count()).toBe(7);
        expect(fake.calls.filter((name) => stages.includes(name))).toEqual(["partitionAndJoin"]);
        const [build, probe, ...others] = join.report()!.stages;
        expect(others).toEqual([]);
        expect(build).toMatchObject({ name: "partition build", rowsIn: 1000, rowsOut: 990, actualMs: 0.25 });
        expect(probe).toMatchObject({ name: "join", rowsOut: 7, spilledBytes: 0 });
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("tells of its stages one by one where somebody watches", async () => {
        const { fake, join } = fakeRuntime({ partitionAndJoin: joined });
        const phases: string[] = [];
        await join.count({ onProgress: ({ phase }) => phases.push(phase) });
        expect(phases).toEqual(expect.arrayContaining(["partition build", "join", "done"]));
        expect(fake.calls).not.toContain("partitionAndJoin");
    });

    test("is compiled once", async () => {
        const { join } = fakeRuntime();
        const compiled = vi.spyOn(PlanDraft.prototype, "addPass");
        await join.count();
        expect(compiled).toHaveBeenCalledTimes(1);
        compiled.mockRestore();
    });

    test("sets no timer for its progress", async () => {
        const { join } = fakeRuntime();
        const timer = vi.spyOn(globalThis, "setInterval");
        await join.count();
        expect(timer).not.toHaveBeenCalled();
        timer.mockRestore();
    });
});

describe("queries that are started at once", () => {
    const never = (): void => undefined;
    const turn = async (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

    test("are planned some in each turn of the event loop, in their order", async () => {
        let underWay = 0;
        const starts = new QueryStarts(
            () => underWay,
            () => false
        );
        const planned: number[] = [];
        for (let i = 0; i < 50; i++) {
            const go = (): void => void planned.push(i);
            const wait = starts.wait(never);
            if (wait === undefined) go();
            else void wait.then(go);
            underWay++;
        }
        const before = planned.length;
        expect(before).toBeLessThan(50);
        while (planned.length < 50) {
            const soFar = planned.length;
            await turn();
            expect(planned.length - soFar).toBeLessThanOrEqual(32);
        }
        expect(planned).toEqual(Array.from({ length: 50 }, (_, i) => i));
    });

    test("wait for those that wait for memory, and can be cancelled", async () => {
        let waiting = true;
        const starts = new QueryStarts(
            () => 0,
            () => waiting
        );
        let cancel = never;
        const cancelled = starts.wait((stop) => void (cancel = stop));
        const other = starts.wait(never);
        cancel();
        await expect(cancelled).rejects.toMatchObject({ code: "ABORTED" });
        await turn();
        await turn();
        waiting = false;
        starts.goOn();
        await other;
        expect(starts.wait(never)).toBeUndefined();
    });

    test("give the same rows, aborted ones among them, with memory for few at a time", async () => {
        const rows = Int32Array.from({ length: 1000 }, (_, i) => i);
        await using runtime = await openRuntime({ device: "cpu", threads: 2, memory: { host: "8MiB" } });
        const left = runtime.fromTable(tableFromArrays({ k: rows, a: rows }));
        const right = runtime.fromTable(tableFromArrays({ k: rows.map((k) => k % 500), b: rows }));
        const abort = new AbortController();
        const found = await Promise.allSettled(
            Array.from({ length: 300 }, (_, i) => {
                const join = runtime.join({ left, right, on: "k" });
                if (i === 150) setImmediate(() => abort.abort(new Error("enough")));
                return i % 10 === 9 ? join.count({ signal: abort.signal }) : join.count();
            })
        );
        found.forEach((one, i) => {
            if (one.status === "fulfilled") expect(one.value).toBe(1000);
            else expect([i % 10, (one.reason as Error).message]).toEqual([9, "enough"]);
        });
        expect(found.some(({ status }) => status === "rejected")).toBe(true);
        expect(runtime.memory().host.usedBytes).toBe(0);
    });
});

describe("stages of few rows in memory", () => {
    const numbers = (rows: number) => Int32Array.from({ length: rows }, (_, i) => i);
    const here = (calls: readonly unknown[][]) => calls.map(([, value]) => value);

    test("run on the event loop's thread", async () => {
        const told: unknown[][] = [];
        const { join } = fakeRuntime({ runStagesHere: (...call: unknown[]) => void told.push(call) });
        await join.count();
        await join.toTable();
        expect(here(told)).toEqual([true, true]);
        await join.count({ onProgress: () => undefined });
        await join.toArrowFile("/tmp/nothing.arrow");
        expect(told).toHaveLength(2);
    });

    test("run on a thread where their rows do not fit the queue", async () => {
        const told: unknown[][] = [];
        let runs = 0;
        const partitionAndJoin = async () => {
            if (++runs > 1) return Promise.resolve({ rows: 9, builds: [{ rowsIn: 1000, rows: 1000, elapsedMs: 1 }] });
            throw Object.assign(new Error("full"), { code: "INTERNAL", details: { reason: "queueFull" } });
        };
        const runStagesHere = (...call: unknown[]): void => void told.push(call);
        const { fake, join } = fakeRuntime({ partitionAndJoin, runStagesHere });
        expect((await join.toTable()).numRows).toBe(0);
        expect([here(told), runs, join.report()!.rowsOut]).toEqual([[true, false], 2, 9]);
        expect(fake.leftOpen).toEqual(["engine"]);
    });

    test("give each row once, although there are far more than was expected", async () => {
        await using runtime = await openRuntime({ device: "cpu" });
        const left = runtime.fromTable(tableFromArrays({ k: new Int32Array(1000), a: numbers(1000) }));
        const right = runtime.fromTable(tableFromArrays({ k: new Int32Array(1000), b: numbers(1000) }));
        const join = runtime.join({ left, right, on: "k", hints: { resultRows: 10 } });
        expect(await join.count()).toBe(1e6);
        const table = await join.toTable();
        expect(table.numRows).toBe(1e6);
        const pairs = new Uint8Array(1e6);
        for (const batch of table.batches) {
            const [a, b] = (["a", "b"] as const).map((name) => batch.getChild(name)!.toArray());
            for (let i = 0; i < batch.numRows; i++) pairs[a![i]! * 1000 + b![i]!]!++;
        }
        expect(pairs.every((times) => times === 1)).toBe(true);
        expect(runtime.memory().host.usedBytes).toBe(0);
    });

    test("give each row once, where the first batches are taken while later ones find no room", async () => {
        await using runtime = await openRuntime({ device: "cpu", memory: { host: "256MiB" } });
        const table = runtime.fromTable(tableFromArrays({ k: numbers(200), a: numbers(200) }));
        const groups = runtime.groupBy(table, { keys: ["k"], aggregates: { rows: { count: "*" } } });
        const read = async (batchRows: number): Promise<number> => {
            let rows = 0;
            for await (const batch of groups.batches({ batchRows })) rows += batch.numRows;
            return rows;
        };
        for (let i = 0; i < 20; i++) expect(await Promise.all([1, 3, 70, 1].map(read))).toEqual([200, 200, 200, 200]);
        expect(runtime.memory().host.usedBytes).toBe(0);
    });

    test("leave the event loop its turns, where one query is awaited after the other", async () => {
        await using runtime = await openRuntime({ device: "cpu" });
        const left = runtime.fromTable(tableFromArrays({ k: numbers(100), a: numbers(100) }));
        const join = runtime.join({ left, right: left, on: "k" });
        const signal = AbortSignal.timeout(50);
        const endless = async (): Promise<void> => {
            for (;;) expect(await join.count({ signal })).toBe(100);
        };
        await expect(endless()).rejects.toMatchObject({ name: "TimeoutError" });
    });
});

describe("small build sides of a pipeline", () => {
    test("are filled in one call, and reported one by one", async () => {
        await using runtime = await openRuntime({ device: "cpu", debug: { algorithm: "pipeline" } });
        const keys = Int32Array.from({ length: 5000 }, (_, i) => i % 50);
        const fact = runtime.fromTable(tableFromArrays({ a: keys, b: keys.map((key) => key % 7), v: keys }));
        const dimension = (key: string, rows: number) =>
            runtime.fromTable(tableFromArrays({ [key]: Int32Array.from({ length: rows }, (_, i) => i) }));
        const star = fact.join(dimension("a", 40), { on: "a" }).join(dimension("b", 5), { on: "b" });
        const query = star.groupBy({ keys: ["b"], aggregates: { rows: { count: "*" } } });
        expect((await query.toTable()).numRows).toBe(5);
        const { stages } = query.report()!;
        expect(stages.map(({ name, rowsIn, rowsOut }) => [name, rowsIn, rowsOut])).toEqual([
            ["partition build", 40, 40],
            ["partition build", 5, 5],
            [stages[2]!.name, 5000, 5]
        ]);
        const phases = new Set<string>();
        await query.toTable({ onProgress: ({ phase }) => phases.add(phase) });
        expect([...phases]).toEqual(expect.arrayContaining(["partition build", "done"]));
    });
});
