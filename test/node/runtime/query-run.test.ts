// SPDX-License-Identifier: Apache-2.0
// A run whose plan turns out wrong, on the CPU and on a made-up GPU: what is planned anew, and what is remembered.
import { Dictionary, Int32, Table, tableFromArrays, Utf8, vectorFromArray } from "apache-arrow";
import { afterEach, describe, expect, test, vi } from "vitest";
import { loadProfile, type AlgorithmFits } from "../../../src/machine/profile.js";
import { deviceJoinAlgorithms } from "../../../src/model/algorithms.js";
import type { Progress } from "../../../src/model/progress.js";
import type { SourceLayout } from "../../../src/model/column-type.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import type { LogicalNode } from "../../../src/plan/logical.js";
import type { RunnerParts } from "../../../src/runtime/query-runner.js";
import type { Query } from "../../../src/runtime/query.js";
import { fakeRuntime } from "../../support/fake-runtime.js";
import { failureOf, gpuCalls } from "../../support/made-up-gpu.js";

afterEach(() => void vi.useRealTimers());

type Overrides = NonNullable<Parameters<typeof fakeRuntime>[0]>;

const rows = 20_000;
/** All keys differ and are dense. */
const sample = { rows, nulls: 0, min: 0n, max: BigInt(rows - 1), sampledRows: 16_384, sampledDistinct: 16_384 };
const keyStatistics = async () => ({ ...sample, heaviestShare: 0 });
const refusal = failureOf("UNSUPPORTED_TYPE", { reason: "deviceUnsupported" });
const wrong = (reason: string) => failureOf("BUDGET_TOO_SMALL", { reason });

/** Rejects so many times, then answers. */
function failing<T>(error: Error, times: number, answer: T): () => Promise<T> {
    return async () => {
        if (times-- > 0) throw error;
        return answer;
    };
}

/** A join of two relations that are sampled; `counted`: how often a call was made. */
function sampledJoin(overrides: Overrides, debug = {}, more: Partial<RunnerParts> = {}) {
    const made = fakeRuntime({ keyStatistics, ...overrides }, debug, more);
    const { runtime, fake } = made;
    const keys = Int32Array.from({ length: rows }, (_, i) => i);
    const left = runtime.fromTable(tableFromArrays({ k: keys, a: keys }));
    const right = runtime.fromTable(tableFromArrays({ k: keys, b: keys }));
    const join = runtime.join({ left, right, on: "k", select: ["a"], hints: { buildSide: "left" } });
    const counted = (name: string): number => fake.calls.filter((call) => call === name).length;
    const { _node: node } = join as unknown as { _node: LogicalNode };
    const policy = made.runner.samplingPolicy(debug, node);
    /** Which samples are still believed, in the order of the inputs. */
    const believed = (): boolean[] =>
        [...made.runner.statistics.known(node, policy)!.values()].map(({ notDense }) => notDense !== true);
    return { ...made, left, right, join, counted, believed };
}

