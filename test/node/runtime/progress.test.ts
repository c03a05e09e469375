// SPDX-License-Identifier: Apache-2.0
// What a progress bar and a report say of the rows of a query's inputs, which its stages count once each.
import { describe, expect, test, vi } from "vitest";
import { ProgressTracker } from "../../../src/execute/progress-tracker.js";
import type { Progress } from "../../../src/model/progress.js";
import type { Plan, PlanStage } from "../../../src/plan/plan.js";

const input = (rows: number, exact = true) => ({ name: "t", rows, exact, bytes: 0, where: "files" });
const stage = (kind: string, rowsIn: number, more = {}) =>
    ({ kind, name: kind, algorithm: "a", rowsIn, predictedMs: 1, ...more }) as unknown as PlanStage;

/** Runs stages that count `rows`, and gives the last progress and the report. */
function track(inputs: object[], stages: [PlanStage, number][]) {
    const plan = { inputs, stages: stages.map(([each]) => each), predictedMs: 1, memory: {} } as unknown as Plan;
    const counters = { bytesIn: 0, rowsOut: 0, bytesOut: 0, spilledBytes: 0, unspilledBytes: 0, partitionsDone: 0 };
    let rowsIn = 0;
    const states: Progress[] = [];
    const tracker = new ProgressTracker(
        () => ({ rowsIn, ...counters }),
        (progress) => states.push(progress)
    );
    tracker.begin(plan);
    for (const [each, rows] of stages) {
        tracker.stageBegins(each);
        rowsIn += rows;
        tracker.stageEnds(1);
    }
    tracker.end(true);
    return { last: states.at(-1)!, report: tracker.runReport(plan, 1, 0) };
}

test("rows that pass through two stages are counted once at the end", () => {
    const stages: [PlanStage, number][] = [
        [stage("partition", 12, { input: 0 }), 12],
        [stage("group", 12), 12]
    ];
    const { last, report } = track([input(12)], stages);
    expect(last).toMatchObject({ done: true, phase: "done", rows: 12 });
    expect(report.rowsIn).toBe(12);
    expect(report.stages.map(({ rowsIn }) => rowsIn)).toEqual([12, 12]);
});

test("rows of a stream are those that came, whatever was expected", () => {
    const stages: [PlanStage, number][] = [
        [stage("partition", 5, { input: 0 }), 5],
        [stage("partition", 1000, { input: 1 }), 7],
        [stage("join", 1005), 12]
    ];
    const { last, report } = track([input(5), input(1000, false)], stages);
    expect(last.rows).toBe(12);
    expect(report.rowsIn).toBe(12);
});

/** A tracker of one plan of two stages, predicted 30 and 10 ms, whose counters the test sets. */
function tracked() {
    const counters = { bytesIn: 0, rowsOut: 0, bytesOut: 0, spilledBytes: 0, unspilledBytes: 0 };
    const state = { rowsIn: 0, partitionsDone: 0 };
    const states: Progress[] = [];
    const tracker = new ProgressTracker(
        () => ({ ...counters, ...state }),
        (progress) => states.push(progress)
    );
    const stages = [stage("partition", 100, { predictedMs: 30 }), stage("join", 100, { predictedMs: 10 })] as const;
    const plan = { inputs: [], stages, predictedMs: 40, memory: {} } as unknown as Plan;
    return { tracker, plan, stages, state, fractions: () => states.map(({ fraction }) => fraction), states };
}

describe("the bar", () => {
    test("moves by rows, by partitions, and by the predicted times of the stages that have ended", () => {
        vi.useFakeTimers();
        try {
            const { tracker, plan, stages, state, fractions } = tracked();
            tracker.begin(plan);
            tracker.stageBegins(stages[0]);
            state.rowsIn = 50;
            vi.advanceTimersByTime(100);
            tracker.stageEnds(0);
            tracker.stageBegins(stages[1]);
            tracker.stageVisits(4);
            state.partitionsDone = 3;
            vi.advanceTimersByTime(100);
            state.partitionsDone = 4;
            vi.advanceTimersByTime(100);
            tracker.end(true);
            vi.advanceTimersByTime(1000);
            expect(fractions()).toEqual([0, 15 / 40, 30 / 40, 37.5 / 40, 0.999, 1]);
        } finally {
            vi.useRealTimers();
        }
    });

    test("never jumps back, though the query is planned again", () => {
        const { tracker, plan, stages, state, fractions, states } = tracked();
        tracker.begin(plan);
        tracker.stageBegins(stages[0]);
        state.rowsIn = 100;
        tracker.stageEnds(0);
        tracker.stageBegins(stages[1]);
        tracker.begin(plan);
        tracker.stageBegins(stages[0]);
        tracker.end(false);
        expect(fractions()).toEqual([0, 0.75, 0.75]);
        expect(states.map(({ done }) => done)).toEqual([false, false, false]);
    });

    test("tells no time that is left before it has moved, and none when it is done", () => {
        const { tracker, plan, stages, states } = tracked();
        tracker.begin(plan);
        tracker.stageBegins(stages[0]);
        tracker.stageEnds(0);
        tracker.stageBegins(stages[1]);
        tracker.end(true);
        expect(states[0]!.etaMs).toBeNull();
        // A quarter is left, which takes a third of the time so far.
        expect(states[1]!.etaMs).toBeCloseTo(states[1]!.elapsedMs / 3, 9);
        expect(states[2]).toMatchObject({ etaMs: 0, fraction: 1, done: true });
    });
});
