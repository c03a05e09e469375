// SPDX-License-Identifier: Apache-2.0
// Bloom filters of joins beyond GPU memory in the GPU benchmark: workloads, what the program is told, what is planned.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { falsePositiveShare as plannedFalsePositives } from "../../../src/planner/streaming/join/filter.js";
import { PackedBench } from "../../support/packed-bench.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface Workload {
    name: string;
    match_ratio: number;
    filter_bits?: number;
}
interface Run {
    workload: Workload;
    algorithm: string;
    options?: object;
}
interface Prediction {
    link_bytes: { h2d: number; d2h: number };
    dropped_rows?: number;
}

const bench = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench", file))) as T;
const { falsePositiveShare, droppedShare } = await bench<{
    falsePositiveShare: (keys: number, words: number) => number;
    droppedShare: (record: unknown) => number;
}>("gpu-filter-plan.mjs");
const { predictJoin, withJoinPrediction } = await bench<{
    predictJoin: (record: unknown) => Prediction;
    withJoinPrediction: (record: unknown, run: object) => { workload: Partial<Workload> };
}>("gpu-link-plan.mjs");
const { experimentParts } = await bench<{ experimentParts: (config: unknown) => unknown[] }>("gpu-grid.mjs");
const { planRuns } = await bench<{ planRuns: (config: unknown, options?: object) => Run[] }>("gpu-report.mjs");
const { outOfCoreArguments, outOfCoreCell } = await bench<{
    outOfCoreArguments: (run: Run, extra?: object) => string[];
    outOfCoreCell: (axes: object) => Workload;
}>("gpu-out-of-core.mjs");
const { joinSizes } = await bench<{
    joinSizes: (run: Run, given: object) => Promise<{ "filter-words": number }>;
}>("gpu-plan-sizes.mjs");
const { figures } = await bench<{ figures: Record<string, { select: (records: unknown[]) => unknown[] }> }>(
    "plot-out-of-core.mjs"
);

const rows = 2 ** 20;
const axes = { rows: [29, 29], limit_gib: 4, match_ratio: 0.5 };

describe("workloads with a filter", () => {
    test("are named after it, and are the others where its axis is 0", () => {
        expect(outOfCoreCell({ ...axes, filter_bits: 0 })).toEqual(outOfCoreCell(axes));
        const { filter_bits, ...filtered } = outOfCoreCell({ ...axes, filter_bits: 8 });
        const name = "2^29 x 2^29, 4 GiB, match ratio 50 %, filter of 8 bits a key, sums";
        expect([filter_bits, filtered]).toEqual([8, { ...outOfCoreCell(axes), name }]);
    });

    test("have its words among their sizes, and tell the program of no more", async () => {
        const run = (of: object) => ({ workload: outOfCoreCell({ ...axes, ...of }), algorithm: "staged" });
        const wordsOf = async (of: object, options = {}) => (await joinSizes(run(of), options))["filter-words"];
        expect(await wordsOf({ filter_bits: 8 })).toBe(2 ** 26);
        expect(await wordsOf({}, { "filter-bits": "4" })).toBe(2 ** 25);
        expect(await wordsOf({ filter_bits: 8 }, { "filter-words": "1024" })).toBe(1024);
        // A quarter of the limit.
        expect(await wordsOf({ filter_bits: 32 })).toBe(2 ** 27);
        expect(await wordsOf({})).toBe(0);
        expect(outOfCoreArguments({ ...run({ filter_bits: 8 }), options: { "filter-bits": 4 } })).not.toContain(
            "--filter-bits"
        );
    });

    test.each(["triton", "staged-uncached", "npj-far"])(
        "have no plan by %s, which has no filter",
        async (algorithm) => {
            const sizesOf = (of: object, given = {}) =>
                joinSizes({ workload: outOfCoreCell({ ...axes, ...of }), algorithm }, given);
            const refused = `${algorithm} has no Bloom filter`;
            await expect(sizesOf({ filter_bits: 8 })).rejects.toThrow(refused);
            await expect(sizesOf({}, { "filter-bits": "4" })).rejects.toThrow(refused);
            await expect(sizesOf({}, { "filter-words": "1024" })).rejects.toThrow(refused);
            expect((await sizesOf({ filter_bits: 8 }, { "filter-bits": "0" }))["filter-words"]).toBe(0);
        }
    );

    test("stand beside the same joins without one among the shapes", () => {
        const file = join(repositoryRoot, "configs/experiments/out-of-core-shapes.json");
        const parts = experimentParts(JSON.parse(readFileSync(file, "utf8")));
        const runs = parts.flatMap((part) => planRuns(part));
        const filtered = runs.filter(({ workload }) => workload.filter_bits !== undefined);
        expect(filtered.map(({ workload }) => workload.match_ratio)).toEqual([0.5, 0.1]);
        for (const { algorithm, workload } of filtered) {
            expect([algorithm, workload.filter_bits]).toEqual(["staged", 8]);
            const plain = workload.name.replace(/, filter of 8 bits a key/, "");
            expect(runs.filter((run) => run.workload.name === plain)).toHaveLength(1);
        }
    });

    test("have records that name it", () => {
        using packed = new PackedBench();
        const args = ["--experiment", "out-of-core-shapes", "--only", "filter", "--write"] as const;
        const { status, stdout } = packed.run({ median_ms: 100 }, ...args);
        expect([status, stdout]).toEqual([
            0,
            expect.stringMatching(/match ratio 10 %, filter of 8 bits a key, sums +/)
        ]);
        const records = packed.records(packed.path("docs/results/h200/out-of-core-shapes.json"));
        const name = (share: number) => `2^29 x 2^29, 4 GiB, match ratio ${share} %, filter of 8 bits a key, sums`;
        expect(records.map(({ workload }) => workload)).toMatchObject(
            [50, 10].map((share) => ({ name: name(share), filter_bits: 8 }))
        );
        packed.run({ median_ms: 100 }, ...args, "--set", "filter-bits=4");
        const byHand = packed.records(packed.path("docs/results/h200/out-of-core-shapes.json"));
        expect(byHand.map(({ workload }) => workload)).toMatchObject([{ filter_bits: 4 }, { filter_bits: 4 }]);
    });

    test("are no points of lines over shapes, but of their own beside joins without one", () => {
        const cells = (more: object) =>
            [0, 8].map((filter_bits) => ({
                workload: { ...outOfCoreCell({ ...axes, ...more, filter_bits }), algorithm: "staged" }
            }));
        const [some, all] = [cells({}), cells({ match_ratio: 1 })];
        expect(figures["out-of-core-shapes-widths"]?.select(all)).toEqual(all.slice(0, 1));
        expect(figures["out-of-core-shapes-matches"]?.select(some)).toEqual(some);
    });
});

