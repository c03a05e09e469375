// SPDX-License-Identifier: Apache-2.0
// What the suite found, as records, a table and sentences.
import { deviceName } from "../machine-name.mjs";
import { table } from "../report.mjs";

const round = (number, digits = 3) => Number(number.toFixed(digits));
const outcomeOf = ({ outcomes }, engine) => outcomes.find((outcome) => outcome.engine === engine);

/** DuckDB's time by Spillway's, by the clock and by CPU time; undefined without both. */
function ratiosOf(result) {
    const [ours, theirs] = ["spillway", "duckdb"].map((engine) => outcomeOf(result, engine));
    if (ours === undefined || theirs === undefined) return undefined;
    return { wall: theirs.medianMs / ours.medianMs, cpu: theirs.medianCpuMs / ours.medianCpuMs };
}

/** What tables a query reads. */
const dataOf = ({ suite, scale, text, rows }) => ({ suite, ...(rows === undefined ? { scale, text } : { rows }) });

export function workloadOf({ set, query, budgetBytes }, { threads }) {
    return {
        ...{ name: query.name, ...dataOf(set), result: query.result },
        ...(query.atOnce === undefined ? {} : { at_once: query.atOnce }),
        ...(budgetBytes === undefined ? {} : { budget_bytes: budgetBytes }),
        threads
    };
}

function recordOf(result, outcome, setting) {
    const { difference, slowdown } = result;
    const ratios = outcome.engine === "spillway" ? ratiosOf(result) : undefined;
    const rowsIn = outcomeOf(result, "spillway")?.rowsIn;
    return {
        ...{ experiment: "cpu-suite", workload: workloadOf(result, setting) },
        ...{ engine: outcome.engine, algorithm: outcome.algorithm },
        ...{ median_ms: round(outcome.medianMs), samples_ms: outcome.samplesMs.map((ms) => round(ms)) },
        ...{ cpu_ms: round(outcome.medianCpuMs), cpu_samples_ms: outcome.cpuSamplesMs.map((ms) => round(ms)) },
        ...(rowsIn === undefined ? {} : { rows_in: rowsIn }),
        rows_out: outcome.rows,
        ...(rowsIn === undefined ? {} : { g_tuples_per_s: round(rowsIn / outcome.medianMs / 1e6, 5) }),
        ...(result.compared ? { verified: difference === undefined } : {}),
        ...(outcome.predictedMs === undefined ? {} : { predicted_ms: round(outcome.predictedMs) }),
        ...(ratios === undefined ? {} : { ratio: round(ratios.wall), cpu_ratio: round(ratios.cpu) }),
        ...(slowdown === undefined ? {} : { slowdown: round(slowdown), bytes_to_disk: outcome.spilledBytes }),
        ...{ peak_bytes: { host: outcome.peakBytes }, device: deviceName(), date: setting.date },
        ...(setting.commit == null ? {} : { commit: setting.commit })
    };
}

/** A record for each query and engine. `setting`: threads, date, commit. */
export function recordsOf(results, setting) {
    return results.flatMap((result) => result.outcomes.map((outcome) => recordOf(result, outcome, setting)));
}

/** What a record is of: a query with these tables and threads, with or without a budget, whatever that is. */
export function keyOf({ workload, engine }) {
    const { name, suite, scale, text, rows, threads, budget_bytes: budget } = workload;
    return JSON.stringify([name, suite, scale, text, rows, threads, budget !== undefined, engine]);
}

/** Records of a run with those of earlier ones that it did not measure again, of queries that there still are. */
export function mergeRecords(before, records, exists) {
    const replaced = new Set(records.map(keyOf));
    return [...before.filter((record) => !replaced.has(keyOf(record)) && exists(record.workload.name)), ...records];
}

const ms = (value) => (value === undefined ? "-" : value < 10 ? value.toFixed(2) : value.toFixed(0));
const times = (value) => (value === undefined || Number.isNaN(value) ? "-" : value.toFixed(2));

