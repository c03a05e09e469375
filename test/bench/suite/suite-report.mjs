// SPDX-License-Identifier: Apache-2.0
// What the suite found, as records, a table and sentences.
import { deviceName } from "../machine-name.mjs";
import { table } from "../report.mjs";

const round = (number, digits = 3) => Number(number.toFixed(digits));
const isOurs = ({ engine }) => engine === "spillway";
const duckdbOf = ({ outcomes }) => outcomes.find(({ engine }) => engine === "duckdb");

/** Where an engine has the relations of a set: Spillway in `files` or in its `memory`, DuckDB always in its own. */
export const inputsOf = (engine, { inMemory }) => (isOurs(engine) && inMemory ? "memory" : engine.inputs);

/**
 * Does the process of an engine run the query? Sets that are in memory whatever was asked for have one process of
 * Spillway's, results that are files are made of files.
 */
export function takesPart(engine, all, { inMemory }, { result }) {
    if (!isOurs(engine)) return true;
    const ours = all.filter(isOurs);
    const wanted = inMemory ? "memory" : result === "file" ? "files" : engine.inputs;
    return engine === (ours.find(({ inputs }) => inputs === wanted) ?? ours[0]);
}

const places = { files: "from files", memory: "from memory" };

/** An engine and where its inputs are, in words. */
export const nameOf = ({ engine, inputs }) => (inputs === undefined ? engine : `${engine} ${places[inputs]}`);

/** DuckDB's time by Spillway's, by the clock and by CPU time; undefined without both. */
function ratiosOf(result, ours) {
    const theirs = duckdbOf(result);
    if (ours === undefined || theirs === undefined) return undefined;
    return { wall: theirs.medianMs / ours.medianMs, cpu: theirs.medianCpuMs / ours.medianCpuMs };
}

/** What tables a query reads. */
const dataOf = ({ suite, scale, text, rows }) => ({ suite, ...(rows === undefined ? { scale, text } : { rows }) });

export function workloadOf({ set, query, budgetBytes }, { inputs }, { threads }) {
    return {
        ...{ name: query.name, ...dataOf(set), result: query.result },
        ...(inputs === undefined ? {} : { inputs }),
        ...(query.atOnce === undefined ? {} : { at_once: query.atOnce }),
        ...(budgetBytes === undefined ? {} : { budget_bytes: budgetBytes }),
        threads
    };
}

function recordOf(result, outcome, setting) {
    const { outcomes, slowdown } = result;
    const ratios = isOurs(outcome) ? ratiosOf(result, outcome) : undefined;
    const rowsIn = outcomes.find(isOurs)?.rowsIn;
    const isVerified = (isOurs(outcome) ? [outcome] : outcomes).every(({ difference }) => difference === undefined);
    return {
        ...{ experiment: "cpu-suite", workload: workloadOf(result, outcome, setting) },
        ...{ engine: outcome.engine, algorithm: outcome.algorithm },
        ...{ median_ms: round(outcome.medianMs), samples_ms: outcome.samplesMs.map((ms) => round(ms)) },
        ...{ cpu_ms: round(outcome.medianCpuMs), cpu_samples_ms: outcome.cpuSamplesMs.map((ms) => round(ms)) },
        ...(rowsIn === undefined ? {} : { rows_in: rowsIn }),
        rows_out: outcome.rows,
        ...(rowsIn === undefined ? {} : { g_tuples_per_s: round(rowsIn / outcome.medianMs / 1e6, 5) }),
        ...(result.compared ? { verified: isVerified } : {}),
        ...(outcome.predictedMs === undefined ? {} : { predicted_ms: round(outcome.predictedMs) }),
        ...(ratios === undefined ? {} : { ratio: round(ratios.wall), cpu_ratio: round(ratios.cpu) }),
        ...(slowdown === undefined ? {} : { slowdown: round(slowdown), bytes_to_disk: outcome.spilledBytes }),
        ...{ peak_bytes: { host: outcome.peakBytes }, device: deviceName(), date: setting.date },
        ...(setting.commit == null ? {} : { commit: setting.commit })
    };
}

