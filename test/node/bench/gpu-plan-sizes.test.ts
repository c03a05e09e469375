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
    probe_rows: number;
    inputs: "host" | "peer";
    payload_bytes: { build: number[] };
    result: "count" | "sums" | "rows";
    memory_limit_bytes: number;
}
interface Run {
    workload: Workload;
    algorithm: string;
}
type Sizes = Record<
    "radix-bits" | "chunk-rows" | "chunk-slots" | "page-rows" | "pages" | "resident-partitions" | "spill-bytes",
    number
>;

const bench = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench", file))) as T;
const { experimentParts } = await bench<{ experimentParts: (config: unknown) => { workloads: Workload[] }[] }>(
    "gpu-grid.mjs"
);
const { joinSizes, groupSizes } = await bench<{
    joinSizes: (run: Run, given?: object) => Promise<Sizes>;
    groupSizes: (run: object, given?: object) => Promise<Record<string, number>>;
}>("gpu-plan-sizes.mjs");
const workloadsOf = (experiment: string) => {
    const file = join(repositoryRoot, `configs/experiments/${experiment}.json`);
    return experimentParts(JSON.parse(readFileSync(file, "utf8"))).flatMap((part) => part.workloads);
};
const workloads = workloadsOf("out-of-core-plans");
const sizesOf = (workload: Workload, given: object = {}, algorithm = "staged") =>
    joinSizes({ workload, algorithm }, given);
const sums = workloads.find(({ name }) => name === "2^30 x 2^30, 4 GiB, sums")!;

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
            const { pages, "resident-partitions": resident, ...exact } = await sizesOf(workload);
            expect(exact).toMatchObject({
                "radix-bits": sizes.radixBits,
                "chunk-rows": sizes.chunkRows,
                "chunk-slots": sizes.chunkSlots,
                "page-rows": sizes.pageRows,
                "result-rows": sizes.resultRows,
                "result-slots": sizes.resultSlots,
                "filter-words": 0
            });
            expect(Math.abs(pages / sizes.pages - 1)).toBeLessThan(0.01);
            expect(Math.abs(resident / sizes.residentPartitions - 1)).toBeLessThan(0.01);
        }
    );

    test("of sums are those of a count of as many bytes a row", async () => {
        expect(await sizesOf(sums)).toEqual(await sizesOf({ ...sums, result: "count" }));
        const { "chunk-rows": chunkRows, pages, "page-rows": pageRows } = await sizesOf(sums);
        expect((chunkRows + pages * pageRows) * 16).toBeLessThan(sums.memory_limit_bytes);
    });

    test("are planned around radix bits and rows of a chunk that are set by hand", async () => {
        const usual = await sizesOf(sums);
        const given = await sizesOf(sums, { "radix-bits": "11", "chunk-rows": String(2 ** 20), pages: "7" });
        expect(given).toMatchObject({ "radix-bits": 11, "chunk-rows": 2 ** 20, "page-rows": usual["page-rows"] });
        expect(given.pages).toBeGreaterThan(usual.pages);
        const large = await sizesOf(sums, { "page-rows": String(4 * usual["page-rows"]) });
        expect(large.pages).toBe(Math.floor(usual.pages / 4));
    });

    test("have the chunks of a fast link that was measured, where inputs are another GPU's", async () => {
        const peer = workloadsOf("out-of-core-peer").filter(({ inputs }) => inputs === "peer");
        const chunkRows = peer.map(async (workload) => [
            workload.memory_limit_bytes / 2 ** 30,
            Math.log2((await sizesOf(workload))["chunk-rows"])
        ]);
        const found = new Map((await Promise.all(chunkRows)) as [number, number][]);
        expect(found).toEqual(
            new Map([
                [2, 22],
                [4, 23],
                [8, 23],
                [64, 23]
            ])
        );
    });

    test("of the coherent join hold all pages, whose size is its own where they are another GPU's", async () => {
        const coherent = (of: object, given = {}) => sizesOf({ ...sums, ...of }, given, "triton");
        const sizes = await coherent({});
        expect(sizes).toMatchObject({ "radix-bits": 9, "page-rows": 4096, "resident-partitions": 0 });
        expect(sizes["spill-bytes"]).toBeGreaterThan(16 * (sums.build_rows + sums.probe_rows));
        expect(await coherent({ inputs: "peer" })).toMatchObject({ "radix-bits": 9, "page-rows": 0 });
        expect((await coherent({ inputs: "peer", spill: "host" }))["page-rows"]).toBe(4096);
        // Partitions that are indexed are smaller than those of a second pass.
        expect((await coherent({}, { "second-pass": 0 }))["radix-bits"]).toBe(10);
    });

    test("of group-bys grow in partitions with their groups", async () => {
        const [few, many] = await Promise.all(
            workloadsOf("out-of-core-group-by")
                .filter(({ name }) => /g = 2\^(10|30), 4 GiB/.test(name))
                .map((workload) => groupSizes({ workload }))
        );
        expect(many!["radix-bits"]).toBeGreaterThan(few!["radix-bits"]!);
        expect(many!["merge-rows"]).toBeGreaterThanOrEqual(many!["chunk-rows"]!);
        expect(Object.keys(many!)).not.toContain("filter-words");
    });

    test("are there for every run: one without a plan fails, and the others go on", () => {
        using packed = new PackedBench();
        const only = ["--experiment", "out-of-core-plans", "--only", "2^27", "--set", `chunk-rows=${2 ** 30}`];
        const { status, stdout, stderr } = packed.run({ median_ms: 5 }, ...only);
        expect([status, stderr]).toEqual([1, expect.stringMatching(/staged \.\.\. there is no plan: .*GPU memory/)]);
        expect(stdout).toMatch(/2\^27 x 2\^27, 4 GiB, sums +staged +- .* FAILED\n/);
    });

    test("take the compiled planner: without it nothing is measured, and what to do is said", () => {
        using packed = new PackedBench();
        packed.removePackage();
        const options = ["--experiment", "out-of-core-plans", "--only", "2^28"];
        const { status, stderr } = packed.run({ median_ms: 5 }, ...options);
        expect([status, stderr]).toEqual([2, expect.stringContaining("npm run build")]);
    });
});
