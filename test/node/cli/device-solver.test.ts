// SPDX-License-Identifier: Apache-2.0
// Figures of a GPU are found again from the phases that the planner predicts with them.
import { expect, test } from "vitest";
import { DeviceSolver, keyRepeats, type DeviceRuns } from "../../../src/cli/calibrate/device-solver.js";
import { Lab, type Phases } from "../../../src/cli/calibrate/lab.js";
import type { Query, Runtime } from "../../../src/index.js";
import { deviceFigures, loadProfile, type DeviceSpeeds } from "../../../src/machine/profile.js";
import type { DeviceGroupAlgorithm, DeviceJoinAlgorithm } from "../../../src/model/algorithms.js";
import { chooseDeviceGroupBy, chooseDeviceJoin } from "../../../src/planner/device-cost/choose-algorithm.js";
import type { DeviceJoinShape } from "../../../src/planner/device-cost/shapes.js";

const rows = 2 ** 24;
const fewRows = 1000;

/** What the planner predicts for the queries of the calibration on a GPU of these speeds. */
class PredictedRuns {
    constructor(private readonly speeds: DeviceSpeeds) {}

    join(algorithm: DeviceJoinAlgorithm, more: Partial<DeviceJoinShape> = {}): Phases {
        const { buildRows = rows, probeRows = rows } = more;
        const keys = { keyBytes: 4, uniqueBuildKeys: true, buildRowsPerKey: 1, buildKeyRange: null, arrayKeys: false };
        const shape = {
            pairs: probeRows,
            ...{ matchRatio: 1, buildMatchRatio: 1, emit: "pairs" as const },
            inRangeShare: 1,
            keepsBuild: false,
            keepsProbe: false,
            ...keys
        };
        const columns = { buildPayload: [4, 4], probePayload: [4, 4] };
        const heaviest = { buildHeaviestShare: 0, probeHeaviestShare: 0, algorithms: [algorithm] };
        const all = { buildRows, probeRows, ...shape, ...columns, ...heaviest, ...more };
        return this.#phases(chooseDeviceJoin(all, this.speeds));
    }

    count(algorithm: DeviceJoinAlgorithm, buildRows: number, probeRows: number, repeats = 1): Phases {
        const keys = { buildPayload: [], probePayload: [], counted: true, uniqueBuildKeys: repeats === 1 };
        return this.join(algorithm, { ...keys, buildRows, probeRows, pairs: probeRows * repeats });
    }

    group(algorithm: DeviceGroupAlgorithm, values: number[], extremes: boolean): Phases {
        const keyBytes = values[0]!;
        const shape = { rows, groups: 1000, keyBytes, values, extremes, narrow: extremes, sorted: false };
        const all = { ...shape, heaviestShare: 0.001, algorithms: [algorithm] };
        return this.#phases(chooseDeviceGroupBy(all, this.speeds));
    }

    accesses(buildRows: number, probeRows: number) {
        const [fewProbes, manyProbes] = [fewRows, probeRows].map((probes) => this.count("npj", buildRows, probes));
        return { buildRows, probeRows, fewProbes, manyProbes };
    }

    all(): DeviceRuns {
        return {
            start: this.count("npj", fewRows, fewRows),
            phjTr: this.join("phj-tr"),
            smjUr: this.join("smj-ur"),
            smjTr: this.join("smj-tr"),
            smjMerge: this.join("smj-merge"),
            counted: this.count("phj-tr", rows, rows),
            repeated: this.count("phj-tr", rows, rows / keyRepeats, keyRepeats),
            near: this.accesses(rows / 16, rows),
            far: this.accesses(rows * 4, rows * 4),
            extremes: this.group("hgb", [4, 4], true),
            others: this.group("hgb", [8], false),
            partitioned: this.group("pgb-tr", [8], false)
        };
    }

    #phases({ predictedMs }: { predictedMs: { transformMs: number; matchMs: number; materializeMs: number } }): Phases {
        const { transformMs: transform, matchMs: match, materializeMs: materialize } = predictedMs;
        return { transform, match, materialize };
    }
}

