// SPDX-License-Identifier: Apache-2.0
// Experiments beyond GPU memory that sweep options of the program: what it is told, what runs are called.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { PackedBench } from "../../support/packed-bench.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface Run {
    workload: { name: string; build_rows: number; match_ratio: number; memory_limit_bytes: number };
    algorithm: string;
    options?: Record<string, unknown>;
}

const bench = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench", file))) as T;
const { experimentParts } = await bench<{ experimentParts: (config: unknown) => unknown[] }>("gpu-grid.mjs");
const { planRuns, runLabel } = await bench<{
    planRuns: (config: unknown) => Run[];
    runLabel: (run: Run) => string;
}>("gpu-report.mjs");
const { outOfCoreArguments } = await bench<{ outOfCoreArguments: (run: Run) => string[] }>("gpu-out-of-core.mjs");

const runsOf = (experiment: string) => {
    const text = readFileSync(join(repositoryRoot, `configs/experiments/${experiment}.json`), "utf8");
    return experimentParts(JSON.parse(text)).flatMap((part) => planRuns(part));
};
const multiprocessors = 132; // of an H200

describe("shares of multiprocessors", () => {
    const runs = runsOf("out-of-core-sm-share");
    const counts = (option: string, algorithm: string) =>
        runs
            .filter((run) => run.algorithm === algorithm && run.options?.[option] !== undefined)
            .map(({ options }) => options?.[option]);

    test("are blocks of either stage of the coherent join, and those left to the staged one", () => {
        const grids = [16, 33, 66, 99, multiprocessors];
        expect(counts("grid", "triton")).toEqual([...grids, ...grids]);
        expect(counts("gather-grid", "triton")).toEqual([16, 33, 66, 99, 16, 33, 66, 99]);
        expect(counts("busy-multiprocessors", "staged")).toEqual([0, 33, 66, 99]);
        expect(runs).toHaveLength(22);
    });

    test("have names of their own, under one limit", () => {
        expect(new Set(runs.map(runLabel)).size).toBe(runs.length);
        expect(new Set(runs.map(({ workload }) => workload.name))).toEqual(new Set(["2^28 x 2^28, 4 GiB, sums"]));
    });

    test("are told to the program, and kept with the records", () => {
        using packed = new PackedBench();
        const args = ["--experiment", "out-of-core-sm-share", "--samples", "1", "--write"] as const;
        const { status, stdout } = packed.run({ median_ms: 100 }, ...args);
        expect(status).toBe(0);
        expect(stdout).toMatch(/ triton, partitioner bulk, gather-grid 66 +5\.37 /);
        expect(stdout).toMatch(/ staged, busy-multiprocessors 99 +5\.37 /);
        const records = packed.records(packed.path("docs/results/h200/out-of-core-sm-share.json"));
        expect((records as unknown as Run[]).map(runLabel)).toEqual(runs.map(runLabel));
    });
});

describe("pages in turns", () => {
    test("go from GPU memory alone to far memory alone, where the limit has room for all", () => {
        const runs = runsOf("out-of-core-interleave");
        const turns = ["1:0", "3:1", "1:1", "1:3", "0:1"];
        const found = runs.map(({ options }) => [options?.["device-pages"], options?.["far-pages"]].join(":"));
        expect(found).toEqual([...turns, ...turns]);
        for (const { workload } of runs) expect(workload.build_rows * 32).toBeLessThan(workload.memory_limit_bytes);
        const all = runs.map((run) => outOfCoreArguments(run).join(" "));
        expect(all[0]).toContain("--partitioner hierarchical --device-pages 1 --far-pages 0");
        expect(all[9]).toContain("--partitioner bulk --device-pages 0 --far-pages 1");
    });
});

test("match ratios are an axis, named where not all probe rows find a partner", () => {
    const runs = runsOf("out-of-core-shapes").filter(({ workload }) => workload.name.startsWith("2^29 x 2^29, 4 GiB"));
    const ratios = new Map(runs.map(({ workload }) => [workload.name, workload.match_ratio]));
    expect(ratios.get("2^29 x 2^29, 4 GiB, sums")).toBe(1);
    expect(ratios.get("2^29 x 2^29, 4 GiB, match ratio 50 %, sums")).toBe(0.5);
    expect(ratios.get("2^29 x 2^29, 4 GiB, match ratio 10 %, sums")).toBe(0.1);
    const half = runs.find(({ workload }) => workload.match_ratio === 0.5) as Run;
    expect(outOfCoreArguments(half).join(" ")).toContain("--match-ratio 0.5");
});