/** A record for each query, engine and, of Spillway, place of its inputs. `setting`: threads, date, commit. */
export function recordsOf(results, setting) {
    return results.flatMap((result) => result.outcomes.map((outcome) => recordOf(result, outcome, setting)));
}

/** What a record is of: a query with these tables, their place and threads, with or without a budget of any size. */
export function keyOf({ workload, engine }) {
    const { name, suite, scale, text, rows, inputs, threads, budget_bytes: budget } = workload;
    return JSON.stringify([name, suite, scale, text, rows, inputs, threads, budget !== undefined, engine]);
}

/** Records of a run with those of earlier ones that it did not measure again, of queries that there still are. */
export function mergeRecords(before, records, exists) {
    const replaced = new Set(records.map(keyOf));
    return [...before.filter((record) => !replaced.has(keyOf(record)) && exists(record.workload.name)), ...records];
}

const ms = (value) => (value === undefined ? "-" : value < 10 ? value.toFixed(2) : value.toFixed(0));
const times = (value) => (value === undefined || Number.isNaN(value) ? "-" : value.toFixed(2));

/** Each outcome of Spillway with its result; DuckDB alone has one without. */
function comparisonsOf(results) {
    return results.flatMap((result) => {
        const ours = result.outcomes.filter(isOurs);
        return (ours.length > 0 ? ours : [undefined]).map((one) => ({ result, ours: one }));
    });
}

export function resultTable(results) {
    const engines = ["inputs", "Spillway ms", "DuckDB ms", "ratio", "its CPU ms", "DuckDB's", "ratio"];
    const rows = comparisonsOf(results).map(({ result, ours }) => {
        const theirs = duckdbOf(result);
        const ratios = ratiosOf(result, ours);
        return [
            ...[result.query.name, ours?.inputs ?? "-", ms(ours?.medianMs), ms(theirs?.medianMs), times(ratios?.wall)],
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

/** "By the clock Spillway from files is 1.2 times as fast ..., and slower in 3 of them:", with a line for each. */
function ratioSentence(compared, inputs, kind, of) {
    const lost = compared.filter((query) => query[of] < 1).sort((a, b) => a[of] - b[of]);
    const factor = mean(compared.map((query) => query[of])).toFixed(2);
    const fast = `By ${kind} Spillway ${places[inputs]} is ${factor} times as fast as DuckDB`;
    const slower = lost.length === 0 ? "and slower in none." : `and slower in ${lost.length} of them:`;
    return `${fast} (geometric mean of ${compared.length} queries), ${slower}${linesOf(lost, of)}`;
}

const [leastPrediction, mostPrediction] = [0.67, 1.5];

function predictionSentence(predicted, inputs) {
    const right = predicted.filter((share) => share >= leastPrediction && share <= mostPrediction);
    const range = `within ${leastPrediction} and ${mostPrediction} of the measured time`;
    return `Predictions of ${right.length} of ${predicted.length} queries ${places[inputs]} are ${range}.`;
}

/** How many queries are won, lost and predicted well, in words, and which are lost: for each place of inputs. */
export function summaryOf(results) {
    const all = comparisonsOf(results).filter(({ ours }) => ours !== undefined);
    return Object.keys(places)
        .map((inputs) => [inputs, all.filter(({ ours }) => ours.inputs === inputs)])
        .filter(([, those]) => those.length > 0)
        .flatMap(([inputs, those]) => placeSentences(inputs, those))
        .join("\n\n");
}

function placeSentences(inputs, those) {
    const compared = those.flatMap(({ result, ours }) => {
        const ratios = ratiosOf(result, ours);
        return ratios === undefined ? [] : [{ name: result.query.name, ...ratios }];
    });
    const predicted = those
        .filter(({ ours }) => ours.predictedMs > 0)
        .map(({ ours }) => ours.predictedMs / ours.medianMs);
    const ratios = [
        ["the clock", "wall"],
        ["CPU time", "cpu"]
    ].map(([kind, of]) => ratioSentence(compared, inputs, kind, of));
    return [...(compared.length > 0 ? ratios : []), predictionSentence(predicted, inputs)];
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
