// SPDX-License-Identifier: Apache-2.0
// What a progress bar and a report say of the rows of a query's inputs, which its stages count once each.
import { expect, test } from "vitest";
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