describe("a run on the CPU", () => {
    test("tells what it took, but where it waited for a reader or was planned anew", async () => {
        const { join, runner } = sampledJoin({ joinArray: failing(wrong("notDense"), 1, 42) });
        const ran = vi.spyOn(runner.device, "ran");
        expect(await join.count()).toBe(42);
        expect(ran).not.toHaveBeenCalled();
        expect(await join.count()).toBe(42);
        expect(ran).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ device: "cpu" }), expect.any(Number));
        for await (const batch of join) expect(batch).toBeUndefined();
        expect(ran).toHaveBeenCalledOnce();
    });

    test("whose keys were not as dense as their sample is planned anew, and so is no later one", async () => {
        const joinArray = failing(wrong("notDense"), 1, 42);
        const { join, counted, believed } = sampledJoin({ joinArray });
        expect(await join.count()).toBe(42);
        expect([counted("joinArray"), counted("keyStatistics")]).toEqual([1, 2]);
        expect(believed()).toEqual([false, true]);
        expect(await join.count()).toBe(42);
        expect(counted("joinArray")).toBe(1);
    });

    test("that failed for another wrong estimate still believes its samples", async () => {
        const joinArray = failing(wrong("setFull"), 1, 42);
        const { join, counted, believed } = sampledJoin({ joinArray });
        expect(await join.count()).toBe(42);
        expect(counted("joinArray")).toBe(1);
        expect(believed()).toEqual([true, true]);
    });

    test.each(["tableFull", "setFull", "notDense"])("that is wrong about %s twice fails with that", async (reason) => {
        const fails = failing(wrong(reason), Infinity, 42);
        const stages = { joinArray: fails, joinStreaming: fails, joinPartitions: fails };
        const { fake, join, counted, runner } = sampledJoin(stages);
        await expect(join.count()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", details: { reason } });
        expect(Object.keys(stages).reduce((sum, name) => sum + counted(name), 0)).toBe(2);
        expect(fake.leftOpen).toEqual(["engine"]);
        expect(runner.admission.running).toBe(0);
    });

    test("that lacks memory has plans for less and less of it, down to the least", async () => {
        const short = failureOf("BUDGET_TOO_SMALL", { tier: "host", wantedBytes: 2 ** 20, limitBytes: 2 ** 26 });
        const enough = sampledJoin({ joinPartitions: failing(short, 2, 42) }, { algorithm: "radix" });
        expect(await enough.join.count()).toBe(42);
        expect(enough.counted("joinPartitions")).toBe(3);
        expect(enough.fake.leftOpen).toEqual(["engine"]);
        const never = sampledJoin({ joinPartitions: failing(short, Infinity, 42) }, { algorithm: "radix" });
        await expect(never.join.count()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL", details: { tier: "host" } });
        expect(never.counted("joinPartitions")).toBeGreaterThan(2);
        expect(never.runner.admission.running).toBe(0);
    });

    test("that needs more than there is fails at once", async () => {
        const short = failureOf("BUDGET_TOO_SMALL", { tier: "host", wantedBytes: 2 ** 27, limitBytes: 2 ** 26 });
        const { join, counted } = sampledJoin({ joinPartitions: failing(short, 1, 42) }, { algorithm: "radix" });
        await expect(join.count()).rejects.toMatchObject({ code: "BUDGET_TOO_SMALL" });
        expect(counted("joinPartitions")).toBe(1);
    });

    test("is admitted once where memory is too short for a sample", async () => {
        const noSample = async () => Promise.reject(failureOf("OUT_OF_MEMORY", { tier: "host" }));
        const { join, runner, counted } = sampledJoin({ keyStatistics: noSample });
        const admit = vi.spyOn(runner.admission, "admit");
        expect(await join.count()).toBe(42);
        expect([admit.mock.calls.length, counted("keyStatistics")]).toEqual([1, 2]);
    });

    test("that writes a file makes it before it reads a row", async () => {
        const { fake, join } = fakeRuntime({}, { algorithm: "radix" });
        await join.toArrowFile("/tmp/never made.arrow");
        const [made, read] = ["createFileSink", "partitionSource"].map((name) => fake.calls.indexOf(name));
        expect(made).toBeGreaterThanOrEqual(0);
        expect(made).toBeLessThan(read!);
        expect(fake.calls.filter((name) => name === "createFileSink")).toHaveLength(1);
    });

    test("that fails tells no more of its progress, and never that it is done", async () => {
        vi.useFakeTimers();
        const states: Progress[] = [];
        const { join } = fakeRuntime({ joinStreaming: failing(failureOf("DISK_FULL"), 1, 42) });
        const counted = join.count({ onProgress: (progress) => void states.push(progress) });
        await expect(counted).rejects.toMatchObject({ code: "DISK_FULL" });
        expect(states.length).toBeGreaterThan(0);
        expect(states.filter(({ done }) => done)).toEqual([]);
        const seen = states.length;
        await vi.advanceTimersByTimeAsync(10_000);
        expect(states.length).toBe(seen);
        expect(vi.getTimerCount()).toBe(0);
    });
});

