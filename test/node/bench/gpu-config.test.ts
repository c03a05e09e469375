// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../support/source-tree.js";

interface Workload {
    name: string;
    key_bytes: number;
    payload_bytes: { build: number[]; probe: number[] };
    build_rows: number;
    probe_rows: number;
    match_ratio: number;
    zipf: number;
    distinct_keys?: number;
    target_ms: number;
    reference_ms: number;
    reference_algorithm: string;
}
interface Config {
    experiment: string;
    algorithms: { name: string; m_to_n: boolean }[];
    baselines: { name: string; m_to_n: boolean }[];
    workloads: Workload[];
}
const file = join(repositoryRoot, "configs/experiments/in-core-joins.json");
const config = JSON.parse(readFileSync(file, "utf8")) as Config;

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

/** log2 of the rows, columns of each side, bytes of a key and of a payload, what is special, target, reference. */
const targets = [
    [27, 27, 1, 1, 4, 4, "", 4.5, 11.35, "PHJ-TR"],
    [27, 28, 1, 1, 4, 4, "", 6.5, 17.78, "PHJ-TR"],
    [27, 27, 2, 2, 4, 4, "", 6, 17.98, "PHJ-TR"],
    [27, 28, 2, 2, 4, 4, "", 9.6, 28.85, "PHJ-TR"],
    [27, 27, 4, 4, 4, 4, "", 10, 29.02, "PHJ-TR"],
    [27, 27, 2, 2, 4, 4, "match 0.25", 4.5, 12.23, "PHJ-UR"],
    [27, 27, 2, 2, 4, 4, "match 0.0625", 3.5, 8.66, "PHJ-UR"],
    [27, 27, 2, 2, 4, 4, "zipf 1", 6, 17.14, "PHJ-TR"],
    [27, 27, 2, 2, 4, 4, "zipf 1.5", 6, 16.73, "PHJ-TR"],
    [27, 27, 2, 2, 4, 8, "", 8, 20.83, "PHJ-TR"],
    [27, 27, 2, 2, 8, 8, "", 10, 27.49, "PHJ-TR"],
    [26, 26, 2, 2, 4, 4, "distinct 2^25", 5, 11.64, "PHJ-TR"],
    [26, 26, 2, 2, 4, 4, "distinct 2^23", 12, 22.65, "PHJ-UR"]
];

function special({ match_ratio, zipf, distinct_keys }: Workload): string {
    const parts = [];
    if (match_ratio !== 1) parts.push(`match ${match_ratio}`);
    if (zipf !== 0) parts.push(`zipf ${zipf}`);
    if (distinct_keys !== undefined) parts.push(`distinct 2^${Math.log2(distinct_keys)}`);
    return parts.join(", ");
}

test("every target is a workload, with the figures of the published code", () => {
    const found = config.workloads.map((workload) => {
        const { build, probe } = workload.payload_bytes;
        const rows = [Math.log2(workload.build_rows), Math.log2(workload.probe_rows)];
        const columns = [build.length, probe.length, workload.key_bytes, build[0]];
        const figures = [workload.target_ms, workload.reference_ms, workload.reference_algorithm];
        return [...rows, ...columns, special(workload), ...figures];
    });
    expect(found).toEqual(targets);
});

test("names are unique and tell the columns", () => {
    expect(config.experiment).toBe("in-core-joins");
    expect(new Set(config.workloads.map(({ name }) => name)).size).toBe(config.workloads.length);
    const algorithms = [...config.algorithms, ...config.baselines].map(({ name }) => name);
    expect(algorithms).toEqual(["phj-tr", "npj", "cub-sort-merge"]);
    for (const { name, payload_bytes } of config.workloads) {
        if (name.startsWith("m:n")) continue;
        expect(name).toContain(` ${payload_bytes.build.length}+${payload_bytes.probe.length},`);
    }
});

test.each(config.workloads)("$name: the numbers are possible", (workload) => {
    const { key_bytes, payload_bytes, build_rows, probe_rows, match_ratio, zipf, distinct_keys } = workload;
    const { build, probe } = payload_bytes;
    expect([4, 8]).toContain(key_bytes);
    // Columns of one side are equally wide, and the first names the row.
    for (const widths of [build, probe]) expect([[4], [8]]).toContainEqual([...new Set(widths)]);
    expect(match_ratio).toBeGreaterThan(0);
    expect(match_ratio).toBeLessThanOrEqual(1);
    expect((distinct_keys ?? build_rows) / match_ratio).toBeLessThanOrEqual(2 ** 32);
    expect(zipf).toBeGreaterThanOrEqual(0);
    expect(build_rows % (distinct_keys ?? build_rows)).toBe(0);
    // No target below what it takes to read the inputs and to write the result once at 4 TB/s.
    const rowsOut = (probe_rows * match_ratio * build_rows) / (distinct_keys ?? build_rows);
    const inputBytes = build_rows * (key_bytes + sum(build)) + probe_rows * (key_bytes + sum(probe));
    const floorMs = (inputBytes + rowsOut * (key_bytes + sum(build) + sum(probe))) / 4e9;
    expect(workload.target_ms).toBeGreaterThan(floorMs);
    expect(workload.reference_ms).toBeGreaterThan(workload.target_ms);
});
