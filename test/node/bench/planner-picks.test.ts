// SPDX-License-Identifier: Apache-2.0
// The grid of all algorithms, what is read from its results, and what is fitted to them, on a small made-up file.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readProfileFile } from "../../../src/machine/profile.js";
import { deviceGroupAlgorithms, deviceJoinAlgorithms } from "../../../src/model/algorithms.js";
import { Sandbox } from "../../support/sandbox.js";
import { repositoryRoot } from "../../support/source-tree.js";

interface Workload {
    name: string;
    key_bytes: number;
    payload_bytes: number[] & { build: number[]; probe: number[] };
    build_rows: number;
    probe_rows: number;
    match_ratio: number;
    rows: number;
    groups: number;
    expected_groups: number;
    type?: string;
}
interface Part {
    experiment: string;
    operator: string;
    algorithms: { name: string }[];
    workloads: Workload[];
}
const bench = async <T>(name: string): Promise<T> => (await import(join(repositoryRoot, "test/bench", name))) as T;
const { experimentParts } = await bench<{ experimentParts: (config: unknown) => Part[] }>("gpu-grid.mjs");
const { zipfShare } = await bench<{ zipfShare: (zipf: number, keys: number) => number }>("model-shapes.mjs");
const { fitAlgorithms, fitSums } = await bench<{
    fitAlgorithms: (cells: Map<string, unknown[]>, phasesOf: unknown) => Record<string, Record<string, object>>;
    fitSums: (rows: number[][], actual: number[]) => number[];
}>("fit-profile.mjs");
const { drawnWorkloads, groupsMet, joinTypes, useOf } = await bench<{
    groupsMet: (rows: number, groups: number, zipf: number, hotShare?: number) => number;
    joinTypes: string[];
    drawnWorkloads: (part: {
        operator: string;
        drawn: { seed: number; cells: number; whole?: boolean; types?: string[] }[];
    }) => Workload[];
    useOf: (name: string) => string | undefined;
}>("gpu-drawn.mjs");

describe("the grid", () => {
    const file = join(repositoryRoot, "configs/experiments/in-core-grid.json");
    const [joins, groups] = experimentParts(JSON.parse(readFileSync(file, "utf8"))) as [Part, Part];

    test("has all algorithms and some 40 and 30 cells", () => {
        expect(joins.algorithms.map(({ name }) => name).sort()).toEqual([...deviceJoinAlgorithms].sort());
        expect(groups.algorithms.map(({ name }) => name).sort()).toEqual([...deviceGroupAlgorithms].sort());
        expect([joins.workloads.length, groups.workloads.length]).toEqual([48, 34]);
        for (const { workloads } of [joins, groups]) {
            expect(new Set(workloads.map(({ name }) => name)).size).toBe(workloads.length);
        }
    });

    test("fits a GPU of 139 GiB with room for the copies of its rows", () => {
        const sum = (widths: number[]): number => widths.reduce((total, width) => total + width, 0);
        for (const { build_rows, probe_rows, key_bytes, payload_bytes } of joins.workloads) {
            const { build, probe } = payload_bytes;
            const bytes = build_rows * (key_bytes + sum(build)) + probe_rows * (key_bytes + sum(probe));
            expect(bytes).toBeLessThan(2 ** 34);
        }
        for (const { rows, groups: keys, key_bytes, payload_bytes } of groups.workloads) {
            expect(keys).toBeLessThanOrEqual(rows);
            expect(rows * (key_bytes + sum(payload_bytes))).toBeLessThan(2 ** 34);
        }
    });
});

test("the most frequent key's share is that of Zipf's law", () => {
    expect(zipfShare(0, 1000)).toBe(0.001);
    expect(zipfShare(1.5, 2 ** 27)).toBeCloseTo(1 / 2.612, 3);
    let sum = 0;
    for (let i = 1; i <= 100_000; i++) sum += 1 / i;
    expect(zipfShare(1, 100_000)).toBeCloseTo(1 / sum, 5);
});

