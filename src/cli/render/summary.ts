// SPDX-License-Identifier: Apache-2.0
import type { Query, RunReport } from "../../index.js";
import { formatBytes, formatCount, formatDuration, formatRough } from "./quantities.js";

/** "1,000,000 rows in 250 ms (44 M input rows/s), spilled 120 MiB, engine peak 60 MiB of 61 MiB granted". */
export function summaryOf(report: RunReport): string {
    const rate = report.elapsedMs > 0 ? (report.rowsIn / report.elapsedMs) * 1000 : 0;
    const onGpu = `uploaded ${formatBytes(report.uploadedBytes)}, GPU peak ${formatBytes(report.devicePeakBytes)}`;
    const pieces = report.devicePieces > 0 ? `, result in ${formatCount(report.devicePieces)} pieces` : "";
    const spilled = report.spilledBytes > 0 ? `spilled ${formatBytes(report.spilledBytes)}` : "nothing spilled";
    const rows = `${formatCount(report.rowsOut)} ${report.rowsOut === 1 ? "row" : "rows"}`;
    return [
        `${rows} in ${formatDuration(report.elapsedMs)} (${formatRough(rate)} input rows/s)`,
        report.device === "gpu" ? onGpu + pieces : spilled,
        `engine peak ${formatBytes(report.peakBytes)} of ${formatBytes(report.budgetBytes)} granted`
    ].join(", ");
}

/** The same of a query's last whole run; null when it was left early. */
export function runSummary(query: Query): string | null {
    const report = query.report();
    return report == null ? null : summaryOf(report);
}
