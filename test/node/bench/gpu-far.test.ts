// SPDX-License-Identifier: Apache-2.0
// What is measured beyond GPU memory besides joins, with a fake program; what is computed of records.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { PackedBench } from "../../support/packed-bench.js";
import { repositoryRoot } from "../../support/source-tree.js";

type Links = Partial<Record<"h2d" | "d2h" | "peer" | "peer_out", number>>;
interface JoinRecord {
    workload: { name: string; build_rows: number; zipf: number; result: string; inputs: string; spill?: string };
    algorithm: string;
    median_ms: number;
    rows_in: number;
    link_bytes: Links;
    copy_gb_per_s: Links;
}
interface Prediction {
    link_bytes: Links;
    bytes_per_tuple: Links;
    phases: { build_ms: number; probe_ms: number; spilled_ms: number };
    ms: number;
}
interface Run {
    algorithm: string;
    options?: object;
}

const bench = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench", file))) as T;
const { predictJoin } = await bench<{ predictJoin: (record: unknown) => Prediction | undefined }>("gpu-link-plan.mjs");
const { planRuns, runLabel, mergeRecords } = await bench<{
    planRuns: (config: unknown) => Run[];
    runLabel: (run: Run) => string;
    mergeRecords: (plan: unknown[], before: unknown[], records: unknown[]) => unknown[];
}>("gpu-report.mjs");
const { outOfCoreArguments } = await bench<{ outOfCoreArguments: (run: unknown) => string[] }>("gpu-out-of-core.mjs");
const { outOfCoreTables } = await bench<{ outOfCoreTables: (results: unknown[]) => string }>("gpu-out-of-core.mjs");

const experiments = join(repositoryRoot, "configs/experiments");
const measured = readdirSync(join(repositoryRoot, "docs/results/h200")).filter((name) =>
    /^out-of-core.*\.json$/.test(name)
);
const recordsOf = (file: string) =>
    JSON.parse(readFileSync(join(repositoryRoot, "docs/results/h200", file), "utf8")) as JoinRecord[];
const share = (links: Links, actual: Links, link: keyof Links) => (links[link] ?? 0) / (actual[link] ?? 0);