test("sums are fitted by relative errors, without negative coefficients", () => {
    const line = [1, 10, 100].map((x) => [1, x]);
    const of = (f: (x: number) => number): number[] => line.map(([, x]) => f(x!));
    expect(
        fitSums(
            line,
            of((x) => 2 * x + 0.5)
        )
    ).toEqual([expect.closeTo(0.5, 4), expect.closeTo(2, 4)]);
    const [below] = fitSums(
        line,
        of((x) => 2 * x - 0.5)
    );
    expect(below).toBe(0);
    // A half and twice are as wrong.
    expect(fitSums([[1], [1]], [1, 4])).toEqual([expect.closeTo(2, 3)]);
    expect(fitSums([[4, 0]], [2])).toEqual([0.5, 0]);
    expect(fitSums([], [])).toEqual([]);
});

test("what two algorithms do by the same kernels is fitted to runs of the first", () => {
    const none = { steps: 0, values: 0 };
    // Matches take what is predicted, columns of pairs twice as long, or by the second algorithm three times.
    const phasesOf = (_: string, algorithm: string, { probeRows }: { probeRows: number }) => {
        const pairsMs = probeRows % 3;
        const counts = { transform: none, match: none, materialize: none };
        return { transformMs: 0, matchMs: algorithm === "npj" ? probeRows : 1, materializeMs: pairsMs, counts };
    };
    const workload = { key_bytes: 4, payload_bytes: { build: [], probe: [] }, match_ratio: 1, zipf: 0 };
    const cellOf = (algorithm: string, probe_rows: number) => {
        const isFirst = algorithm === "npj";
        const join_ms = (isFirst ? probe_rows : 1) + (isFirst ? 2 : 3) * (probe_rows % 3);
        const sizes = { build_rows: 10, probe_rows };
        return { algorithm, workload: { ...workload, ...sizes }, rows_out: 1, phases: { transform_ms: 0, join_ms } };
    };
    const rowsOf = [1, 5, 9, 12, 23, 31];
    const cells = new Map(
        ["npj-perfect", "npj"].flatMap((name) => rowsOf.map((rows) => [`${name} ${rows}`, [cellOf(name, rows)]]))
    );
    const fits = fitAlgorithms(cells, phasesOf);
    const close = (value: number): unknown => expect.closeTo(value, 2);
    expect(fits["npj"]).toMatchObject({ match: { factor: close(1) }, materialize: { factor: close(2) } });
    expect(fits["npj-perfect"]!["materialize"]).toEqual(fits["npj"]!["materialize"]);
});