describe("dictionaries that end up in one column", () => {
    const words = (...values: string[]) =>
        new Table({
            w: vectorFromArray(values, new Dictionary(new Utf8(), new Int32())),
            n: vectorFromArray(
                values.map((_, i) => i),
                new Int32()
            )
        });

    /** The layouts that a query opens, in the order of its inputs. */
    async function opened(
        queryOn: (made: ReturnType<typeof fakeRuntime>) => Pick<Query, "count">
    ): Promise<SourceLayout[]> {
        const layouts: SourceLayout[] = [];
        const made = fakeRuntime({
            openSource: async (_: unknown, layout: SourceLayout) => {
                layouts.push(layout);
                return { kind: `source ${layouts.length}` };
            },
            closeSource: () => undefined
        });
        await queryOn(made).count();
        return layouts;
    }

    test("are linked, in the same order for both sides; those of other relations are not", async () => {
        const layouts = await opened(({ runtime }) => {
            const [left, right, other] = [words("a", "b"), words("c"), words("d")].map((t) => runtime.fromTable(t));
            const full = runtime.join({ left: left!, right: right!, on: "w", type: "full", select: ["w", "n"] });
            return full.join(other!, { on: "n", select: ["w"] });
        });
        const [left, right, other] = layouts;
        expect(left!.links).toHaveLength(1);
        expect(left!.links[0]).toMatchObject({ node: 0 });
        // Each source has its own dictionary first, and then that of the other one.
        const parts = (layout: SourceLayout | undefined) => layout?.links[0]?.parts.map((part) => part.dictionaries);
        expect([parts(left), parts(right)]).toEqual([
            [[0], [1]],
            [[1], [0]]
        ]);
        expect(left!.dictionaries).toEqual([...right!.dictionaries].reverse());
        expect(other!.links).toEqual([]);
        expect(other!.dictionaries).toHaveLength(1);
    });

    test("of columns that stay apart are not linked", async () => {
        const layouts = await opened(({ runtime }) => {
            const [left, right] = [words("a", "b"), words("c")].map((t) => runtime.fromTable(t));
            return runtime.join({ left: left!, right: right!, on: "w", select: ["w", "n"] });
        });
        expect(layouts.map(({ links }) => links)).toEqual([[], []]);
    });
});