describe("what a join is expected to move", () => {
    const joins = measured.flatMap(recordsOf).filter(({ algorithm }) => /^(staged|triton)/.test(algorithm));
    const named = joins.map((record) => [`${record.workload.name}, ${record.algorithm}`, record] as const);
    test.each(named)("%s: is what it moved", (_, record) => {
        const predicted = predictJoin(record) as Prediction;
        // Skewed keys make partitions, and what is spilled, unequal.
        const most = record.workload.zipf > 1 ? 0.25 : 0.02;
        const links: (keyof Links)[] = record.workload.inputs === "host" ? ["h2d", "d2h"] : ["h2d", "d2h", "peer"];
        for (const link of links.filter((name) => (record.link_bytes[name] ?? 0) > 0)) {
            expect(Math.abs(share(predicted.link_bytes, record.link_bytes, link) - 1)).toBeLessThan(most);
        }
        // The links' rates bound it; a plan's time beyond the measured one would be wrong arithmetic.
        if (record.workload.zipf <= 1) expect(predicted.ms).toBeLessThan(record.median_ms * 1.02);
    });

    const sized = {
        workload: {
            ...{ key_bytes: 8, payload_bytes: { build: [8], probe: [8] }, payload_values: "random", match_ratio: 1 },
            ...{ build_rows: 2 ** 20, probe_rows: 2 ** 21, result: "sums", inputs: "peer", spill: "peer" }
        },
        ...{ algorithm: "staged", rows_in: 3 * 2 ** 20, rows_out: 2 ** 21 },
        sizes: { radix_bits: 4, resident_partitions: 4, chunk_rows: 2 ** 16 },
        copy_gb_per_s: { h2d: 50, d2h: 50, peer: 400, peer_out: 200 }
    };

    test("of rows that come from a peer and are spilled there, nothing passes the host's link", () => {
        const { link_bytes, phases, ms } = predictJoin(sized) as Prediction;
        const packed = (20 + 64) / 8;
        const [build, probe] = [0.75 * 2 ** 20 * packed, 0.75 * 2 ** 21 * packed];
        expect(link_bytes).toEqual({ h2d: 0, d2h: 0, peer: 48 * 2 ** 20 + build + probe, peer_out: build + probe });
        expect(phases.build_ms).toBeCloseTo(Math.max((16 * 2 ** 20) / 400e6, build / 200e6), 5);
        expect(phases.spilled_ms).toBeCloseTo((build + probe) / 400e6, 5);
        expect(ms).toBeCloseTo(phases.build_ms + phases.probe_ms + phases.spilled_ms, 5);
    });

    test("uncached, all of it passes three times, in all of its bytes", () => {
        const workload = { ...sized.workload, inputs: "host", spill: "host" };
        const { bytes_per_tuple } = predictJoin({ ...sized, workload, algorithm: "staged-uncached" }) as Prediction;
        expect(bytes_per_tuple).toEqual({ h2d: 32, d2h: 16 });
    });

    test("by kernels alone, what is not on pages of GPU memory passes once more, results at last", () => {
        const spilled_rows = { build: 3 * 2 ** 18, probe: 3 * 2 ** 19 };
        const workload = { ...sized.workload, result: "rows" };
        const coherent = { ...sized, workload, algorithm: "triton", spilled_rows };
        const { link_bytes, phases } = predictJoin(coherent) as Prediction;
        const [all, far] = [48 * 2 ** 20, 36 * 2 ** 20];
        expect(link_bytes).toEqual({ h2d: 0, d2h: 24 * 2 ** 21, peer: all + far, peer_out: far });
        expect(phases.build_ms).toBeCloseTo((12 * 2 ** 20) / 200e6, 5);
        expect(phases.spilled_ms).toBeCloseTo(Math.max(far / 400e6, (24 * 2 ** 21) / 50e6), 5);
    });

    test("both directions of a link share its rate, where that was measured", () => {
        const workload = { ...sized.workload, inputs: "host", spill: "host" };
        const uncached = { ...sized, workload, algorithm: "staged-uncached" };
        const apart = predictJoin(uncached) as Prediction;
        const together = predictJoin({ ...uncached, copy_both_gb_per_s: { host: 80 } }) as Prediction;
        expect(apart.phases.build_ms).toBeCloseTo((16 * 2 ** 20) / 50e6, 5);
        expect(together.phases.build_ms).toBeCloseTo((32 * 2 ** 20) / 80e6, 5);
        expect(together.phases.spilled_ms).toBe(apart.phases.spilled_ms);
        expect(together.link_bytes).toEqual(apart.link_bytes);
        // Copies of a peer's memory, not kernels.
        const peer = { ...sized, algorithm: "triton", spilled_rows: { build: 2 ** 20, probe: 2 ** 21 } };
        const kernels = { ...peer, workload: { ...workload, inputs: "peer", spill: "peer" } };
        expect(predictJoin({ ...kernels, copy_both_gb_per_s: { peer: 1 } })).toEqual(predictJoin(kernels));
    });

    test("by kernels alone, pages in turns tell the share of GPU memory by themselves", () => {
        const workload = { ...sized.workload, inputs: "host", spill: "host" };
        const turns = { coherent: { device_pages: 3, far_pages: 1 }, spilled_rows: { build: 0, probe: 0 } };
        const { bytes_per_tuple } = predictJoin({ ...sized, workload, algorithm: "triton", ...turns }) ?? {};
        expect(bytes_per_tuple).toEqual({ h2d: 20, d2h: 4 });
    });

    test("is not said of algorithms without a formula", () => {
        expect(predictJoin({ ...sized, algorithm: "duckdb" })).toBeUndefined();
    });
});

describe("options of an algorithm", () => {
    const config = {
        workloads: [{ name: "w", payload_bytes: { build: [8], probe: [8] }, memory_limit_bytes: 1 }],
        algorithms: [
            { name: "triton", partitioner: "linear", grid: 66 },
            { name: "staged", m_to_n: true }
        ],
        baselines: []
    };
    const [coherent, staged] = planRuns(config) as [Run, Run];

    test("are given to the program, and are part of what a run is called", () => {
        const args = outOfCoreArguments(coherent).join(" ");
        expect(args).toContain("--algorithm triton --partitioner linear --grid 66");
        expect(runLabel(coherent)).toBe("triton, partitioner linear, grid 66");
        expect([staged.options, runLabel(staged)]).toEqual([undefined, "staged"]);
    });

    test("tell records apart", () => {
        const record = (partitioner: string, median_ms: number) => ({
            workload: { name: "w" },
            algorithm: "triton",
            ...{ options: { partitioner, grid: 66 }, median_ms }
        });
        const before = [record("linear", 1), record("shared", 2)];
        expect(mergeRecords([coherent], before, [])).toEqual([record("linear", 1)]);
        expect(mergeRecords([coherent], before, [record("linear", 3)])).toEqual([record("linear", 3)]);
    });
});

