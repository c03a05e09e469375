// SPDX-License-Identifier: Apache-2.0
// What a progress bar and a report say of each stage, from counters that grow over all of them.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ProgressTracker } from "../../../src/execute/progress-tracker.js";
import type { Progress } from "../../../src/model/progress.js";
import type { Plan, PlanStage } from "../../../src/plan/plan.js";

beforeEach(() => {
    vi.useFakeTimers();
    vi.advanceTimersByTime(1000); // a query that begins when the process does would hide whose time is told
});
afterEach(() => void vi.useRealTimers());

const stage = (kind: string, more = {}) =>
    ({ kind, name: kind, algorithm: "a", rowsIn: 100, predictedMs: 50, ...more }) as unknown as PlanStage;

function planOf(stages: PlanStage[], device = "gpu"): Plan {
    return { inputs: [], stages, predictedMs: 50 * stages.length, memory: {}, device } as unknown as Plan;
}

/** A tracker whose counters the test sets; `listens`: whether somebody wants its progress. */
function tracked(listens = true) {
    const counters = { rowsIn: 0, bytesIn: 0, rowsOut: 0, bytesOut: 0, spilledBytes: 0, unspilledBytes: 0 };
    const state = { ...counters, partitionsDone: 0 };
    const states: Progress[] = [];
    const read = vi.fn(() => ({ ...state }));
    const tracker = new ProgressTracker(read, listens ? (progress) => states.push(progress) : undefined);
    return { tracker, state, states, read };
}

describe("a report", () => {
    /** A join on the GPU: 10 ms of upload, 20 of work, 5 of delivery. */
    function joinOn(device: string) {
        const { tracker, state } = tracked();
        const stages = [stage("upload"), stage("deviceJoin"), stage("deliver")];
        const plan = planOf(stages, device);
        tracker.begin(plan);
        tracker.stageBegins(stages[0]!);
        tracker.uploaded(3e6);
        tracker.uploaded(1e6);
        tracker.sent(2e6);
        tracker.sent(1e6);
        vi.advanceTimersByTime(10);
        tracker.stageEnds(100);
        tracker.stageBegins(stages[1]!);
        tracker.operated({ elapsedMs: 19, peakBytes: 5 });
        state.bytesOut = 1000;
        vi.advanceTimersByTime(20);
        tracker.stageEnds(80);
        tracker.stageBegins(stages[2]!);
        state.bytesOut = 2_001_000;
        vi.advanceTimersByTime(5);
        tracker.sent(1.5e6);
        tracker.delivered(7);
        tracker.stageEnds(80);
        return tracker.runReport(plan, 80, 0, 9);
    }

    test("says of copies how much they moved and how fast, and sets them apart from the rest", () => {
        const report = joinOn("gpu");
        expect(report).toMatchObject({ elapsedMs: 35, transferMs: 15, withoutTransferMs: 20 });
        expect(report).toMatchObject({ uploadedBytes: 4e6, downloadedBytes: 2_001_000, devicePieces: 7 });
        expect(report.stages.map(({ actualMs }) => actualMs)).toEqual([10, 20, 5]);
        expect(report.stages.map(({ device }) => device)).toEqual([
            { elapsedMs: 10, movedBytes: 4e6, gigabytesPerSecond: 0.4, sentBytes: 3e6 },
            { elapsedMs: 19, peakBytes: 5 },
            { elapsedMs: 5, movedBytes: 2e6, gigabytesPerSecond: 0.4, sentBytes: 1.5e6 }
        ]);
    });

    test("says of copies of nothing that nothing was sent, whatever is told between stages", () => {
        const { tracker } = tracked();
        const stages = [stage("upload"), stage("deviceJoin"), stage("deliver")];
        const plan = planOf(stages);
        tracker.begin(plan);
        for (const each of stages) {
            tracker.sent(77);
            tracker.stageBegins(each);
            vi.advanceTimersByTime(10);
            tracker.stageEnds(0);
        }
        tracker.sent(77);
        const nothing = { elapsedMs: 10, movedBytes: 0, gigabytesPerSecond: 0, sentBytes: 0 };
        const { stages: told } = tracker.runReport(plan, 0, 0);
        expect(told.map(({ device }) => device)).toEqual([nothing, undefined, nothing]);
        // A query that is planned again begins anew.
        tracker.begin(plan);
        expect(tracker.runReport(plan, 0, 0)).toMatchObject({ stages: [], uploadedBytes: 0 });
    });

    test("of the CPU engine has no figures of a GPU", () => {
        expect(joinOn("cpu")).toMatchObject({ uploadedBytes: 0, downloadedBytes: 0, devicePieces: 0 });
    });

    test("gives each stage what it added, and the planned rows where it counted none", () => {
        const { tracker, state } = tracked();
        const stages = [stage("partition"), stage("partition"), stage("join", { rowsIn: 33 })];
        const plan = planOf(stages, "cpu");
        tracker.begin(plan);
        const added = [
            { rowsIn: 40, spilledBytes: 1000 },
            { rowsIn: 7, spilledBytes: 500 },
            { rowsIn: 0, spilledBytes: 0 }
        ];
        added.forEach(({ rowsIn, spilledBytes }, i) => {
            tracker.stageBegins(stages[i]!);
            state.rowsIn += rowsIn;
            state.spilledBytes += spilledBytes;
            tracker.stageEnds(i);
        });
        const { stages: told, spilledBytes } = tracker.runReport(plan, 2, 0);
        expect(spilledBytes).toBe(1500);
        expect(told).toMatchObject([
            { rowsIn: 40, spilledBytes: 1000, rowsOut: 0 },
            { rowsIn: 7, spilledBytes: 500, rowsOut: 1 },
            { rowsIn: 33, spilledBytes: 0, rowsOut: 2 }
        ]);
        expect(told.every((each) => !("device" in each))).toBe(true);
    });

    test("has no stage that did not begin, nor what is told between stages", () => {
        const { tracker } = tracked();
        const plan = planOf([stage("upload")]);
        tracker.begin(plan);
        tracker.stageVisits(4);
        tracker.uploaded(10);
        tracker.operated({ elapsedMs: 1 });
        tracker.stageEnds(1);
        expect(tracker.runReport(plan, 1, 0)).toMatchObject({ uploadedBytes: 10, stages: [] });
    });
});

