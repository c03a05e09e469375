// SPDX-License-Identifier: Apache-2.0
// Joins beyond GPU memory in the GPU benchmark: the workloads of its experiments, and what is said of their results.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";

interface Workload {
    name: string;
    key_bytes: number;
    payload_bytes: { build: number[]; probe: number[] };
    payload_values: string;
    build_rows: number;
    probe_rows: number;
    match_ratio: number;
    zipf: number;
    result: string;
    inputs: string;
    memory_limit_bytes: number;
    target_g_tuples_per_s?: number;
    target_link_efficiency?: number;
    reference_g_tuples_per_s?: number;
}
interface Part {
    experiment: string;
    operator: string;
    algorithms: { name: string }[];
    baselines: unknown[];
    samples: number;
    warmup: number;
    step_max?: number;
    workloads: Workload[];
}
interface Outcome {
    g_tuples_per_s: number;
    median_ms: number;
    link_gb_per_s: { h2d: number; d2h: number; peer?: number };
    link_efficiency: number;
    spilled_rows: { build: number; probe: number };
    peak_bytes: { device: number };
    verified: boolean;
}
interface Run {
    workload: Workload;
    algorithm: string;
}
interface Result {
    run: Run;
    record: Outcome | null;
}

const bench = async <T>(file: string) => (await import(join(repositoryRoot, "test/bench", file))) as T;
const { experimentParts } = await bench<{ experimentParts: (config: unknown) => Part[] }>("gpu-grid.mjs");
const { outOfCoreArguments, outOfCoreTable } = await bench<{
    outOfCoreArguments: (run: Run, extra?: object) => string[];
    outOfCoreTable: (results: Result[], config?: { step_max?: number }) => string;
}>("gpu-out-of-core.mjs");

const gib = 2 ** 30;
const names = ["joins", "sizes", "device-limit", "shapes", "peer"].map((name) => `out-of-core-${name}`);
const partOf = (name: string): Part => {
    const file = join(repositoryRoot, `configs/experiments/${name}.json`);
    const [part, ...others] = experimentParts(JSON.parse(readFileSync(file, "utf8"))) as [Part, ...Part[]];
    // Other algorithms join some of the same relations.
    const known = new Set(part.workloads.map((workload) => workload.name));
    for (const { algorithms, workloads } of others) {
        expect([...new Set(algorithms.map((algorithm) => algorithm.name))]).toEqual(["triton"]);
        expect(workloads.filter((workload) => !known.has(workload.name))).toEqual([]);
    }
    return part;
};
const workloadsOf = (name: string) => partOf(`out-of-core-${name}`).workloads;
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