describe("experiments of the fake program", () => {
    const run = (experiment: string, ...args: string[]) => {
        const packed = new PackedBench();
        const outcome = packed.run({ median_ms: 100 }, "--experiment", experiment, "--write", ...args);
        return { packed, ...outcome, file: packed.path(`docs/results/h200/${experiment}.json`) };
    };

    test("partition: a line per fan-out, one process for all, those without room are no failure", () => {
        const { packed, status, stdout, stderr, file } = run("out-of-core-partition", "--algorithm", "linear");
        using _ = packed;
        expect([status, stderr]).toEqual([0, expect.stringContaining("2^12 is more than shared memory allows")]);
        expect(stdout).toMatch(
            /host to host, pages, fan-out 2\^9 +linear +2\.50 +40\.00 +100\.0 +- +4\.0 +0\.80 .*yes/
        );
        expect(stdout).toMatch(/host to device, pages, fan-out 2\^12 +linear .* no room\n/);
        const records = packed.records(file);
        expect(records).toHaveLength(24);
        expect(new Set(records.map(({ algorithm }) => algorithm))).toEqual(new Set(["linear"]));
        expect(records[0]).toMatchObject({ experiment: "out-of-core-partition", device: "NVIDIA H200" });
        expect(records[0]).not.toHaveProperty("partitioner");
    });

    test("partition: histograms and shares of multiprocessors are what the program is told", () => {
        const { packed, status, stdout } = run("out-of-core-histogram", "--only", "fan-out 2^9");
        using _ = packed;
        expect(status).toBe(0);
        expect(stdout).toMatch(/contiguous, histogram by CPU, fan-out 2\^9 +hierarchical /);
        const grids = run("out-of-core-multiprocessors", "--algorithm", "bulk");
        using __ = grids.packed;
        expect(grids.stdout.match(/\d+ blocks/g)).toEqual([4, 8, 16, 33, 66, 132].map((blocks) => `${blocks} blocks`));
    });

    test("group-bys: planned time and bytes stand beside what was measured", () => {
        const { packed, status, stdout, file } = run("out-of-core-group-by", "--only", "g = 2^20, 4 GiB");
        using _ = packed;
        expect(status).toBe(0);
        expect(stdout).toMatch(/2\^30 rows, g = 2\^20, 4 GiB +out-of-core +10\.74 +100\.0 +365\.1 +1\.0 +2\.0 +3\.0 /);
        const [record] = packed.records(file) as unknown as { planned_link_bytes_per_tuple: Links }[];
        expect(record?.planned_link_bytes_per_tuple.h2d).toBe(17);
    });

    test("tiers: a record for each measurement, stripes beside what their slower part allows", () => {
        const { packed, status, stdout, file } = run("tiers");
        using _ = packed;
        expect(status).toBe(0);
        expect(stdout).toMatch(/interleaved 1:0:1, 2 MiB stripes, read, together +stream +100\.00 +99\.0 +100\.0 +yes/);
        const records = packed.records(file);
        expect(records.map(({ workload: { name } }) => name)).toEqual([
            "cuda_host_alloc, 4096 MiB",
            "host, read, together",
            "interleaved 1:0:1, 2 MiB stripes, read, together"
        ]);
    });

    test("DuckDB and the CPU engine are measured beside joins, or said to be missing", () => {
        const args = ["--only", "2^27 x 2^27", "--samples", "1"] as const;
        const { packed, status, stdout, stderr, file } = run("out-of-core-duckdb", ...args);
        using _ = packed;
        // Packed without packages.
        expect([status, stderr]).toEqual([0, expect.stringContaining("@duckdb/node-api cannot be loaded here")]);
        expect(stderr).toContain("The CPU engine cannot be loaded here: Cannot find ");
        expect(stdout).toMatch(/duckdb .* left out\n/);
        expect(stdout).toMatch(/cpu-radix .* left out\n/);
        expect(stdout).toMatch(/staged +2\.68 +- +15\.8x .* yes +15x met\n/); // of what it was once measured at
        expect(packed.records(file).map(({ algorithm }) => algorithm)).toEqual(["staged"]);
    });

    test("all have names of their own and parts that the program knows", () => {
        for (const name of readdirSync(experiments)) {
            const config = JSON.parse(readFileSync(join(experiments, name), "utf8")) as { experiment: string };
            expect(`${config.experiment}.json`).toBe(name);
        }
    });
});

test("the breakdown has phases beside what their bytes take", () => {
    const record = {
        ...{ median_ms: 100, g_tuples_per_s: 1, verified: true, rows_in: 10, link_gb_per_s: { h2d: 50, d2h: 1 } },
        ...{ link_efficiency: 0.9, spilled_rows: { build: 1, probe: 1 }, peak_bytes: { device: 2 ** 30 } },
        phases: { build_ms: 40, probe_ms: 50, spilled_ms: 10 },
        link_bytes_per_tuple: { h2d: 20, d2h: 4 },
        predicted: {
            phases: { build_ms: 38, probe_ms: 45, spilled_ms: 8 },
            ...{ ms: 91, bytes_per_tuple: { h2d: 19, d2h: 3 } }
        }
    };
    const workload = { name: "w", build_rows: 5, probe_rows: 5 };
    const lines = outOfCoreTables([{ run: { workload, algorithm: "staged" }, record }]).split("\n");
    expect(lines.at(-1)).toMatch(
        /^w +staged +40\.0 +38\.0 +50\.0 +45\.0 +10\.0 +8\.0 +100\.0 +91\.0 +0\.91 +20\.00 +19\.00 +4\.00 +3\.00$/
    );
});