export function resultTable(results) {
    const engines = ["Spillway ms", "DuckDB ms", "ratio", "its CPU ms", "DuckDB's", "ratio"];
    const rows = results.map((result) => {
        const [ours, theirs] = ["spillway", "duckdb"].map((engine) => outcomeOf(result, engine));
        const ratios = ratiosOf(result);
        return [
            ...[result.query.name, ms(ours?.medianMs), ms(theirs?.medianMs), times(ratios?.wall)],
            ...[ms(ours?.medianCpuMs), ms(theirs?.medianCpuMs), times(ratios?.cpu)],
            ...[times(ours && ours.predictedMs / ours.medianMs), String((ours ?? theirs).rows)]
        ];
    });
    return table(["query", ...engines, "predicted/actual", "rows"], rows);
}

const mean = (values) => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

/** One line for each query in which `of` is on the wrong side of its bound, worst first. */
function linesOf(queries, of) {
    return queries.map((query) => `\n  ${query[of].toFixed(2)}  ${query.name}`).join("");
}

/** "By the clock Spillway is 1.2 times as fast ..., and slower in 3 of them:", with a line for each of these. */
function ratioSentence(compared, kind, of) {
    const lost = compared.filter((query) => query[of] < 1).sort((a, b) => a[of] - b[of]);
    const factor = mean(compared.map((query) => query[of])).toFixed(2);
    const fast = `By ${kind} Spillway is ${factor} times as fast as DuckDB`;
    const slower = lost.length === 0 ? "and slower in none." : `and slower in ${lost.length} of them:`;
    return `${fast} (geometric mean of ${compared.length} queries), ${slower}${linesOf(lost, of)}`;
}

const [leastPrediction, mostPrediction] = [0.67, 1.5];

function predictionSentence(predicted) {
    const right = predicted.filter(({ share }) => share >= leastPrediction && share <= mostPrediction);
    const range = `within ${leastPrediction} and ${mostPrediction} of the measured time`;
    return `Predictions of ${right.length} of ${predicted.length} queries are ${range}.`;
}

/** How many queries are won, lost and predicted well, in words, and which are lost. */
export function summaryOf(results) {
    const compared = results.flatMap((result) => {
        const ratios = ratiosOf(result);
        return ratios === undefined ? [] : [{ name: result.query.name, ...ratios }];
    });
    const predicted = results.flatMap((result) => {
        const { predictedMs, medianMs } = outcomeOf(result, "spillway") ?? {};
        return predictedMs > 0 ? [{ share: predictedMs / medianMs }] : [];
    });
    const ratios = [
        ["the clock", "wall"],
        ["CPU time", "cpu"]
    ].map(([kind, of]) => ratioSentence(compared, kind, of));
    return [...(compared.length > 0 ? ratios : []), predictionSentence(predicted)].join("\n\n");
}

const mib = (bytes) => (bytes / 2 ** 20).toFixed(0);

/** What a quarter of the memory costs: time without and with a budget, and whether the process kept to it. */
export function budgetTable(results) {
    const rows = results.map((result) => {
        const { query, outcomes, unlimited, slowdown, budgetBytes } = result;
        const [{ medianMs, spilledBytes, peakBytes }] = outcomes;
        return [
            ...[query.name, mib(budgetBytes), ms(unlimited.medianMs), ms(medianMs), times(slowdown)],
            ...[times(result.cpuSlowdown), mib(spilledBytes), mib(peakBytes)]
        ];
    });
    return table(["query", "MiB", "no budget ms", "with it", "ratio", "CPU ratio", "spilled MiB", "peak MiB"], rows);
}

/** The most that a budget of a quarter may cost. */
const mostSlowdown = 1.5;

export function budgetSummary(results) {
    const slow = results.filter(({ slowdown }) => slowdown > mostSlowdown).sort((a, b) => b.slowdown - a.slowdown);
    const named = slow.map(({ query, slowdown }) => ({ name: query.name, slowdown }));
    const most = `more than ${mostSlowdown} times as long with a budget of a quarter`;
    const lines = linesOf(named, "slowdown");
    return `${slow.length} of ${results.length} queries take ${most}${slow.length > 0 ? ":" : "."}${lines}`;
}