describe("a run on the GPU", () => {
    const report = { algorithm: 0, elapsedMs: 1, transformMs: 0, matchMs: 1, materializeMs: 0, movedBytes: 8 };
    const table = async () => ({ table: "table", rows: 42, bytes: 64, report: { ...report, peakBytes: 9 } });
    const gpu: Overrides = {
        ...gpuCalls({ limitBytes: 2 ** 33 }),
        ...{ uploadTable: table, countTableJoin: table, joinTables: table, groupTable: table },
        ...{ closeTable: () => undefined, deliverTable: async () => 42 }
    };
    const free = { factor: 1e-9, fixed_ms: 0 };
    /** Nothing is faster than that algorithm, and then phj-tr. */
    const fitsFor = (name: string): AlgorithmFits => ({
        ...Object.fromEntries(
            deviceJoinAlgorithms.map((other) => [
                other,
                { match: { factor: 1, fixed_ms: other === "phj-tr" ? 5 : 10 } }
            ])
        ),
        [name]: { transform: free, match: free, materialize: free }
    });
    const parts = (name: string, device: "auto" | "gpu" = "gpu"): Partial<RunnerParts> => ({
        profile: { ...loadProfile(), deviceAlgorithms: fitsFor(name) },
        device: { device, memoryBytes: undefined, isMeasured: true },
        // A sample of all rows shows that no key comes twice.
        policy: { ...defaultPolicy, pairSampleRows: 0 }
    });
    const onGpu = (name: string, overrides: Overrides, device: "auto" | "gpu" = "gpu") =>
        sampledJoin({ ...gpu, ...overrides }, device === "gpu" ? {} : { gpu: true }, parts(name, device));

    test("that refuses an array over keys gets what it never refuses, and believes their sample no more", async () => {
        const countTableJoin = failing(refusal, 1, await table());
        const { join, counted, believed, left, runtime } = onGpu("npj-perfect", { countTableJoin });
        expect(String(await join.explain({ result: "count" }))).toMatch(/npj-perfect, .* \(chosen by the planner\)/);
        expect(await join.count()).toBe(42);
        expect(counted("countTableJoin")).toBe(2);
        expect(join.report()).toMatchObject({ device: "gpu", devicePeakBytes: 77 });
        expect(join.report()?.stages.at(-1)?.algorithm).toMatch(/^phj-tr/);
        expect(believed()).toEqual([false, true]);
        // Two turns, and a third one of another query.
        expect(counted("resetDevicePeak")).toBe(2);
        expect(await runtime.join({ left, right: left, on: "a", select: ["a"] }).count()).toBe(42);
        expect(counted("resetDevicePeak")).toBe(3);
    });

    test("that refuses a hash table believes the samples on", async () => {
        const countTableJoin = failing(refusal, 1, await table());
        const { join, counted, believed } = onGpu("npj", { countTableJoin });
        expect(await join.count()).toBe(42);
        expect(counted("countTableJoin")).toBe(2);
        expect(join.report()?.stages.at(-1)?.algorithm).toMatch(/^phj-tr/);
        expect(believed()).toEqual([true, true]);
    });

    test("that refuses what it never should fails, or leaves the query to the CPU", async () => {
        const countTableJoin = failing(refusal, Infinity, await table());
        const named = onGpu("phj-tr", { countTableJoin });
        await expect(named.join.count()).rejects.toBe(refusal);
        expect(named.counted("countTableJoin")).toBe(1);
        const automatic = onGpu("phj-tr", { countTableJoin }, "auto");
        expect(await automatic.join.count()).toBe(42);
        expect(automatic.counted("countTableJoin")).toBe(1);
        expect(automatic.join.report()).toMatchObject({ device: "cpu", deviceReason: refusal.message });
        expect(automatic.join.report()).toMatchObject({ uploadedBytes: 0, devicePeakBytes: 0 });
    });

    test("that refuses a group-by leaves the query to the CPU", async () => {
        const groupTable = failing(refusal, Infinity, await table());
        const { left, counted } = onGpu("hgb", { groupTable }, "auto");
        const groups = left.groupBy({ keys: ["k"] });
        expect(await groups.count()).toBe(42);
        expect(groups.report()).toMatchObject({ device: "cpu", deviceReason: refusal.message });
        expect(counted("groupTable")).toBe(1);
    });

    test("that refuses once rows were sent is planned anew for a table, which nobody has seen", async () => {
        const { left, right, counted } = onGpu("npj", { deliverTable: failing(refusal, 1, 42) });
        const query = left.join(right, { on: "k" });
        expect((await query.toTable()).numRows).toBe(0);
        expect(counted("joinTables")).toBe(2);
        expect(
            query
                .report()
                ?.stages.map(({ algorithm }) => algorithm)
                .join()
        ).toContain("phj-tr");
    });

    test("that fails for another reason is not begun there again, and on the CPU once", async () => {
        const lost = failureOf("NO_DEVICE", { reason: "it is gone" });
        const fails = failing(lost, Infinity, await table());
        const gone = onGpu("npj", { countTableJoin: fails }, "auto");
        expect(await gone.join.count()).toBe(42);
        expect(gone.join.report()).toMatchObject({ device: "cpu", deviceReason: "it is gone" });
        expect(gone.counted("countTableJoin")).toBe(1);
        const both = onGpu("npj", { countTableJoin: fails, joinArray: fails }, "auto");
        await expect(both.join.count()).rejects.toBe(lost);
        expect([both.counted("countTableJoin"), both.counted("joinArray")]).toEqual([1, 1]);
    });

    test("begins anew on the CPU as long as nobody has rows of it", async () => {
        const lost = failureOf("OUT_OF_MEMORY", { tier: "device" });
        const joining = failing(lost, 2, await table());
        // Tables do not fit GPU memory, and neither does a join out of core.
        const nothing = failureOf("OUT_OF_MEMORY", { tier: "device", delivered: "nothing" });
        const outOfCore = { joinOutOfCore: failing(nothing, 1, 42) };
        const early = onGpu("phj-tr", { joinTables: joining, beginJoinPieces: joining, ...outOfCore }, "auto");
        const first = early.left.join(early.right, { on: "k" });
        expect((await first.toTable()).numRows).toBe(0);
        expect(first.report()).toMatchObject({ device: "cpu", deviceReason: lost.message });
        const late = onGpu("phj-tr", { deliverTable: failing(lost, 1, 42) }, "auto");
        const query = late.left.join(late.right, { on: "k" });
        await expect(query.toTable()).rejects.toBe(lost);
        expect(query.report()).toBeUndefined();
        const untouched = onGpu("phj-tr", { deliverTable: failing(nothing, 1, 42) }, "auto");
        const again = untouched.left.join(untouched.right, { on: "k" });
        expect((await again.toTable()).numRows).toBe(0);
        expect(again.report()).toMatchObject({ device: "cpu", deviceReason: nothing.message });
    });
});
