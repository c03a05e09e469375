// SPDX-License-Identifier: Apache-2.0
import type { Query, RunReport, StageReport } from "../../index.js";
import { formatBytes, formatCount, formatDuration, formatRough } from "./quantities.js";

/** "1,000,000 rows in 250 ms (44 M input rows/s), spilled 120 MiB, engine peak 60 MiB of 61 MiB granted". */
export function summaryOf(report: RunReport): string {
    const rate = report.elapsedMs > 0 ? (report.rowsIn / report.elapsedMs) * 1000 : 0;
    const onGpu = `uploaded ${formatBytes(report.uploadedBytes)}, GPU peak ${formatBytes(report.devicePeakBytes)}`;
    const pieces = report.devicePieces > 0 ? `, result in ${formatCount(report.devicePieces)} pieces` : "";
    const without = report.device === "gpu" ? `, ${formatDuration(report.withoutTransferMs)} without transfers` : "";
    const spilled = report.spilledBytes > 0 ? `spilled ${formatBytes(report.spilledBytes)}` : "nothing spilled";
    const rows = `${formatCount(report.rowsOut)} ${report.rowsOut === 1 ? "row" : "rows"}`;
    return [
        `${rows} in ${formatDuration(report.elapsedMs)}${without} (${formatRough(rate)} input rows/s)`,
        report.device === "gpu" ? onGpu + pieces : spilled,
        `engine peak ${formatBytes(report.peakBytes)} of ${formatBytes(report.budgetBytes)} granted`
    ].join(", ");
}

function stageLine({ name, device }: StageReport): string[] {
    if (device === undefined) return [];
    const { algorithm, ranAs, chosenBy, phases, movedBytes, gigabytesPerSecond = 0 } = device;
    const took = `${formatDuration(device.elapsedMs)} on the GPU`;
    const rate = movedBytes === undefined ? "" : `${formatBytes(movedBytes)}, ${formatRough(gigabytesPerSecond)} GB/s`;
    if (algorithm === undefined) return [`  ${name}: ${formatDuration(device.elapsedMs)}, ${rate}`];
    // A join out of core: what it moved is what the link carried.
    if (phases === undefined) return [`  ${name}: ${algorithm} (${chosenBy}), ${took}; link ${rate}`];
    const parts = [
        `transform ${formatDuration(phases.transformMs)}`,
        `match ${formatDuration(phases.matchMs)}`,
        `materialize ${formatDuration(phases.materializeMs)}`
    ].join(", ");
    const which = `${algorithm}${ranAs === undefined ? "" : `, which gave way to ${ranAs}`} (${chosenBy})`;
    return [`  ${name}: ${which}, ${took}: ${parts}${rate === "" ? "" : `; moved ${rate}`}`];
}

/**
 * A line for each stage that worked on the GPU: "join: phj-tr (planner), 2.9 ms on the GPU: transform 1.7 ms, match 1.1
 * ms, materialize 0.1 ms; moved 5.9 GiB, 2.2 k GB/s".
 */
export function deviceLines(report: RunReport): string[] {
    return report.stages.flatMap(stageLine);
}

/** The same of a query's last whole run; null when it was left early. */
export function runSummary(query: Query): string[] | null {
    const report = query.report();
    return report == null ? null : [summaryOf(report), ...deviceLines(report)];
}
