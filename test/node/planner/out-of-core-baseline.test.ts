// SPDX-License-Identifier: Apache-2.0
// Joins that others are compared with: sizes, GPU and host memory, predictions and what explain says of them.
import { Int64, Utf8, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { BaselineJoinAlgorithm } from "../../../src/model/algorithms.js";
import { deviceBaselineJoins } from "../../../src/model/device-constants.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { planText } from "../../../src/plan/plan-text.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { outOfCoreHostBytes, planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { planQuery, type PlanQuery } from "../../../src/planner/plan-query.js";
import { binding } from "../addon/support.js";
import { inputNode, join, planQueryOf } from "../../support/planning.js";

const gibibyte = 2 ** 30;
const stripe = 16 * 2 ** 20;

interface Case extends Partial<PlanQuery> {
    rows?: readonly [number, number];
    types?: Record<string, DataType>;
    options?: object;
    limit?: number;
}

function queryOf(algorithm: BaselineJoinAlgorithm, { rows = [2 ** 26, 2 ** 26], types, options, ...more }: Case) {
    const columns = types ?? { k: new Int64(), v: new Int64() };
    const [left, right] = rows.map((count, i) => inputNode(columns, { rows: count, name: ["l", "r"][i]! }));
    const root = join(left!, right!, { on: "k", hints: { buildSide: "left" }, algorithm, ...options });
    return planQueryOf(root, { budgetBytes: 64 * gibibyte, threads: 16, ...more });
}

function planOf(algorithm: BaselineJoinAlgorithm, { limit = 8 * gibibyte, ...more }: Case = {}) {
    const query = queryOf(algorithm, more);
    const plan = planOutOfCore(query, planQuery(query), limit);
    if (plan instanceof NotOnDevice) throw plan;
    return { stage: plan.stages[0] as OutOfCoreStage, text: planText(plan) };
}

describe("memory is what the engine says", () => {
    test("a table has two slots and a bit each for a row, beside chunks", () => {
        const { stage } = planOf("stream-probe", { debug: { streamProbe: "table" } });
        const slots = 2 * 2 ** 26 + 1;
        const table = slots * 16 + 4 * Math.ceil(slots / 32);
        const chunks = stage.deviceBytes - table;
        expect(chunks).toBeGreaterThan(stage.sizes.chunkRows * 4 * 16);
        expect(chunks).toBeLessThan(stage.sizes.chunkRows * 9 * 16 + 17 * 2 ** 20);
        expect(stage.sizes).toMatchObject({ radixBits: 0, chunkSlots: 2, spillBytes: 0, filterWords: 0 });
        const baseline = { algorithm: "stream-probe", interleave: null, streamProbe: "table", overlap: true };
        expect(stage.baseline).toEqual(baseline);
    });

    test("a build side that is kept is there as it comes, sorted or partitioned, and beside it large chunks", () => {
        const rows = 2 ** 26;
        const of = (streamProbe: "sorted" | "partitioned", limit = 16 * gibibyte) =>
            planOf("stream-probe", { limit, debug: { streamProbe } }).stage;
        const [sorted, partitioned] = [of("sorted"), of("partitioned")];
        expect(planOf("stream-probe", { limit: 16 * gibibyte }).stage).toEqual(sorted);
        for (const { sizes } of [sorted, partitioned]) {
            expect(sizes).toMatchObject({ radixBits: 0, chunkSlots: 2, spillBytes: 0, chunkRows: rows / 16 });
        }
        // Columns with a bit; keys and numbers three times, numbers twice; or packed rows twice.
        expect(sorted.deviceBytes).toBeGreaterThan(rows * (16 + 3 * 12 + 8));
        expect(sorted.deviceBytes).toBeLessThan(rows * (16 + 3 * 12 + 8) * 1.25);
        expect(partitioned.deviceBytes).toBeGreaterThan(rows * (16 + 2 * 16));
        expect(partitioned.deviceBytes).toBeLessThan(rows * (16 + 2 * 16) * 1.35);
        // Chunks get smaller where that makes room.
        const tight = of("sorted", Math.floor(rows * (16 + 3 * 12 + 8) * 1.08));
        expect(tight.sizes.chunkRows).toBeLessThan(rows / 16);
        expect(tight.deviceBytes).toBeLessThan(rows * (16 + 3 * 12 + 8) * 1.08);
        expect(() => of("sorted", 2 * gibibyte)).toThrow(/it takes [\d.]+ GiB of GPU memory at least/);
        const many = { rows: [2 ** 32 + 1, 10] as const, limit: 2 ** 50, budgetBytes: 2 ** 50 };
        expect(() => planOf("stream-probe", many)).toThrow(/it sorts row numbers of 32 bits/);
        expect(
            planOf("stream-probe", { ...many, debug: { streamProbe: "partitioned" } }).stage.deviceBytes
        ).toBeGreaterThan(2 ** 32 * 16);
    });

    test("and stripes lie in GPU memory as far as it goes, or as they were asked for", () => {
        const told = (limit: number, debug = {}) => planOf("npj-far", { limit, debug }).stage;
        const stripes = Math.ceil(((2 * 2 ** 26 + 1) * 16) / stripe);
        const roomy = told(8 * gibibyte);
        expect(roomy.baseline?.interleave).toEqual({ device: stripes, far: 0 });
        expect(roomy.sizes.spillBytes).toBe(0);
        const tight = told(gibibyte);
        const { device, far } = tight.baseline!.interleave!;
        expect([device + far, device > 0, far > stripes / 2]).toEqual([stripes, true, true]);
        expect(tight.sizes.spillBytes).toBe(far * stripe);
        expect(tight.deviceBytes).toBeLessThanOrEqual(gibibyte);
        expect(tight.deviceBytes).toBeGreaterThan(gibibyte - stripe);
        const asked = told(8 * gibibyte, { interleave: { device: 1, far: 3 } });
        expect(asked.baseline?.interleave).toEqual({ device: 1, far: 3 });
        expect(asked.sizes.spillBytes).toBe((stripes - Math.floor(stripes / 4)) * stripe);
        expect(() => told(gibibyte, { interleave: { device: 1, far: 1 } })).toThrow(/GPU memory at least/);
    });

    test("joins of partitions take less than the staged join of their sizes, and all rows of host memory", () => {
        const { stage } = planOf("cpu-partitioned", { limit: gibibyte });
        const { coherent: _, baseline: __, ...sized } = { ...stage.layout.join, ...stage };
        const staged = binding.stagedJoinMemory({ ...stage.layout.join, sizes: sized.sizes });
        expect(stage.deviceBytes).toBeLessThan(staged.deviceBytes);
        expect(stage.deviceBytes).toBeGreaterThan(staged.deviceBytes / 2);
        expect(stage.sizes.spillBytes).toBeGreaterThanOrEqual(2 ** 27 * 16);
        expect(stage.sizes).toMatchObject({ diskBlocks: 0, filterWords: 0 });
    });

    test("a model that no join could have is refused", () => {
        const { stage } = planOf("npj-far");
        const sized = { ...stage.layout.join, sizes: stage.sizes };
        const ask = (buildRows: number, interleave: object | null) => () =>
            binding.baselineJoinMemory(sized, {
                ...{ algorithm: "npj-far", buildRows, interleave: interleave as never, streamProbe: null }
            });
        expect(ask(2 ** 50, { device: 1, far: 1 })).toThrow(/more build rows than any memory holds/);
        expect(ask(10, null)).toThrow(/stripes of a table lie in some memory/);
        expect(ask(10, { device: 0, far: 0 })).toThrow(/pages of some memory/);
    });
});

describe("what they cannot do is refused", () => {
    test.each(deviceBaselineJoins)("%s makes inner joins, of keys of every kind", (algorithm) => {
        for (const type of ["left", "right", "full", "semi", "anti"]) {
            expect(() => planOf(algorithm, { options: { type } })).toThrow(/it makes inner joins, and this is one of/);
        }
        const text = planOf(algorithm, { types: { k: new Utf8(), v: new Int64() }, rows: [1e6, 1e6] }).stage;
        expect(text.layout).toMatchObject({ keys: "packed", join: { keyBytes: 4 } });
        const two = { k: new Int64(), l: new Int64(), v: new Int64() };
        const hashed = planOf(algorithm, { types: two, options: { on: ["k", "l"] }, sink: "count" });
        expect(hashed.stage.layout).toMatchObject({ keys: "hashed", join: { result: "rows" } });
        expect(hashed.text).toContain("hashes of the keys are joined");
    });

    test("for little memory", () => {
        expect(() => planOf("stream-probe", { limit: gibibyte })).toThrow(/it takes [\d.]+ GiB of GPU memory at least/);
        for (const algorithm of deviceBaselineJoins) {
            expect(() => planOf(algorithm, { limit: 2 ** 20 })).toThrow(/it takes .* of GPU memory at least/);
        }
        const little = { limit: gibibyte, budgetBytes: gibibyte };
        expect(() => planOf("npj-far", little)).toThrow(/the part of the hash table that .* [\d.]+ GiB of host memory/);
        expect(() => planOf("cpu-partitioned", little)).toThrow(/what the CPU partitions needs [\d.]+ GiB of host/);
        for (const algorithm of ["npj-far", "cpu-partitioned"] as const) {
            const wanted = outOfCoreHostBytes(queryOf(algorithm, {}), gibibyte);
            expect(() => planOf(algorithm, { limit: gibibyte, budgetBytes: 1.2 * wanted })).not.toThrow();
        }
    });
});

describe("predictions", () => {
    const bytes = 2 ** 26 * 16;

    test("rows pass the link once", () => {
        const { predicted } = planOf("stream-probe").stage;
        expect(predicted.h2dBytes).toBe(2 * bytes);
        expect([predicted.spilledMs, predicted.spilledBytes]).toEqual([0, 0]);
        const counted = planOf("cpu-partitioned", { sink: "count" }).stage.predicted;
        expect(counted.h2dBytes).toBe((2 * bytes) / 2);
        expect(Math.min(counted.buildMs, counted.probeMs, counted.spilledMs)).toBeGreaterThan(0);
    });

    test("the build side passes the link while the CPU partitions the probe side, as far as it is kept", () => {
        const of = (limit: number, overlap: boolean) => {
            const { stage, text } = planOf("cpu-partitioned", { limit, debug: { overlap }, sink: "count" });
            const share = stage.sizes.residentPartitions / 2 ** stage.sizes.radixBits;
            return { ...stage.predicted, share, text };
        };
        const [both, after] = [of(8 * gibibyte, true), of(8 * gibibyte, false)];
        expect([both.share, both.h2dBytes, both.buildMs]).toEqual([1, after.h2dBytes, after.buildMs]);
        expect(both.spilledMs).toBeLessThan(after.spilledMs);
        expect(both.probeMs).toBe(after.probeMs);
        expect(both.text).toContain("100 % of the build side gets into GPU memory while the CPU partitions");
        expect(after.text).toContain("100 % of the build side gets into GPU memory after both sides were partitioned");
        const none = planOf("cpu-partitioned", { debug: { residentShare: 0 }, sink: "count" });
        expect(none.stage.sizes.residentPartitions).toBe(0);
        expect(none.stage.predicted.spilledMs).toBe(after.spilledMs);
        expect(none.text).toContain("none of the build side is kept in GPU memory");
        const tight = of(gibibyte / 2, true);
        expect(tight.share).toBeGreaterThan(0.1);
        expect(tight.share).toBeLessThan(0.9);
        expect(tight.spilledMs).toBeGreaterThan(both.spilledMs);
        // A link that is slower than the CPU is what the second phase waits for.
        const profile = { ...queryOf("cpu-partitioned", {}).profile, deviceCopyInBytesPerMs: 1e5 };
        const slow = planOf("cpu-partitioned", { profile }).stage.predicted;
        expect(slow.probeMs).toBeCloseTo((2 ** 26 * 16) / 1e5, 3);
    });

    test("kernels sort or partition the build side once, and run beside the copies of chunks or after them", () => {
        const of = (streamProbe: "sorted" | "partitioned" | "table", overlap: boolean) =>
            planOf("stream-probe", {
                // So many workers fill chunks faster than the link takes them.
                ...{ limit: 16 * gibibyte, sink: "count", threads: 64, debug: { streamProbe, overlap } }
            });
        const ms = (...asked: Parameters<typeof of>) => of(...asked).stage.predicted;
        const table = ms("table", true);
        for (const streamProbe of ["sorted", "partitioned"] as const) {
            const [both, after] = [ms(streamProbe, true), ms(streamProbe, false)];
            expect(both.h2dBytes).toBe(table.h2dBytes);
            // What the build side takes in GPU memory comes after the last of its chunks, whatever overlaps.
            expect(both.buildMs).toBeGreaterThan(table.buildMs);
            expect(both.buildMs).toBe(after.buildMs);
            expect(after.probeMs).toBeGreaterThan(1.05 * both.probeMs);
            expect(after.probeMs).toBeLessThan(2.1 * both.probeMs);
            const chunked = planOf("stream-probe", {
                ...{ limit: 16 * gibibyte, sink: "count", threads: 64, debug: { streamProbe, chunkRows: 2 ** 14 } }
            }).stage.predicted;
            // The build side is read again for each of 4,096 chunks.
            expect(chunked.probeMs).toBeGreaterThan(4 * both.probeMs);
        }
        expect(of("sorted", true).text).toMatch(/the build side sorted in GPU memory, with which each chunk is sorted/);
        expect(of("sorted", false).text).toMatch(/copies, joins and results of chunks one after the other/);
        expect(of("partitioned", true).text).toMatch(/with which each chunk is partitioned and joined, chunks of/);
        expect(of("partitioned", true).text).toMatch(/histograms: of either side's rows, by the GPU/);
        expect(of("table", true).text).toMatch(/^ +a hash table in GPU memory, chunks of [\d,]+ rows$/m);
        expect(of("partitioned", true).stage.work.histogram).toBe("gpu");
    });

    test("slots in host memory pass it too", () => {
        const of = (limit: number) => planOf("npj-far", { limit, sink: "count" }).stage;
        const [{ predicted: near }, { predicted: far, baseline }] = [of(8 * gibibyte), of(gibibyte / 2)];
        const stripes = baseline!.interleave!;
        const farShare = stripes.far / (stripes.far + stripes.device);
        expect(farShare).toBeGreaterThan(0.5);
        expect(near.h2dBytes).toBe(2 ** 27 * 8);
        // A walk of one slot and a half, a sector of 32 bytes each.
        expect(far.h2dBytes - near.h2dBytes).toBeCloseTo(2 ** 26 * 48 * farShare, -2);
        expect(far.d2hBytes - near.d2hBytes).toBeCloseTo(2 ** 26 * 32 * farShare, -2);
        expect(far.buildMs).toBeGreaterThan(near.buildMs);
        expect(far.probeMs).toBeGreaterThan(near.probeMs);
    });

    test("explain says where rows are", () => {
        const lines = {
            "stream-probe": /^ +the build side sorted in GPU memory, .*, chunks of [\d,]+ rows$/m,
            "npj-far": /^ +a hash table in stripes of GPU and host memory, \d+ to \d+, chunks of [\d,]+ rows$/m,
            "cpu-partitioned": /^ +2\^\d+ partitions in host memory, [\d.]+ GiB at most, chunks of [\d,]+ rows$/m
        };
        for (const algorithm of deviceBaselineJoins) {
            const { text, stage } = planOf(algorithm);
            expect(text).toMatch(lines[algorithm]);
            expect(text).toContain(`join: ${algorithm}, out of core on the GPU: `);
            expect(text).toContain(`path: staged (that of "${algorithm}")`);
            expect(stage).toMatchObject({ joinAlgorithm: algorithm, chosenBy: "user", coherent: null });
            expect(text).not.toContain("Bloom filter");
        }
    });
});
