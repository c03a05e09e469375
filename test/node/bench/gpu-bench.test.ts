// SPDX-License-Identifier: Apache-2.0
// The benchmark's own code, with a fake program in the place of the one that needs a GPU.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { PackedBench as Packed } from "../../support/packed-bench.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface ReportModule {
    gpuSlug: (device: string) => string;
}
const { gpuSlug } = (await import(join(repositoryRoot, "test/bench/gpu-report.mjs"))) as ReportModule;

const wide = "wide 2+2, 2^27 x 2^27";

test("a GPU's name becomes that of a folder", () => {
    expect(gpuSlug("NVIDIA H200")).toBe("h200");
    expect(gpuSlug("NVIDIA A100-SXM4-80GB")).toBe("a100-sxm4-80gb");
});

describe("the table", () => {
    test("has all workloads with target, reference and speed-up; baselines have no target", () => {
        using packed = new Packed();
        const { status, stdout } = packed.run({ median_ms: 5 });
        expect(status).toBe(0);
        const lines = stdout.trim().split("\n");
        expect(lines[0]).toMatch(/^workload .* algorithm .* median ms .* target .* reference +faster +verified$/);
        const rows = lines.slice(2);
        expect(rows.filter((row) => row.includes("phj-tr"))).toHaveLength(13);
        expect(rows.filter((row) => row.includes("cub-sort-merge"))).toHaveLength(11);
        const row = rows.find((line) => line.startsWith(`${wide} `) && line.includes("phj-tr"));
        expect(row).toMatch(/ 5\.00 +2\.50 +2\.50 +6\.00 +17\.98 PHJ-TR +3\.60x +yes +met$/);
        const narrow = rows.find((line) => line.startsWith("narrow 1+1, 2^27 x 2^27"));
        expect(narrow).toMatch(/ 5\.00 +2\.50 +2\.50 +4\.50 +11\.35 PHJ-TR +2\.27x +yes +MISSED by 11 %$/);
        const baseline = rows.find((line) => line.startsWith(`${wide} `) && line.includes("cub-sort-merge"));
        expect(baseline).toMatch(/ 5\.00 +2\.50 +2\.50 +- +17\.98 PHJ-TR +3\.60x +yes$/);
        expect(existsSync(packed.results)).toBe(false);
    });

    test("of a grid has its cells, which have no targets", () => {
        using packed = new Packed();
        const options = ["--experiment", "in-core-grid", "--only", "2^16 x 2^27, 1+1", "--algorithm", "phj-"];
        const { status, stdout } = packed.run({ median_ms: 5 }, ...options);
        expect(status).toBe(0);
        const rows = stdout.trim().split("\n").slice(2);
        expect(rows.map((row) => / (phj-\w+) /.exec(row)?.[1])).toEqual(["phj-tr", "phj-ur", "phj-shared", "phj-gftr"]);
        expect(rows[0]).toMatch(/^2\^16 x 2\^27, 1\+1, .* 5\.00 +2\.50 +2\.50 +- +- +- +yes$/);
    });

    test("marks wrong results and failed runs, which end with code 1", () => {
        using packed = new Packed();
        const wrong = packed.run({ median_ms: 5, wrong: true }, "--only", wide);
        expect([wrong.status, wrong.stderr]).toEqual([1, expect.stringContaining("WRONG: invented")]);
        expect(wrong.stdout).toMatch(/ NO +met\n/);
        const crash = packed.run({ median_ms: 5, crash: true }, "--only", wide, "--write");
        expect([crash.status, crash.stderr]).toEqual([1, expect.stringContaining("the program ended with SIGSEGV")]);
        expect(crash.stdout).toMatch(/FAILED\n/);
        expect(existsSync(packed.results)).toBe(false);
        const hang = packed.run({ median_ms: 5, hang: true }, "--only", "m:n", "--limit-s", "1");
        expect([hang.status, hang.stderr]).toEqual([1, expect.stringContaining("the program ended with SIGKILL")]);
    });
});

describe("records", () => {
    test("have the form of every experiment", () => {
        using packed = new Packed();
        packed.run({ median_ms: 4 }, "--only", wide, "--algorithm", "phj-tr", "--samples", "3", "--write");
        expect(packed.records()).toEqual([
            {
                experiment: "in-core-joins",
                workload: { name: wide, build_rows: 2 ** 27, probe_rows: 2 ** 27, zipf: 0, seed: 1 },
                algorithm: "phj-tr",
                median_ms: 4,
                samples_ms: [4, 4, 4],
                phases: { transform_ms: 2, join_ms: 2 },
                rows_in: 2 ** 28,
                rows_out: 2 ** 27,
                g_tuples_per_s: 2 ** 28 / 4 / 1e6,
                verified: true,
                peak_bytes: { device: 1024 },
                device: "NVIDIA H200",
                date: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
                commit: "abc1234"
            }
        ]);
    });

    test("of one workload replace its own and leave the others", () => {
        using packed = new Packed();
        packed.run({ median_ms: 4 }, "--only", "Zipf", "--write");
        packed.run({ median_ms: 3 }, "--only", "Zipf 1.5", "--samples", "1", "--write");
        packed.run({ median_ms: 3 }, "--only", "narrow", "--samples", "1", "--write");
        const samples = packed.records().map(({ workload, samples_ms }) => [workload.name, samples_ms.length]);
        expect(samples).toEqual([
            ...Array(3).fill(["narrow 1+1, 2^27 x 2^27", 1]),
            ...Array(3).fill(["narrow 1+1, 2^27 x 2^28", 1]),
            ...Array(3).fill(["wide 2+2, Zipf 1.0 foreign keys", 7]),
            ...Array(3).fill(["wide 2+2, Zipf 1.5 foreign keys", 1])
        ]);
    });
});

