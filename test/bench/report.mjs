// SPDX-License-Identifier: Apache-2.0
import { median } from "./measure.mjs";
import { targets } from "./cases.mjs";

const mib = 2 ** 20;

/** A result record in the form every experiment of the project uses; fields that do not apply are left out. */
export function toRecord(benchCase, engine, outcome, setting) {
    const medianMs = median(outcome.samplesMs);
    const rowsIn = 2 * benchCase.rows;
    return {
        experiment: "cpu-join",
        workload: {
            name: benchCase.name,
            left_rows: benchCase.rows,
            right_rows: benchCase.rows,
            key: "int64",
            payload: "int64",
            keys: benchCase.keys,
            foreign_keys: "uniform",
            match_ratio: 1,
            operation: benchCase.operation,
            ...(benchCase.budgetBytes == null ? {} : { budget_bytes: benchCase.budgetBytes }),
            threads: setting.threads
        },
        engine,
        algorithm: outcome.algorithm,
        median_ms: round(medianMs, 3),
        samples_ms: outcome.samplesMs.map((sample) => round(sample, 3)),
        rows_in: rowsIn,
        rows_out: outcome.rowsOut,
        g_tuples_per_s: round(rowsIn / medianMs / 1e6, 5),
        verified: outcome.verified,
        peak_bytes: { host: outcome.peakBytes },
        device: setting.device,
        date: setting.date,
        ...(setting.commit == null ? {} : { commit: setting.commit })
    };
}

function round(value, digits) {
    return Number(value.toFixed(digits));
}

/** Each target with what was measured: what is wanted, what was there, met or not. */
export function judge(cases, recordOf) {
    return cases.flatMap((benchCase) => {
        const spillway = recordOf(benchCase.name, "spillway");
        if (spillway == null) return [];
        const duckdb = recordOf(benchCase.name, "duckdb");
        if (benchCase.budgetBytes == null) {
            if (duckdb == null) return [];
            const ratio = duckdb.median_ms / spillway.median_ms;
            const wanted = `>= ${benchCase.targetRatio}x DuckDB`;
            return [verdict(benchCase.name, wanted, `${ratio.toFixed(2)}x`, ratio >= benchCase.targetRatio)];
        }
        return judgeBudget(benchCase, spillway, recordOf(benchCase.name.replace(" budget/4", ""), "spillway"));
    });
}

function judgeBudget(benchCase, spillway, unlimited) {
    const allowed = benchCase.budgetBytes + targets.rssAllowanceBytes;
    const peak = spillway.peak_bytes.host;
    const verdicts = [
        verdict(
            benchCase.name,
            `RSS <= ${Math.floor(allowed / mib)} MiB`,
            `${Math.ceil(peak / mib)} MiB`,
            peak <= allowed
        )
    ];
    if (unlimited != null) {
        const slowdown = spillway.median_ms / unlimited.median_ms;
        const wanted = `<= ${targets.budgetSlowdownMax}x no budget`;
        verdicts.push(
            verdict(benchCase.name, wanted, `${slowdown.toFixed(2)}x`, slowdown <= targets.budgetSlowdownMax)
        );
    }
    return verdicts;
}

function verdict(name, wanted, measured, met) {
    return { name, wanted, measured, met };
}

/** Lines of a table; the first column is left-aligned. */
export function table(titles, rows) {
    const widths = titles.map((title, index) => Math.max(title.length, ...rows.map((row) => row[index].length)));
    const line = (cells) =>
        cells
            .map((cell, index) => (index === 0 ? cell.padEnd(widths[index]) : cell.padStart(widths[index])))
            .join("  ");
    return [line(titles), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)].join("\n");
}

export function resultTable(cases, recordOf) {
    const rows = cases.flatMap((benchCase) => {
        const [spillway, duckdb] = ["spillway", "duckdb"].map((engine) => recordOf(benchCase.name, engine));
        if (spillway == null && duckdb == null) return [];
        const time = (record) => (record == null ? "-" : `${record.median_ms.toFixed(0)} ms`);
        const peak = (record) => (record == null ? "-" : `${(record.peak_bytes.host / mib).toFixed(0)} MiB`);
        const ratio = spillway && duckdb ? `${(duckdb.median_ms / spillway.median_ms).toFixed(2)}x` : "-";
        const verified = [spillway, duckdb].every((record) => record == null || record.verified) ? "yes" : "NO";
        return [[benchCase.name, time(spillway), time(duckdb), ratio, peak(spillway), peak(duckdb), verified]];
    });
    const titles = ["case", "Spillway", "DuckDB", "faster", "RSS Spillway", "RSS DuckDB", "verified"];
    return table(titles, rows);
}

export function targetTable(verdicts) {
    const rows = verdicts.map(({ name, wanted, measured, met }) => [name, wanted, measured, met ? "met" : "MISSED"]);
    return table(["case", "target", "measured", ""], rows);
}
