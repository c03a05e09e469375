// SPDX-License-Identifier: Apache-2.0
// What reports make of the figures that operations on the GPU measure.
import { expect, test } from "vitest";
import {
    copyReport,
    operationReport,
    outOfCoreGroupReport,
    outOfCoreReport,
    outOfCoreTreeReport,
    uploadedBytes
} from "../../../src/execute/run-report.js";

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

test("a copy of nothing sent nothing, and what did not pack may take a header more than it is", () => {
    expect(copyReport(1, 0, 0)).toEqual({ elapsedMs: 1, movedBytes: 0, gigabytesPerSecond: 0, sentBytes: 0 });
    expect(copyReport(1, 8192, 8208)).toMatchObject({ movedBytes: 8192, sentBytes: 8208 });
});

test("operations out of core moved what crossed the link, and tell apart what packed values saved of it", () => {
    const told = { ...{ h2dBytes: 3e6, savedBytes: 5e6, d2hBytes: 1e6 }, rows: 5, peakBytes: 99 };
    const joined = { ...told, buildMs: 1, probeMs: 1, spilledMs: 0 };
    const named = { joinAlgorithm: "staged", chosenBy: "planner", path: { runs: "staged" }, predicted: {} };
    const saved = { h2dBytes: 3e6, savedBytes: 5e6, d2hBytes: 1e6 };
    expect(outOfCoreReport(named as never, joined as never)).toMatchObject({ movedBytes: 4e6, outOfCore: saved });
    const grouped = { ...told, readMs: 1, residentMs: 1, spilledMs: 0 };
    const group = outOfCoreGroupReport({ predicted: {} } as never, grouped as never);
    expect(group).toMatchObject({ movedBytes: 4e6, outOfCoreGroupBy: saved });
    const nothing = { ...joined, h2dBytes: 0, savedBytes: 0, d2hBytes: 0 };
    expect(outOfCoreReport(named as never, nothing as never)).toMatchObject({ movedBytes: 0, gigabytesPerSecond: 0 });
});

test("a tree moved and saved what its operators did together, each of which says its own", () => {
    const operator = (h2dBytes: number, savedBytes: number, more: object) => ({
        ...{ h2dBytes, savedBytes, d2hBytes: 10, rows: 1, peakBytes: h2dBytes, ...more }
    });
    const operators = [
        operator(0, 0, { spilledBytes: 0 }),
        operator(1000, 300, { spilledBytes: { build: 100, probe: 50 } }),
        operator(2000, 0, { spilledBytes: 700 })
    ];
    const stage = { predicted: { h2dBytes: 1 }, operators: ["group", "join", "group"].map((kind) => ({ kind })) };
    const { outOfCoreTree, ...report } = outOfCoreTreeReport(stage as never, { rows: 1, operators } as never, 2);
    expect(report).toMatchObject({ elapsedMs: 2, movedBytes: 3030, peakBytes: 2000 });
    expect(outOfCoreTree).toMatchObject({ h2dBytes: 3000, savedBytes: 300, d2hBytes: 30, predicted: { h2dBytes: 1 } });
    const each = outOfCoreTree?.operators.map((one) => [one.kind, one.h2dBytes, one.savedBytes]);
    expect(each).toEqual([
        ["group", 0, 0],
        ["join", 1000, 300],
        ["group", 2000, 0]
    ]);
    // What came back had been uploaded before.
    expect(uploadedBytes({ rows: 1, operators: operators.slice(0, 1) } as never)).toBe(0);
});
