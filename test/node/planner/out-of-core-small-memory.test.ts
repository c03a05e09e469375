// SPDX-License-Identifier: Apache-2.0
// Joins out of core in so little GPU memory that partitions are larger than what can be indexed at once: what plans say
// of it, and what they do about it.
import { Int16, Int32, Int64, type DataType } from "apache-arrow";
import { describe, expect, test } from "vitest";
import type { Knobs } from "../../../src/model/debug-knobs.js";
import type { OutOfCoreShape, OutOfCoreSizes, OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { backStartMs, copiesBack, probeReads } from "../../../src/planner/streaming/join/spilled-copies.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { deviceMemory } from "../../support/device-memory.js";
import { inputNode, join, planQueryOf, planWithNamedLimit } from "../../support/planning.js";
import { forSeeds } from "../../support/random.js";

const mebibyte = 2 ** 20;
const rows = 2 ** 26;

interface Given {
    limitMebibytes: number;
    debug?: Knobs;
    type?: string;
    sink?: "count" | "batches";
}

/** 2^26 rows of 16 bytes on both sides, each of which has a partner. */
function stageOf({ limitMebibytes, debug = {}, type = "inner", sink = "batches" }: Given): OutOfCoreStage {
    const columns = { k: new Int64(), v: new Int64() };
    const [left, right] = ["l", "r"].map((name) => inputNode(columns, { rows, name }));
    const root = join(left!, right!, { on: "k", type, hints: { buildSide: "left", resultRows: rows } });
    const query = planQueryOf(root, {
        budgetBytes: 32 * 2 ** 30,
        threads: 16,
        sink,
        debug: { ...debug, filter: false }
    });
    const plan = planOutOfCore(query, planQuery(query), limitMebibytes * mebibyte);
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreStage;
}

const shape: OutOfCoreShape = {
    ...{ keyBytes: 8, keyColumns: 0, buildWidths: [8], probeWidths: [8], emit: "pairs", result: "count", outputs: [] },
    ...{ anti: false, keepUnmatchedBuild: false, keepUnmatchedProbe: false }
};
const inner = deviceMemory().ofJoin(shape);
/** Partitions of 2^18 rows, an index of 2^16. */
const cut: OutOfCoreSizes = {
    ...stageOf({ limitMebibytes: 64 }).sizes,
    ...{ radixBits: 8, chunkRows: 2 ** 15, pageRows: 2 ** 12, pages: 442, residentPartitions: 6 }
};

describe("probe rows of a partition that cannot be indexed at once", () => {
    test("come back for each part of it", () => {
        expect(inner.of(cut).indexRows).toBe(2 ** 16);
        // 2^18 rows, of which every other partition has a few more.
        expect(probeReads(rows, cut, inner)).toBe(4.5);
        expect(probeReads(0.95 * rows, cut, inner)).toBe(4);
        expect(probeReads(rows, { ...cut, chunkRows: 2 ** 17 }, inner)).toBe(1.5);
        expect(probeReads(rows, { ...cut, chunkRows: 2 ** 18 }, inner)).toBe(1);
        // The index is of pages.
        expect(probeReads(rows, { ...cut, chunkRows: 2 ** 18, pages: 32 }, inner)).toBe(2.5);
        expect(probeReads(0, { ...cut, pages: 0 }, inner)).toBe(1);
    });

    test("come once more where they are marked, if they were in parts", () => {
        const once = { ...cut, chunkRows: 2 ** 18 };
        for (const kind of [{ keepUnmatchedProbe: true }, { emit: "probeOnce" }] as const) {
            const marked = deviceMemory().ofJoin({ ...shape, ...kind });
            expect(probeReads(rows, cut, marked)).toBe(5.5);
            expect(probeReads(rows, once, marked)).toBe(1);
        }
    });

    test("take copies of what each chunk spilled of each partition", () => {
        const sides = { build: rows, probe: 2 * rows };
        // 250 partitions, though four chunks are half of one.
        expect(copiesBack({ rows: sides, reads: 4.5 }, cut)).toBe(250 * (2 ** 11 + 4.5 * 2 ** 12));
    });
});

/**
 * What spilled rows took, medians of three: spillway_gpu_bench at 9dd22e6, an H200 whose copies move 55.4 GB/s. Counts,
 * one partition resident, keys of 8 bytes, all but the first with payloads of 8; the last one: result rows, two.
 */
const measured = [
    { radixBits: 7, chunkRows: 2 ** 19, pages: 91, pageRows: 2 ** 13, megabytes: 436, ms: 29.2 },
    { radixBits: 7, chunkRows: 2 ** 18, pages: 1200, pageRows: 2 ** 12, megabytes: 742, ms: 63.4 },
    { radixBits: 8, chunkRows: 2 ** 18, pages: 1200, pageRows: 2 ** 12, megabytes: 752, ms: 48.3 },
    { radixBits: 7, chunkRows: 2 ** 19, pages: 1200, pageRows: 2 ** 12, megabytes: 754, ms: 20.6 },
    { radixBits: 8, chunkRows: 2 ** 17, pages: 1200, pageRows: 2 ** 12, megabytes: 754, ms: 102.2 },
    { radixBits: 6, chunkRows: 2 ** 21, pages: 1200, pageRows: 2 ** 12, megabytes: 778, ms: 15.0 },
    {
        radixBits: 8,
        chunkRows: 2 ** 17,
        pages: 185,
        pageRows: 2 ** 12,
        residentPartitions: 2,
        megabytes: 741,
        ms: 152.2
    }
];

test.each(measured)(
    "spilled rows in $radixBits bits, chunks of $chunkRows rows are planned about as they were",
    (run) => {
        const { megabytes, ms, ...chosen } = run;
        const sizes = { ...cut, residentPartitions: 1, ...chosen };
        const reads = probeReads(rows, sizes, inner);
        const bytes = (megabytes / 2) * 1e6 * (1 + reads);
        const planned = bytes / 55.4e6 + backStartMs({ rows: { build: rows, probe: rows }, reads }, sizes);
        expect(ms / planned).toBeGreaterThan(0.7);
        expect(ms / planned).toBeLessThan(1.3);
    }
);

describe("2^26 x 2^26 rows in 64 MiB", () => {
    const half = stageOf({ limitMebibytes: 64, debug: { chunkRows: 2 ** 15 } });
    const chosen = stageOf({ limitMebibytes: 64 });

    test("are planned with the bytes that come back", () => {
        const { predicted, sizes } = half;
        const reads = probeReads(rows, sizes, inner);
        expect(reads).toBe(4.5);
        const inputs = 2 * rows * 16;
        const spilled = predicted.spilledBytes;
        expect(predicted.h2dBytes).toBeCloseTo(inputs + spilled / 2 + (reads * spilled) / 2, -2);
        // Three million copies and 9,000 chunks, of which each takes more than its bytes.
        expect(predicted.spilledMs).toBeGreaterThan((5 * (predicted.h2dBytes - inputs)) / 55e6);
    });

    test("have larger chunks than half of the limit has room for, and larger parts", () => {
        expect(chosen.sizes.chunkRows).toBeGreaterThan(half.sizes.chunkRows);
        expect(probeReads(rows, chosen.sizes, inner)).toBeLessThanOrEqual(1.5);
        expect(chosen.predictedMs).toBeLessThan(half.predictedMs / 6);
        expect(chosen.deviceBytes).toBeLessThanOrEqual(64 * mebibyte);
        expect(chosen.sizes.pages * chosen.sizes.pageRows).toBeGreaterThan(chosen.sizes.chunkRows);
    });
});

test("no plan is slower in more memory by what it reads again", () => {
    for (const sink of ["count", "batches"] as const) {
        for (const type of ["inner", "right", "semi"]) {
            let before = Infinity;
            for (const limitMebibytes of [48, 64, 96, 128, 192, 256, 512, 1024, 4096]) {
                const { predictedMs, deviceBytes, sizes } = stageOf({ limitMebibytes, type, sink });
                const what = `${type}, ${sink}, ${limitMebibytes} MiB: ${JSON.stringify(sizes)}`;
                expect(predictedMs, what).toBeLessThan(1.1 * before);
                expect(deviceBytes, what).toBeLessThanOrEqual(limitMebibytes * mebibyte);
                before = predictedMs;
            }
        }
    }
});

test("whatever the rows and the limit, a plan keeps to it, or the limit that an error names suffices", async () => {
    const types = [new Int64(), new Int32(), new Int16()];
    await forSeeds(1, 300, async (random, seed) => {
        const rowsOf = Math.floor(2 ** (14 + 19 * random.unit()));
        const columns = (): Record<string, DataType> =>
            Object.fromEntries(Array.from({ length: random.below(4) }, (_, i) => [`v${i}`, random.pick(types)]));
        const key = random.pick([new Int64(), new Int32()]);
        const [left, right] = ["l", "r"].map((name) => inputNode({ k: key, ...columns() }, { rows: rowsOf, name }));
        const type = random.pick(["inner", "left", "right", "full", "semi", "anti"]);
        const root = join(left!, right!, { on: "k", type, hints: { buildSide: random.pick(["left", "right"]) } });
        const sink = random.pick(["count", "batches", "table"] as const);
        const query = planQueryOf(root, { budgetBytes: 2 ** 40, threads: 16, sink });
        const limit = Math.floor(2 ** (24 + 8 * random.unit()));
        const planned = (limitBytes: number) => planOutOfCore(query, planQuery(query), limitBytes);
        const what = `seed ${seed}: ${type} of ${rowsOf} rows in ${limit} bytes, ${sink}`;
        const { plan, limitBytes } = planWithNamedLimit(planned, limit, what);
        const { sizes, predicted, deviceBytes } = plan.stages[0] as OutOfCoreStage;
        expect(deviceBytes, what).toBeLessThanOrEqual(limitBytes);
        expect(sizes.pages * sizes.pageRows, what).toBeGreaterThan(sizes.chunkRows);
        expect(predicted.h2dBytes, what).toBeGreaterThanOrEqual(predicted.spilledBytes);
    });
});