const nowhere = [
    "copy",
    "far",
    "stage",
    "open",
    "same",
    "query",
    "input",
    "file",
    "memory_fill",
    "memory_pack",
    "text",
    "deliver",
    "peer",
    "block",
    "cache_"
].map((name) => `device_${name}`);
const told = Object.entries(deviceFigures).filter(([name]) => !nowhere.some((prefix) => name.startsWith(prefix)));

test("speeds of one GPU, and of one that is slower in everything but its cache", () => {
    const given = loadProfile();
    const slower = Object.values(deviceFigures).map((figure, i) => {
        const keeps = ["deviceCacheBytes", "deviceBlockBytes", "deviceLaunchMs"].includes(figure);
        return [figure, keeps ? given[figure] : given[figure] / (2 + (i % 3) / 2)];
    });
    const gpus = [given, { ...given, ...(Object.fromEntries(slower) as Partial<DeviceSpeeds>) }];
    for (const gpu of gpus) {
        const runs = new PredictedRuns({ ...gpu, deviceAlgorithms: {} }).all();
        const base = { device_cache_bytes: { value: gpu.deviceCacheBytes, measured: false } };
        const figures = new DeviceSolver(runs, rows, base).solve();
        expect(Object.keys(figures).sort()).toEqual(told.map(([name]) => name).sort());
        for (const [name, property] of told) {
            expect(figures[name]?.measured).toBe(true);
            // Starts of kernels are in all of the times.
            const ratio = (figures[name]?.value ?? 0) / gpu[property];
            const tolerance = name === "device_chain_steps_per_ms" ? 0.1 : 0.25;
            expect(ratio, name).toBeGreaterThan(1 - tolerance);
            expect(ratio, name).toBeLessThan(1 + tolerance);
        }
    }
});

test("what did not run tells nothing, and noise no speed without end", () => {
    expect(new DeviceSolver({}, rows, {}).solve()).toEqual({});
    const runs = new PredictedRuns({ ...loadProfile(), deviceAlgorithms: {} }).all();
    const { smjTr, far, ...others } = runs;
    void [smjTr, far];
    const some = new DeviceSolver(others, rows, {}).solve();
    expect(some).not.toHaveProperty("device_memory_bytes_per_ms");
    expect(some).not.toHaveProperty("device_random_reads_per_ms");
    const instant = { transform: 1, match: 1e-3, materialize: 1e-3 };
    const noisy = new DeviceSolver({ ...runs, repeated: instant, smjUr: instant }, rows, {}).solve();
    // Less than what the looks of its probe rows take.
    expect(noisy["device_chain_steps_per_ms"]?.value).toBeLessThanOrEqual(rows / 1e-4);
    expect(noisy["device_merge_rows_per_ms"]?.value).toBeLessThanOrEqual((2 * rows) / 1e-4);
    // As many probe rows as a few take no longer.
    const same = { buildRows: rows, probeRows: rows, fewProbes: instant, manyProbes: instant };
    const equal = new DeviceSolver({ near: same, far: same }, rows, {}).solve();
    expect(Object.values(equal)).toHaveLength(4);
    for (const { value } of Object.values(equal)) expect(value).toBeGreaterThan(rows / 10);
    const nothing = { transform: 0, match: 1, materialize: 0 };
    expect(new DeviceSolver({ smjTr: nothing, smjMerge: nothing }, rows, {}).solve()).toEqual({});
});

test("phases are read from the operation of a report, and only of the algorithm that was named", async () => {
    const copy = { name: "upload", device: { elapsedMs: 1, movedBytes: 8 } };
    const phases = { transformMs: 1, matchMs: 2, materializeMs: 0 };
    const lab = new Lab({} as Runtime, new AbortController().signal);
    const of = async (device: object): Promise<Phases | undefined> => {
        const query = {
            count: async () => await Promise.resolve(1),
            report: () => ({ stages: [copy, copy, { name: "count", device }] })
        };
        return await lab.phases(query as unknown as Query, "count");
    };
    expect(await of({ algorithm: "npj", phases })).toEqual({ transform: 1, match: 2, materialize: 0 });
    expect(await of({ algorithm: "hgb", ranAs: "pgb-tr", phases })).toBeUndefined();
    expect(await of({ algorithm: "hgb" })).toBeUndefined();
});