describe("progress", () => {
    test("is that of the stage, from where the one before ended", () => {
        const { tracker, state, states } = tracked();
        const stages = [stage("partition"), stage("join", { rowsIn: 60 })];
        tracker.begin(planOf(stages));
        tracker.stageBegins(stages[0]!);
        tracker.stageVisits(10);
        Object.assign(state, { rowsIn: 100, bytesIn: 800, spilledBytes: 300, partitionsDone: 10 });
        tracker.stageEnds(100);
        tracker.stageBegins(stages[1]!);
        tracker.stageVisits(4);
        Object.assign(state, { rowsIn: 115, bytesIn: 1000, rowsOut: 9, partitionsDone: 12 });
        vi.advanceTimersByTime(100);
        const figures = { rows: 15, totalRows: 60, bytes: 200, spilledBytes: 300, rowsOut: 9 };
        // Half of the second stage's partitions, further than its rows.
        expect(states.at(-1)).toEqual({
            ...{ ...figures, phase: "join", fraction: 0.75, elapsedMs: 100, done: false },
            etaMs: expect.closeTo(100 / 3, 9) as number
        });
        tracker.stageEnds(9);
        tracker.end(true);
        expect(states.at(-1)).not.toHaveProperty("totalRows");
    });

    test("tells the time that is left from a fiftieth on", () => {
        const { tracker, state, states } = tracked();
        const only = stage("join", { predictedMs: 100 });
        tracker.begin({ ...planOf([only]), predictedMs: 100 });
        tracker.stageBegins(only);
        state.rowsIn = 1;
        vi.advanceTimersByTime(100);
        state.rowsIn = 2;
        vi.advanceTimersByTime(100);
        expect(states.map(({ fraction, etaMs }) => [fraction, etaMs])).toEqual([
            [0, null],
            [0.01, null],
            [0.02, 9800]
        ]);
    });

    test("is told by one timer, until the end, and none runs where nobody listens", () => {
        const { tracker, states } = tracked();
        const plan = planOf([stage("join")]);
        tracker.begin(plan);
        tracker.begin(plan);
        expect(vi.getTimerCount()).toBe(1);
        vi.advanceTimersByTime(300);
        expect(states.map(({ phase, totalRows }) => [phase, totalRows])).toEqual(Array(3).fill(["start", undefined]));
        tracker.end(false);
        expect(vi.getTimerCount()).toBe(0);
        const silent = tracked(false);
        silent.tracker.begin(plan);
        expect(vi.getTimerCount()).toBe(0);
        silent.tracker.stageBegins(plan.stages[0]!);
        silent.tracker.stageEnds(1);
        silent.tracker.end(true);
        // Once as the stage begins, once as it ends.
        expect(silent.read).toHaveBeenCalledTimes(2);
    });

    test("goes on where the engine has no figures any more: the stage has added none, not less", () => {
        const { tracker, state, states, read } = tracked();
        const stages = [stage("partition"), stage("join")];
        tracker.begin(planOf(stages));
        read.mockImplementationOnce(() => {
            throw new Error("not yet");
        });
        vi.advanceTimersByTime(100);
        tracker.stageBegins(stages[0]!);
        Object.assign(state, { rowsIn: 50, bytesIn: 400 });
        tracker.stageEnds(50);
        tracker.stageBegins(stages[1]!);
        state.rowsIn = 70;
        vi.advanceTimersByTime(100);
        read.mockImplementation(() => {
            throw new Error("closed");
        });
        vi.advanceTimersByTime(100);
        expect(states.map(({ fraction, rows, bytes }) => [fraction, rows, bytes])).toEqual([
            [0, 0, 0],
            [0, 0, 0],
            [0.5, 0, 0],
            [0.6, 20, 0],
            [0.6, 0, 0]
        ]);
    });
});