describe("joins out of core", () => {
    test("have a table and records of their own", () => {
        using packed = new Packed();
        const options = [
            "--experiment",
            "out-of-core-joins",
            "--only",
            "16 GiB, sums",
            "--memory-limit",
            "7",
            "--write"
        ];
        const { status, stdout } = packed.run({ median_ms: 1000 }, ...options);
        expect(status).toBe(0);
        const [titles, , row] = stdout.trim().split("\n");
        expect(titles).toMatch(/^workload +algorithm +G tuples\/s +target +faster +step .* link +spilled +peak GiB/);
        expect(row).toMatch(/^2\^30 x 2\^30, 16 GiB, sums +staged +2\.15 +2\.50 .* 8\.00 +yes +MISSED by 14 %$/);
        expect(packed.records(packed.path("docs/results/h200/out-of-core-joins.json"))).toEqual([
            expect.objectContaining({
                experiment: "out-of-core-joins",
                workload: expect.objectContaining({
                    name: "2^30 x 2^30, 16 GiB, sums",
                    result: "sums",
                    memory_limit_bytes: 2 ** 34
                }),
                algorithm: "staged",
                samples_ms: Array(5).fill(1000),
                g_tuples_per_s: 2 ** 31 / 1e9,
                link_bytes: { h2d: 2 ** 35, d2h: 0 },
                link_efficiency: 0.95,
                peak_bytes: { device: 2 ** 33, host: 1024 },
                verified: true,
                commit: "abc1234"
            })
        ]);
    });

    test("run together, those that have the name", () => {
        using packed = new Packed();
        const options = ["--experiment", "out-of-core", "--only", "2^29 x 2^29, 4 GiB", "--samples", "2"];
        const { status, stdout, stderr } = packed.run({ median_ms: 400 }, ...options);
        expect(status).toBe(0);
        // Times and links of each, then its phases.
        expect(stdout.match(/^2\^29 x 2\^29, 4 GiB, sums .*$/gm)).toHaveLength(6);
        expect(stdout).toMatch(/^2\^29 x 2\^29, 4 GiB, Zipf 1\.5, sums .*$/m);
        expect(stderr).not.toContain("2^30");
        const file = packed.run({ median_ms: 400 }, "--experiment", "out-of-core", "--file", "x.json");
        expect([file.status, file.stderr]).toEqual([2, expect.stringContaining("not with several of them")]);
        const unknown = packed.run({ median_ms: 400 }, "--experiment", "nope");
        expect([unknown.status, unknown.stderr]).toEqual([
            2,
            expect.stringMatching(/out-of-core-peer, .*, all, out-of-core/)
        ]);
    });

    test("tell the steps of a sweep", () => {
        using packed = new Packed();
        // Each takes the same time, so that the rate rises with the rows.
        const { stdout } = packed.run({ median_ms: 400 }, "--experiment", "out-of-core-sizes");
        const [sweep = "", breakdown = ""] = stdout.trim().split("\n\n");
        const rows = sweep.split("\n").slice(2);
        expect(rows).toHaveLength(7);
        expect(breakdown.split("\n")).toHaveLength(9);
        expect(rows[1]).toMatch(/ \+41 % /);
        expect(stdout).not.toContain("CLIFF");
    });
});

describe("nothing is measured, and the exit code is 2,", () => {
    test("where results would be kept of no known commit", () => {
        using packed = new Packed();
        packed.commit = "";
        const { status, stderr } = packed.run({ median_ms: 5 }, "--write");
        expect(status).toBe(2);
        expect(stderr).toMatch(/^Results that are kept name the commit .*: set SPILLWAY_COMMIT\.$/m);
        expect(existsSync(packed.results)).toBe(false);
        expect(packed.run({ median_ms: 5 }, "--only", wide, "--algorithm", "phj-tr").status).toBe(0);
    });

    test("where the program finds no GPU", () => {
        using packed = new Packed();
        const { status, stdout, stderr } = packed.run({ median_ms: 5, noDevice: true }, "--write");
        expect([status, stdout]).toEqual([2, ""]);
        expect(stderr).toContain("Nothing was measured: no GPU can be used (invented).");
    });

    test("without a program", () => {
        using packed = new Packed(false);
        const { status, stderr } = packed.run({ median_ms: 5 });
        expect(status).toBe(2);
        expect(stderr).toMatch(/^Nothing was measured: (this machine has no GPU|the GPU benchmark cannot be built)/);
    });

    test("when no workload has the name; the message says which there are", () => {
        using packed = new Packed();
        const { status, stderr } = packed.run({ median_ms: 5 }, "--only", "nope");
        expect([status, stderr]).toEqual([2, expect.stringContaining(`"${wide}"`)]);
    });
});
