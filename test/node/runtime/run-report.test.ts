// SPDX-License-Identifier: Apache-2.0
// What reports make of the figures that operations on the GPU measure.
import { expect, test } from "vitest";
import { copyReport, operationReport, outOfCoreGroupReport, outOfCoreReport } from "../../../src/execute/run-report.js";

const phases = { transformMs: 1, matchMs: 2, materializeMs: 3 };

test("a copy has a rate, unless it took no time, and says what crossed the link", () => {
    const copied = { movedBytes: 6e6, sentBytes: 4e6 };
    expect(copyReport(2, 6e6, 4e6)).toEqual({ elapsedMs: 2, ...copied, gigabytesPerSecond: 3 });
    expect(copyReport(0, 6e6, 4e6)).toEqual({ elapsedMs: 0, ...copied, gigabytesPerSecond: 0 });
});

test("an operation says what it gave way to, and moved nothing where nothing was counted", () => {
    const measured = { ...phases, elapsedMs: 4, movedBytes: 8e6, peakBytes: 77 };
    const report = { algorithm: "hgb", chosenBy: "planner", elapsedMs: 4, phases, peakBytes: 77 };
    const moved = { movedBytes: 8e6, gigabytesPerSecond: 2 };
    expect(operationReport("hgb", "planner", "hgb", measured)).toEqual({ ...report, ...moved });
    expect(operationReport("hgb", "planner", undefined, measured)).toEqual({ ...report, ...moved });
    expect(operationReport("hgb", "planner", "pgb-tr", measured)).toEqual({ ...report, ...moved, ranAs: "pgb-tr" });
    expect(operationReport("hgb", "planner", "hgb", { ...measured, movedBytes: 0 })).toEqual(report);
});

test("operations out of core took the sum of their parts, and moved what crossed the link both ways", () => {
    const counted = { h2dBytes: 10e6, d2hBytes: 20e6, partitions: 4 };
    const common = { elapsedMs: 6, movedBytes: 30e6, gigabytesPerSecond: 5, peakBytes: 99 };
    const joined = { ...counted, buildMs: 1, probeMs: 2, spilledMs: 3 };
    const named = { joinAlgorithm: "triton", chosenBy: "user" };
    const joinStage = { predicted: { h2dBytes: 1 }, path: { runs: "coherent", wanted: "staged" }, ...named };
    expect(outOfCoreReport(joinStage as never, { ...joined, rows: 5, peakBytes: 99 } as never)).toEqual({
        ...{ algorithm: "triton", chosenBy: "user" },
        ...common,
        outOfCore: { ...joined, path: "coherent", predicted: { h2dBytes: 1 } }
    });
    const grouped = { ...counted, readMs: 1, residentMs: 2, spilledMs: 3 };
    const groupStage = { predicted: { h2dBytes: 2 } };
    expect(outOfCoreGroupReport(groupStage as never, { ...grouped, rows: 5, peakBytes: 99 } as never)).toEqual({
        ...common,
        outOfCoreGroupBy: { ...grouped, predicted: { h2dBytes: 2 } }
    });
    expect(outOfCoreReport(joinStage as never, { ...joined, buildMs: 0, probeMs: 0, spilledMs: 0 } as never)).toEqual(
        expect.objectContaining({ elapsedMs: 0, gigabytesPerSecond: 0 })
    );
});
