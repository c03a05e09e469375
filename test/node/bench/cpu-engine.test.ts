// SPDX-License-Identifier: Apache-2.0
// The CPU engine as a baseline of the GPU benchmark.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";

interface Times {
    samples_ms: number[];
    median_ms: number;
}
interface Stage {
    name: string;
    algorithm: string;
    ms: number;
}

const run = (...args: string[]) => {
    const file = join(repositoryRoot, "test/bench/gpu-cpu-engine.mjs");
    return spawnSync(process.execPath, [file, ...args], { encoding: "utf8" });
};

test.each([
    [1, 1],
    [1000, 3000],
    [2 ** 20, 2 ** 20 + 1],
    [2 ** 21 + 5, 70_000]
])("%d build rows and %d probe rows: a checked join of all of them", (build, probe) => {
    const rows = ["--build-rows", String(build), "--probe-rows", String(probe)];
    const { status, stdout, stderr } = run(...rows, "--samples", "2", "--warmup", "0", "--threads", "2");
    expect([status, stderr]).toEqual([0, ""]);
    const record = JSON.parse(stdout) as Times & { stages: Stage[]; count: Times };
    expect(record).toMatchObject({
        workload: { build_rows: build, probe_rows: probe, result: "sums" },
        ...{ algorithm: "cpu-radix", threads: 2, rows_in: build + probe, rows_out: probe },
        ...{ verified: true, bytes_to_disk: 0, peak_bytes: { host: expect.any(Number) as number } }
    });
    for (const { samples_ms, median_ms } of [record, record.count]) {
        expect(samples_ms).toHaveLength(2);
        expect(samples_ms).toContain(median_ms);
    }
    // Which join the planner takes is up to it.
    const stage = (name: string) => record.stages.find((one) => one.name === name);
    const joined = stage("join and group") ?? stage("join");
    expect(joined).toMatchObject({ algorithm: expect.stringMatching(/hash join|array join/) as string });
    expect((stage("group") ?? joined)?.ms).toBeGreaterThan(0);
});

test("numbers that are none are refused", () => {
    const { status, stderr } = run("--build-rows", "many", "--probe-rows", "1");
    expect([status, stderr]).toEqual([1, expect.stringContaining("for --build-rows but received 'many'")]);
});

test("a join that memory does not hold is left out", () => {
    const { status, stdout, stderr } = run("--build-rows", String(2 ** 44), "--probe-rows", String(2 ** 44));
    expect([status, stdout]).toEqual([3, ""]);
    expect(stderr).toMatch(/^The CPU engine takes 1572865\.0 GiB for this join and [\d.]+ GiB are free\.\n$/);
});