describe("experiments", () => {
    test("have the targets of joins whose state fits, or is larger than the limit", () => {
        const found = workloadsOf("joins").map((workload) => [
            Math.log2(workload.build_rows),
            Math.log2(workload.probe_rows),
            workload.memory_limit_bytes / gib,
            workload.payload_values,
            workload.result,
            workload.target_g_tuples_per_s
        ]);
        expect(found).toEqual([
            [29, 29, 64, "dense", "sums", 3.1],
            [30, 30, 64, "dense", "sums", 3.1],
            [30, 30, 16, "dense", "sums", 2.5],
            [30, 30, 16, "random", "sums", 2.5],
            [30, 30, 4, "dense", "sums", 2.2],
            [30, 30, 4, "random", "sums", 2.2],
            [30, 30, 16, "dense", "rows", 1.8]
        ]);
    });

    test("sweep sizes by half powers of two, without a cliff", () => {
        const { workloads, step_max } = partOf("out-of-core-sizes");
        expect(step_max).toBe(0.1);
        expect(new Set(workloads.map(({ memory_limit_bytes }) => memory_limit_bytes))).toEqual(new Set([4 * gib]));
        const bits = workloads.map(({ build_rows }) => Math.log2(build_rows).toFixed(4));
        expect(bits).toEqual([27, 27.5, 28, 28.5, 29, 29.5, 30].map((value) => value.toFixed(4)));
        for (const { build_rows, probe_rows } of workloads) expect(probe_rows).toBe(build_rows);
    });

    test("sweep the device's limit, ratios, widths, matches and skew", () => {
        const limits = workloadsOf("device-limit").map(({ memory_limit_bytes }) => memory_limit_bytes / gib);
        expect(limits).toEqual([1, 2, 3, 4, 6, 8, 12, 16, 32]);
        const shapes = workloadsOf("shapes");
        const ratios = shapes.map(({ build_rows, probe_rows }) => probe_rows / build_rows);
        expect(ratios.filter((ratio) => ratio > 1)).toEqual([2, 4, 8, 16, 32]);
        const matched = shapes.filter(({ match_ratio }) => match_ratio === 1);
        const plain = matched.filter(({ name, zipf }) => name.startsWith("2^29") && zipf === 0);
        const widths = plain.map(({ key_bytes, payload_bytes }) => key_bytes + sum(payload_bytes.build));
        expect(widths).toEqual([8, 16, 24, 32]);
        expect(shapes.map(({ zipf }) => zipf).filter((zipf) => zipf > 0)).toEqual([0.5, 1, 1.5]);
        // Without a filter and with one.
        expect(shapes.map(({ match_ratio }) => match_ratio).filter((ratio) => ratio < 1)).toEqual([0.5, 0.1, 0.5, 0.1]);
    });

    test("compare with other algorithms, tables in device memory where the limit holds them", () => {
        const config: unknown = JSON.parse(
            readFileSync(join(repositoryRoot, "configs/experiments/out-of-core-baselines.json"), "utf8")
        );
        const parts = experimentParts(config);
        expect(parts.map(({ operator }) => operator)).toEqual(parts.map(() => "out-of-core"));
        const algorithms = new Set(parts.flatMap((part) => part.algorithms.map(({ name }) => name)));
        expect([...algorithms].sort((a, b) => a.localeCompare(b))).toEqual([
            "cpu-partitioned",
            "npj-far",
            "npj-far-perfect",
            "staged",
            "staged-uncached",
            "stream-probe"
        ]);
        for (const { algorithms: own, workloads } of parts) {
            if (!own.some(({ name }) => name === "stream-probe")) continue;
            // Half of the slots of 16 bytes are taken.
            for (const { build_rows, memory_limit_bytes } of workloads) {
                expect(build_rows * 32).toBeLessThan(memory_limit_bytes);
            }
        }
    });

    test.each(names)("%s: names are unique, the numbers possible", (name) => {
        const { experiment, operator, algorithms, baselines, samples, warmup, workloads } = partOf(name);
        expect([experiment, operator, algorithms, baselines]).toEqual([name, "out-of-core", [{ name: "staged" }], []]);
        expect([samples, warmup]).toEqual([5, 1]);
        expect(new Set(workloads.map((workload) => workload.name)).size).toBe(workloads.length);
        for (const { payload_bytes, build_rows, probe_rows, result, inputs, ...workload } of workloads) {
            const rowBytes = [payload_bytes.build, payload_bytes.probe].map(
                (widths) => workload.key_bytes + sum(widths)
            );
            for (const bytes of rowBytes) expect(bytes).toBeLessThanOrEqual(32);
            for (const rows of [build_rows, probe_rows]) expect(Number.isInteger(rows)).toBe(true);
            // Without payloads there is nothing to be summed.
            expect(["sums", "rows"].includes(result)).toBe(payload_bytes.build.length > 0);
            // Inputs are read once over PCIe 5 (55 GB/s) or NVLink (375 GB/s): no target is beyond that.
            const [build = 0, probe = 0] = rowBytes;
            const bytesPerRow = (build_rows * build + probe_rows * probe) / (build_rows + probe_rows);
            const ceiling = (inputs === "peer" ? 375 : 55) / bytesPerRow;
            expect(workload.target_g_tuples_per_s ?? 0).toBeLessThan(ceiling);
            expect(workload.reference_g_tuples_per_s ?? 0).toBeLessThan(ceiling / 15);
        }
    });
});

