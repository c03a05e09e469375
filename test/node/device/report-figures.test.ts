// SPDX-License-Identifier: Apache-2.0
// What a report says of every stage on the GPU, for every algorithm and type of join, and that no query of a runtime
// with device "gpu" is run by the CPU engine instead.
import { groupByAlgorithms, type JoinType, type Query, type RunReport } from "spillway";
import { describe, expect, test } from "vitest";
import { loadProfile } from "../../../src/machine/profile.js";
import { withRuntime } from "../../support/gpu-runtime.js";
import { useGpu } from "../../support/gpu.js";
import { count, joined, keyed, onGpu } from "../../support/named-joins.js";
import { tableJoins } from "../../support/table-joins.js";

useGpu();

const joinTypes: readonly JoinType[] = ["inner", "left", "right", "full", "semi", "anti"];
const [left, right] = [keyed(count(300)), keyed(count(900, (i) => i % 400))];

/** The figures that every report of a query on the GPU has. */
function expectFigures(report: RunReport | undefined): void {
    if (report === undefined) throw new Error("no report");
    expect(report).toMatchObject({ device: "gpu", deviceReason: null });
    expect(report.elapsedMs).toBeGreaterThan(0);
    expect(report.withoutTransferMs).toBeCloseTo(report.elapsedMs - report.transferMs);
    expect(report.devicePeakBytes).toBeGreaterThan(0);
    expect(report.uploadedBytes).toBeGreaterThan(0);
    // The prediction stands beside what was measured, of each stage and of the query.
    for (const { name, predictedMs, actualMs } of report.stages) {
        expect(predictedMs, name).toBeGreaterThan(0);
        expect(actualMs, name).toBeGreaterThanOrEqual(0);
    }
    const { deviceQueryStartMs } = loadProfile();
    expect(report.predictedMs).toBeCloseTo(
        report.stages.reduce((ms, { predictedMs }) => ms + predictedMs, deviceQueryStartMs)
    );
    const actualMs = report.stages.reduce((sum, stage) => sum + stage.actualMs, 0);
    expect(actualMs).toBeGreaterThan(0);
    expect(actualMs).toBeLessThanOrEqual(report.elapsedMs + 1);
}

/** Of the query's one join or group-by. */
async function expectOperation(query: Query, algorithm: string): Promise<void> {
    await query.toTable();
    const report = query.report();
    expectFigures(report);
    const operation = report?.stages.find(({ device }) => device?.algorithm !== undefined)?.device;
    if (algorithm !== "auto") expect(operation?.algorithm).toBe(algorithm);
    expect(operation?.phases).toBeDefined();
    expect(operation?.peakBytes).toBeGreaterThan(0);
}

describe("reports tell what was predicted beside what it took", () => {
    test.each(tableJoins)("of all types of join by %s", async (algorithm) => {
        await withRuntime(onGpu, async (runtime) => {
            for (const type of joinTypes) {
                await expectOperation(joined(runtime, left, right, algorithm, type), algorithm);
            }
        });
    });

    test.each(groupByAlgorithms)("of group-bys by %s", async (algorithm) => {
        await withRuntime(onGpu, async (runtime) => {
            const aggregates = {
                ...{ rows: { count: "*" }, sum: { sum: "v" }, least: { min: "v" }, most: { max: "v" } },
                ...{ mean: { mean: "v" }, values: { countDistinct: "v" }, first: { first: "v" } }
            } as const;
            const query = runtime.groupBy(runtime.fromTable(right), { keys: ["k"], aggregates, algorithm });
            await expectOperation(query, algorithm);
        });
    });

    test("of the CPU engine too", async () => {
        await withRuntime({ device: "cpu" }, async (runtime) => {
            const query = joined(runtime, left, right, "auto");
            await query.toTable();
            const report = query.report();
            expect(report).toMatchObject({ device: "cpu", transferMs: 0, devicePeakBytes: 0 });
            for (const { predictedMs, actualMs } of report?.stages ?? []) {
                expect(predictedMs).toBeGreaterThan(0);
                expect(actualMs).toBeGreaterThanOrEqual(0);
            }
            expect(report?.stages.length).toBeGreaterThan(0);
        });
    });
});