describe("drawn workloads", () => {
    const file = join(repositoryRoot, "configs/experiments/in-core-picks.json");
    const [joins, groups] = experimentParts(JSON.parse(readFileSync(file, "utf8"))) as [Part, Part];

    test("are the same whenever they are drawn, and others by another seed", () => {
        for (const operator of ["join", "group-by"]) {
            const of = (seed: number) => drawnWorkloads({ operator, drawn: [{ seed, cells: 20 }] });
            expect(of(7)).toEqual(of(7));
            const shapes = (seed: number) => of(seed).map(({ name }) => name.replace(/^[^:]*/, ""));
            expect(shapes(7)).not.toEqual(shapes(8));
        }
    });

    test("have names of their own, keys that fit their width, and fit a GPU of 139 GiB several times", () => {
        const sum = (widths: number[]): number => widths.reduce((total, width) => total + width, 0);
        for (const { workloads } of [joins, groups]) {
            expect(new Set(workloads.map(({ name }) => name)).size).toBe(workloads.length);
        }
        for (const { build_rows, probe_rows, match_ratio, key_bytes, payload_bytes } of joins.workloads) {
            const { build, probe } = payload_bytes;
            expect(key_bytes === 8 || build_rows / match_ratio <= 2 ** 32).toBe(true);
            const bytes = build_rows * (key_bytes + sum(build)) + probe_rows * (key_bytes + sum(probe));
            expect(bytes).toBeLessThan(2 ** 35);
            for (const [first = 4] of [build, probe]) expect(first).toBeGreaterThanOrEqual(4);
        }
        for (const { rows, groups: keys, key_bytes, payload_bytes } of groups.workloads) {
            expect(keys).toBeLessThanOrEqual(rows);
            expect(rows * (key_bytes + sum(payload_bytes))).toBeLessThan(2 ** 34);
        }
    });

    test("are joins of every type, with columns of the sides that their results have", () => {
        const types = new Set(joins.workloads.map(({ type = "inner" }) => type));
        expect([...types].sort()).toEqual([...joinTypes].sort());
        for (const { name, type = "inner", payload_bytes } of joins.workloads) {
            const { build, probe } = payload_bytes;
            if (["semi", "anti"].includes(type)) expect(build).toEqual([]);
            if (["right-semi", "right-anti"].includes(type)) expect(probe).toEqual([]);
            expect(name.endsWith(`, ${type}`)).toBe(type !== "inner");
        }
        const fitted = joins.workloads.filter(({ name, type }) => type !== undefined && useOf(name) === "fit");
        expect(new Set(fitted.map(({ type }) => type)).size).toBe(joinTypes.length - 1);
        const drawn = (types: string[]) => drawnWorkloads({ operator: "join", drawn: [{ seed: 3, cells: 9, types }] });
        const [inner, outer] = [drawn(["inner"]), drawn(["full"])];
        expect(outer).toEqual(inner.map(({ name, ...cell }) => ({ ...cell, name: `${name}, full`, type: "full" })));
    });

    test("say how many groups their rows are expected to have", () => {
        expect(groupsMet(1e9, 1000, 0)).toBe(1000);
        expect(groupsMet(1, 1000, 1)).toBe(1);
        expect(groupsMet(1000, 1000, 0)).toBe(Math.round(1000 * (1 - Math.exp(-1))));
        expect(groupsMet(1e9, 1e7, 0, 1)).toBe(1);
        // So many rows had 1,943 groups on an H200.
        expect(Math.abs(groupsMet(2 ** 21, 2 ** 14, 2) - 1943)).toBeLessThan(50);
        for (const { groups: possible, expected_groups } of groups.workloads) {
            expect(expected_groups).toBeGreaterThanOrEqual(1);
            expect(expected_groups).toBeLessThanOrEqual(possible);
        }
    });

    test("are for fits by one half of the grid, and for judging them by all others", () => {
        const uses = [...joins.workloads, ...groups.workloads].map(({ name }) => useOf(name));
        const fits = uses.filter((use) => use === "fit").length;
        expect(fits).toBe((80 + 56 + 60) / 2);
        expect(uses.filter((use) => use === "judge")).toHaveLength(uses.length - fits);
        expect(useOf("wide 2+2, 2^27 x 2^27")).toBeUndefined();
    });
});

const rows = 2 ** 27;

function record(name: string, algorithm: string, median_ms: number, match_ratio = 1) {
    return {
        experiment: "in-core-grid",
        workload: {
            name,
            key_bytes: 4,
            payload_bytes: { build: [4, 4], probe: [4, 4] },
            ...{ build_rows: rows, probe_rows: rows, match_ratio, zipf: 0 }
        },
        algorithm,
        median_ms,
        phases: { transform_ms: median_ms / 2, match_ms: median_ms / 4, materialize_ms: median_ms / 4 },
        rows_out: rows * match_ratio,
        verified: true,
        device: "NVIDIA H200"
    };
}

