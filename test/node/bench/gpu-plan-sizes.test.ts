// SPDX-License-Identifier: Apache-2.0
// Sizes of plans that the GPU benchmark runs joins with.
import { Int64 } from "apache-arrow";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { planOutOfCore } from "../../../src/planner/plan-out-of-core.js";
import { NotOnDevice } from "../../../src/planner/device-support.js";
import type { OutOfCoreStage } from "../../../src/plan/out-of-core-stage.js";
import { defaultPolicy } from "../../../src/planner/policy.js";
import { planQuery } from "../../../src/planner/plan-query.js";
import { wantedStatistics } from "../../../src/planner/statistics.js";
import { PackedBench } from "../../support/packed-bench.js";
import { inputNode, join as joinNode, planQueryOf } from "../../support/planning.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface Workload {
    name: string;
    build_rows: number;
    payload_bytes: { build: number[] };
    result: "count" | "sums" | "rows";
    memory_limit_bytes: number;
}
type Sizes = Record<
    "radix-bits" | "chunk-rows" | "chunk-slots" | "page-rows" | "pages" | "resident-partitions",
    number
>;

const bench = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench", file))) as T;
const { experimentParts } = await bench<{ experimentParts: (config: unknown) => { workloads: Workload[] }[] }>(
    "gpu-grid.mjs"
);
const { planSizes } = await bench<{ planSizes: (workload: Workload) => Promise<Sizes> }>("gpu-plan-sizes.mjs");
const config: unknown = JSON.parse(
    readFileSync(join(repositoryRoot, "configs/experiments/out-of-core-plans.json"), "utf8")
);
const { workloads } = experimentParts(config)[0]!;

/** Of a query that joins such relations; it counts where the benchmark sums, which takes as much memory. */
function stageOf({ build_rows, payload_bytes, result, memory_limit_bytes }: Workload): OutOfCoreStage {
    const names = ["k", ...payload_bytes.build.map((_, i) => `v${i}`)];
    const [left, right] = ["l", "r"].map((side) => {
        const columns = names.map((name) => [name === "k" ? name : `${name}_${side}`, new Int64()]);
        return inputNode(Object.fromEntries(columns), { rows: build_rows, name: side });
    });
    const rows = result === "rows";
    const root = joinNode(left!, right!, { on: "k" });
    // What samples of dense keys say.
    const dense = { nulls: 0, min: 0n, max: BigInt(build_rows - 1), sampledRows: 1e5, sampledDistinct: 1e5 };
    const statistics = new Map(
        wantedStatistics(root, defaultPolicy).map(({ id, input }) => [
            id,
            { ...dense, rows: input.rows, heaviestShare: 0 }
        ])
    );
    const sink = rows ? "batches" : "count";
    const query = planQueryOf(root, { budgetBytes: 2 ** 40, threads: 16, sink, statistics });
    const plan = planOutOfCore(
        { ...query, debug: { ...query.debug, outOfCore: true } },
        planQuery(query),
        memory_limit_bytes
    );
    if (plan instanceof NotOnDevice) throw plan;
    return plan.stages[0] as OutOfCoreStage;
}

describe("sizes of plans", () => {
    // Queries that count send keys alone, so that only these have the benchmark's rows.
    const sameRows = workloads.filter(
        ({ payload_bytes, result }) => result === "rows" || payload_bytes.build.length === 0
    );

    test.each(sameRows.map((workload) => [workload.name, workload] as const))(
        "%s: those of a query",
        async (_, workload) => {
            const { sizes } = stageOf(workload);
            const { pages, "resident-partitions": resident, ...exact } = await planSizes(workload);
            expect(exact).toEqual({
                "radix-bits": sizes.radixBits,
                "chunk-rows": sizes.chunkRows,
                "chunk-slots": sizes.chunkSlots,
                "page-rows": sizes.pageRows
            });
            expect(Math.abs(pages / sizes.pages - 1)).toBeLessThan(0.01);
            expect(Math.abs(resident / sizes.residentPartitions - 1)).toBeLessThan(0.01);
        }
    );

    test("of sums are those of a count of as many bytes a row", async () => {
        const sums = workloads.find(({ name }) => name === "2^30 x 2^30, 4 GiB, sums")!;
        expect(await planSizes(sums)).toEqual(await planSizes({ ...sums, result: "count" }));
        const { "chunk-rows": chunkRows, pages, "page-rows": pageRows } = await planSizes(sums);
        expect((chunkRows + pages * pageRows) * 16).toBeLessThan(sums.memory_limit_bytes);
    });

    test("take the compiled planner: without it nothing is measured, and what to do is said", () => {
        using packed = new PackedBench();
        const options = ["--experiment", "out-of-core-plans", "--only", "2^28", "--algorithm", "sizes plan"];
        const { status, stderr } = packed.run({ median_ms: 5 }, ...options);
        expect([status, stderr]).toEqual([2, expect.stringContaining("npm run build")]);
    });
});