test("the program is told all of a workload, whose limit no option changes", () => {
    const workload = workloadsOf("joins").find(({ payload_values }) => payload_values === "random") as Workload;
    const args = outOfCoreArguments(
        { workload, algorithm: "staged" },
        { samples: 3, "memory-limit": "5", seed: undefined }
    );
    const options = Object.fromEntries(
        args.slice(1).flatMap((word, index, all) => (index % 2 === 0 ? [[word, all[index + 1]]] : []))
    ) as Record<string, string>;
    expect(args[0]).toBe("out-of-core");
    expect(options).toEqual({
        "--key-bytes": "8",
        "--build-payload": "8",
        "--probe-payload": "8",
        "--payload-values": "random",
        "--build-rows": String(2 ** 30),
        "--probe-rows": String(2 ** 30),
        "--match-ratio": "1",
        "--zipf": "0",
        "--result": "sums",
        "--inputs": "host",
        "--algorithm": "staged",
        "--samples": "3",
        "--memory-limit": String(16 * gib)
    });
    const keys = workloadsOf("shapes").find(({ payload_bytes }) => payload_bytes.build.length === 0) as Workload;
    expect(outOfCoreArguments({ workload: keys, algorithm: "staged" })).toContain("none");
});

describe("the table", () => {
    const workload = { ...(workloadsOf("joins")[0] as Workload), name: "some" };
    const outcome = (rate: number, more: Partial<Outcome> = {}): Outcome => ({
        g_tuples_per_s: rate,
        median_ms: 2 ** 30 / rate / 1e6,
        link_gb_per_s: { h2d: rate * 16, d2h: 4 },
        link_efficiency: 0.93,
        spilled_rows: { build: 2 ** 27, probe: 2 ** 27 },
        peak_bytes: { device: 3 * gib },
        verified: true,
        ...more
    });
    const lines = (records: (Outcome | null)[], step_max?: number, given: Partial<Workload> = {}) => {
        const run = { workload: { ...workload, ...given }, algorithm: "staged" };
        const results = records.map((record) => ({ run, record }));
        const text = outOfCoreTable(results, step_max === undefined ? {} : { step_max });
        return text.split("\n").slice(2);
    };

    test("says whether the rate and the share of the link meet their targets", () => {
        const [met] = lines([outcome(3.2)]);
        expect(met).toMatch(
            /^some +staged +3\.20 +3\.10 +21\.3x +- +335\.5 +51\.20 +4\.00 +0\.93 +25 % +3\.00 +yes +met$/
        );
        expect(lines([outcome(2.79)])[0]).toMatch(/ yes +MISSED by 10 %$/);
        expect(lines([outcome(3.2, { link_efficiency: 0.89 })])[0]).toMatch(/ 0\.89 .* yes +met, LINK$/);
        expect(lines([outcome(3.2, { verified: false })])[0]).toMatch(/ NO +met$/);
        expect(lines([null])[0]).toMatch(/^some +staged +- +3\.10 .* FAILED$/);
    });

    test("has neither target nor verdict where there is none, and the peer's bytes among those that came in", () => {
        const none = { target_g_tuples_per_s: undefined, reference_g_tuples_per_s: undefined } as Partial<Workload>;
        const [line] = lines([outcome(1, { link_gb_per_s: { h2d: 5, d2h: 0, peer: 100 } })], undefined, none);
        expect(line).toMatch(/ 1\.00 +- +- +- +1073\.7 +105\.00 .* yes$/);
    });

    test("tells steps between neighbours, and falls that are cliffs", () => {
        const found = lines([outcome(3), outcome(2.75), outcome(2.4), outcome(3), null, outcome(1)], 0.1);
        const steps = found.map((line) => / (-|[+-]\d+ %) +[\d.]+ .*?(CLIFF)?$/.exec(line)?.slice(1));
        expect(steps.slice(0, 4)).toEqual([
            ["-", undefined],
            ["-8 %", undefined],
            ["-13 %", "CLIFF"],
            ["+25 %", undefined]
        ]);
        expect(found[4]).toMatch(/FAILED$/);
        expect(found[5]).not.toMatch(/CLIFF/);
    });
});