describe("a filter's part in what is planned", () => {
    const recordOf = (match_ratio: number, filter_words?: number, of: object = {}) => ({
        algorithm: "staged",
        workload: {
            ...{ key_bytes: 8, payload_bytes: { build: [8], probe: [8] }, payload_values: "random", inputs: "host" },
            ...{ build_rows: rows, probe_rows: 2 * rows, match_ratio, result: "sums", ...of }
        },
        ...{ rows_in: 3 * rows, rows_out: rows, copy_gb_per_s: { h2d: 50, d2h: 40 } },
        sizes: { radix_bits: 4, resident_partitions: 4, chunk_rows: 2 ** 16, filter_words }
    });

    test.each([1, 2, 4, 8, 16, 64])("passes as many other keys as the planner says, %d to a word", (keys) => {
        expect(falsePositiveShare(keys * rows, rows)).toBe(plannedFalsePositives(keys * rows, rows));
    });

    test("are probe rows that are spilled no more: those without a partner, but for false positives", () => {
        for (const match_ratio of [0.5, 0.1]) {
            const [plain, filtered] = [
                predictJoin(recordOf(match_ratio)),
                predictJoin(recordOf(match_ratio, rows / 8))
            ];
            const dropped = (1 - match_ratio) * (1 - plannedFalsePositives(8, 1));
            const inputs = 3 * rows * 16;
            // A key and a payload of all bits; what is left of the key is the range that it comes from.
            const [build, probe] = [20, Math.ceil(Math.log2(rows / match_ratio))].map((bits) => (bits + 64) / 8);
            const spilled = 0.75 * rows * build! + 0.75 * 2 * rows * (1 - dropped) * probe!;
            expect(filtered.link_bytes.d2h).toBe(Math.round(spilled));
            expect(filtered.link_bytes.h2d).toBe(Math.round(inputs + spilled));
            expect(plain.link_bytes.d2h - filtered.link_bytes.d2h).toBeCloseTo(1.5 * rows * dropped * probe!, -1);
            expect([plain.dropped_rows, filtered.dropped_rows]).toEqual([undefined, Math.round(2 * rows * dropped)]);
        }
    });

    test("is recorded as the bits that each key had, whatever was planned", () => {
        const bitsOf = (words?: number) =>
            withJoinPrediction(recordOf(0.5, words), { workload: { filter_bits: 32 } }).workload.filter_bits;
        expect([rows, rows / 8, rows / 3].map(bitsOf)).toEqual([64, 8, 21.3333]);
        expect(bitsOf()).toBeUndefined();
        expect(
            withJoinPrediction({ ...recordOf(0.5), sizes: undefined }, { workload: {} }).workload
        ).not.toHaveProperty("filter_bits");
    });

    test("is nothing where all probe rows have a partner, and of different keys alone", () => {
        expect(droppedShare(recordOf(1, rows / 8))).toBe(0);
        expect(predictJoin(recordOf(1, rows / 8)).link_bytes).toEqual(predictJoin(recordOf(1)).link_bytes);
        const few = recordOf(0.5, rows / 16, { distinct_keys: rows / 2 });
        expect(droppedShare(few)).toBe(droppedShare(recordOf(0.5, rows / 8)));
    });
});