describe("the programs", () => {
    const run = (program: string, ...args: string[]) =>
        spawnSync(process.execPath, [join(repositoryRoot, "test/bench", program), ...args], { encoding: "utf8" });
    const written = (sandbox: Sandbox, records: object[]): string => {
        const file = sandbox.path("results.json");
        writeFileSync(file, JSON.stringify(records));
        return file;
    };
    // The figures alone, so that what is fitted to the real grid does not change what is expected here.
    const plain = (sandbox: Sandbox): string => {
        const text = readFileSync(join(repositoryRoot, "configs/machines/h200.yaml"), "utf8");
        const file = sandbox.path("plain.yaml");
        writeFileSync(file, text.replace(/^device_algorithms:[^]*/m, ""));
        return file;
    };

    test("say how often the pick is good, and end with 1 if that is too seldom", () => {
        using sandbox = new Sandbox();
        const profile = ["--profile", plain(sandbox)];
        const good = [record("wide", "phj-tr", 7), record("wide", "phj-ur", 17), record("wide", "smj-ur", 22)];
        const near = [record("near", "phj-tr", 7), record("near", "phj-ur", 6.5)];
        const alone = [record("alone", "phj-tr", 7), { ...record("alone", "phj-ur", 1), verified: false }];
        const all = run("planner-picks.mjs", ...profile, "--results", written(sandbox, [...good, ...near, ...alone]));
        expect([all.status, all.stderr]).toEqual([
            0,
            expect.stringMatching(/^2 of 2 picks are within 10 % .* 0 beyond/)
        ]);
        expect(all.stdout).toMatch(/^near +phj-tr +7\.000 ms, predicted +\d\.\d+ +8 % over phj-ur$/m);
        const bad = [...good, record("bad", "phj-tr", 9), record("bad", "npj", 2)];
        const some = run("planner-picks.mjs", ...profile, "--results", written(sandbox, bad), "--json");
        expect([some.status, some.stderr]).toEqual([1, expect.stringMatching(/^1 of 2 picks .* 1 beyond 30 %/)]);
        expect(JSON.parse(some.stdout)).toMatchObject([
            { name: "wide", pick: "phj-tr", best: "phj-tr", good: true },
            { name: "bad", pick: "phj-tr", best: "npj", best_ms: 2, good: false }
        ]);
        expect(run("planner-picks.mjs", ...profile, "--results", written(sandbox, bad), "--least", "0.5").status).toBe(
            0
        );
        expect(run("planner-picks.mjs", "--results", written(sandbox, alone)).status).toBe(2);
        expect(run("planner-picks.mjs", "--results", sandbox.path("none.json")).status).toBe(2);
    });

    test("write down what is predicted and picked", () => {
        using sandbox = new Sandbox();
        const cell = [record("grid 1.1: wide", "phj-tr", 7), record("grid 1.1: wide", "phj-ur", 14)];
        const results = written(sandbox, [...cell, record("alone", "smj-ur", 3)]);
        const args = ["--profile", plain(sandbox), "--results", results, "--write"];
        const { status, stderr } = run("planner-picks.mjs", ...args);
        expect([status, stderr]).toEqual([0, expect.stringMatching(/\nof cells that no model is fitted to, 1 of 1/)]);
        const predicted_ms: unknown = expect.any(Number);
        expect(JSON.parse(readFileSync(results, "utf8"))).toEqual([
            { ...cell[0], predicted_ms, picked: true, ratio: 1 },
            { ...cell[1], predicted_ms, picked: false, ratio: 2 },
            record("alone", "smj-ur", 3)
        ]);
    });

    test("fit a profile, by which the fastest algorithm is then picked", () => {
        using sandbox = new Sandbox();
        const ratios = [1, 0.5, 0.25];
        const cells = ratios.map((ratio) => [
            record(`match ${ratio}`, "phj-tr", 30 + ratio, ratio),
            record(`match ${ratio}`, "phj-ur", 2 + 5 * ratio, ratio)
        ]);
        const results = written(sandbox, cells.flat());
        const profile = plain(sandbox);
        const before = run("planner-picks.mjs", "--profile", profile, "--results", results);
        expect(before.status).toBe(1);
        const printed = run("fit-profile.mjs", "--profile", profile, "--results", results);
        expect([printed.status, printed.stdout]).toEqual([0, expect.stringMatching(/^ {4}phj-ur:$/m)]);
        expect(run("fit-profile.mjs", "--profile", profile, "--results", results, "--write").status).toBe(0);
        const fits = readProfileFile(profile).gpu?.deviceAlgorithms;
        expect(Object.keys(fits ?? {})).toEqual(["phj-tr", "phj-ur"]);
        const after = run("planner-picks.mjs", "--profile", profile, "--results", results);
        expect([after.status, after.stderr]).toEqual([0, expect.stringMatching(/^3 of 3 picks are within 10 %/)]);
        const once = readFileSync(profile, "utf8");
        run("fit-profile.mjs", "--profile", profile, "--results", results, "--write");
        expect(readFileSync(profile, "utf8")).toBe(once);
        expect(run("fit-profile.mjs", "--results", written(sandbox, [])).status).toBe(2);
    });
});
