// SPDX-License-Identifier: Apache-2.0
// What the suite found, as records, a table and sentences.
import { deviceName } from "../machine-name.mjs";

const round = (number, digits = 3) => Number(number.toFixed(digits));

/** DuckDB's time by Spillway's, by the clock and by CPU time; undefined without both. */
function ratiosOf({ outcomes }) {
    const [ours, theirs] = ["spillway", "duckdb"].map((engine) => outcomes.find((one) => one.engine === engine));
    if (ours === undefined || theirs === undefined) return undefined;
    return { wall: theirs.medianMs / ours.medianMs, cpu: theirs.medianCpuMs / ours.medianCpuMs };
}

function recordOf(result, outcome, { threads, commit, date }) {
    const { set, query, difference } = result;
    const ratios = outcome.engine === "spillway" ? ratiosOf(result) : undefined;
    const { suite, scale, text, rows } = set;
    const rowsIn = result.outcomes.find(({ rowsIn: read }) => read !== undefined)?.rowsIn;
    return {
        experiment: "cpu-suite",
        workload: {
            ...{ name: query.name, suite, ...(rows === undefined ? { scale, text } : { rows }), result: query.result },
            ...(query.atOnce === undefined ? {} : { at_once: query.atOnce }),
            threads
        },
        ...{ engine: outcome.engine, algorithm: outcome.algorithm ?? "duckdb" },
        ...{ median_ms: round(outcome.medianMs), samples_ms: outcome.samplesMs.map((ms) => round(ms)) },
        ...{ cpu_ms: round(outcome.medianCpuMs), cpu_samples_ms: outcome.cpuSamplesMs.map((ms) => round(ms)) },
        ...(rowsIn === undefined ? {} : { rows_in: rowsIn }),
        ...{ rows_out: outcome.rows, verified: difference === undefined },
        ...(rowsIn === undefined ? {} : { g_tuples_per_s: round(rowsIn / outcome.medianMs / 1e6, 5) }),
        ...(outcome.predictedMs === undefined ? {} : { predicted_ms: round(outcome.predictedMs) }),
        ...(ratios === undefined ? {} : { ratio: round(ratios.wall), cpu_ratio: round(ratios.cpu) }),
        ...{ peak_bytes: { host: outcome.peakBytes }, device: deviceName(), date },
        ...(commit === undefined ? {} : { commit })
    };
}

/** A record for each query and engine. */
export function recordsOf(results, setting) {
    return results.flatMap((result) => result.outcomes.map((outcome) => recordOf(result, outcome, setting)));
}

function table(titles, rows) {
    const widths = titles.map((title, index) => Math.max(title.length, ...rows.map((row) => row[index].length)));
    const line = (cells) =>
        cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join("  ");
    return [line(titles), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)].join("\n");
}

const ms = (value) => (value === undefined ? "-" : value < 10 ? value.toFixed(2) : value.toFixed(0));
const times = (value) => (value === undefined ? "-" : value.toFixed(2));

export function resultTable(results) {
    const titles = [
        "query",
        "Spillway ms",
        "DuckDB ms",
        "ratio",
        "CPU ms",
        "CPU ms",
        "ratio",
        "predicted/actual",
        "rows"
    ];
    const rows = results.map((result) => {
        const [ours, theirs] = ["spillway", "duckdb"].map((engine) =>
            result.outcomes.find((one) => one.engine === engine)
        );
        const ratios = ratiosOf(result);
        return [
            ...[result.query.name, ms(ours?.medianMs), ms(theirs?.medianMs), times(ratios?.wall)],
            ...[ms(ours?.medianCpuMs), ms(theirs?.medianCpuMs), times(ratios?.cpu)],
            ...[times(ours && ours.predictedMs / ours.medianMs), String((ours ?? theirs).rows)]
        ];
    });
    return table(titles, rows);
}

const geometricMean = (values) => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

/** How many queries are lost, in words, and which. */
export function lossesOf(results) {
    const compared = results.flatMap((result) => {
        const ratios = ratiosOf(result);
        return ratios === undefined ? [] : [{ name: result.query.name, ...ratios }];
    });
    if (compared.length === 0) return "Nothing was compared.";
    const sentence = (kind, of) => {
        const lost = compared.filter((one) => one[of] < 1).sort((a, b) => a[of] - b[of]);
        const mean = geometricMean(compared.map((one) => one[of])).toFixed(2);
        const names = lost.map(({ name, [of]: ratio }) => `\n  ${ratio.toFixed(2)}  ${name}`).join("");
        return `By ${kind} Spillway is ${mean} times as fast as DuckDB (geometric mean of ${compared.length} queries), and slower in ${lost.length}${lost.length > 0 ? `:${names}` : "."}`;
    };
    return [sentence("the clock", "wall"), sentence("CPU time", "cpu")].join("\n\n");
}
