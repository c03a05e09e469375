// SPDX-License-Identifier: Apache-2.0
/**
 * `npm run bench -- --suite`: queries over real data on Spillway's CPU engine, from files and from tables in memory,
 * and in DuckDB, in a process each that all live as long as the run, taking turns query by query and sample by sample.
 * See docs/benchmarks.md.
 */
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { machineSlug } from "../machine-name.mjs";
import { median } from "../measure.mjs";
import { currentCommit, readRecords, recordsPath, writePlot, writeRecords } from "../records.mjs";
import { differenceOf } from "./checksum.mjs";
import { dataSets, hasQuery, prepare, queryByName } from "./data-sets.mjs";
import { EngineProcess } from "./engine-process.mjs";
import { help, readOptions } from "./options.mjs";
import {
    budgetSummary,
    budgetTable,
    inputsOf,
    keyOf,
    mergeRecords,
    nameOf,
    recordsOf,
    resultTable,
    summaryOf,
    takesPart,
    workloadOf
} from "./suite-report.mjs";

const say = (text) => process.stderr.write(text);

/**
 * Samples of all engines in turns, after runs of each that do not count: V8 compiles the planner on its way through the
 * first ones. `as`: how rows are taken instead.
 */
async function measureInTurns(processes, set, name, { samples, warmup }, as) {
    const taken = new Map(processes.map((engine) => [engine, []]));
    for (let i = 0; i < warmup + samples; i++) {
        for (const engine of processes)
            taken.get(engine).push(await engine.ask("sample", { name, as, first: i === warmup }));
    }
    return processes.map((engine) => {
        const counted = taken.get(engine).slice(warmup);
        const [samplesMs, cpuSamplesMs] = ["ms", "cpuMs"].map((of) => counted.map((sample) => sample[of]));
        const medians = { medianMs: median(samplesMs), medianCpuMs: median(cpuSamplesMs) };
        const inputs = inputsOf(engine, set);
        return { ...counted.at(-1), engine: engine.engine, inputs, samplesMs, cpuSamplesMs, ...medians };
    });
}

/** Notes where results of Spillway differ from DuckDB's, and why. */
async function compare(processes, outcomes, name) {
    const theirs = processes.find(({ engine }) => engine === "duckdb");
    for (const [at, ours] of processes.entries()) {
        if (ours === theirs) continue;
        const { checksum, rows } = await ours.ask("check", { name });
        outcomes[at].difference = differenceOf(checksum, (await theirs.ask("check", { name, rows })).checksum);
    }
}

const timesOf = (outcome) => {
    const { medianMs, medianCpuMs, difference } = outcome;
    const different = difference === undefined ? "" : ` DIFFERENT RESULTS: ${difference}`;
    return `${nameOf(outcome)} ${medianMs.toPrecision(3)} ms (CPU ${medianCpuMs.toPrecision(3)})${different}`;
};

async function runQuery(processes, set, name, options) {
    const query = queryByName(set, name);
    const asked = processes.filter((engine) => takesPart(engine, processes, set, query));
    const outcomes = await measureInTurns(asked, set, name, options);
    const compared = ["spillway", "duckdb"].every((engine) => asked.some((one) => one.engine === engine));
    if (compared) await compare(asked, outcomes, name);
    say(`${outcomes.map(timesOf).join(", ")}\n`);
    return { set, query, outcomes, compared };
}

/** The least budget that a query may have, of its error; others are passed on. */
function smallestBudget(error) {
    if (error.code === "BUDGET_TOO_SMALL" && error.details?.smallest > 0) return error.details.smallest;
    throw error;
}

const leastBudgetBytes = 2 ** 20; // that `memory.host` takes

const smallTableRows = 10_000; // of a table that takes next to nothing of a budget

/**
 * A query without and with a budget of a quarter of the bytes that it reads, or of the least that it can have. Rows of
 * larger tables, which a budget would have to hold, are taken as batches.
 */
async function runInQuarter([engine], set, name, options) {
    const query = queryByName(set, name);
    let result = query.result === "table" ? "batches" : query.result;
    const measured = async (bytes) => {
        await engine.ask("budget", { bytes });
        return await measureInTurns([engine], set, name, options, result);
    };
    let [unlimited] = await measured();
    if (result !== query.result && unlimited.rows <= smallTableRows) {
        result = query.result;
        [unlimited] = await measured();
    }
    let budgetBytes = Math.max(leastBudgetBytes, Math.ceil(unlimited.bytesIn / 4));
    const outcomes = await measured(budgetBytes).catch(async (error) => {
        budgetBytes = smallestBudget(error);
        return await measured(budgetBytes);
    });
    const [limited] = outcomes;
    const slowdown = limited.medianMs / unlimited.medianMs;
    const cpuSlowdown = limited.medianCpuMs / unlimited.medianCpuMs;
    say(`${timesOf(unlimited)}, with ${(budgetBytes / 2 ** 20).toFixed(1)} MiB ${timesOf(limited)}\n`);
    return { set, query: { ...query, result }, unlimited, outcomes, budgetBytes, slowdown, cpuSlowdown };
}

/** What memory is too little for is left out with the reason; anything else ends the run. */
const isTooLarge = ({ code, message }) =>
    ["BUDGET_TOO_SMALL", "OUT_OF_MEMORY"].includes(code) || message.startsWith("Out of Memory Error");

/** The results of a run, and its records where they are written, as they come. */
class Outcome {
    results = [];
    #path;
    #setting;
    #before = [];

    static async open(options) {
        const outcome = new Outcome();
        const { threads, record, machine = machineSlug(), write } = options;
        outcome.#setting = { threads, date: new Date().toISOString(), commit: await currentCommit() };
        const path = record ?? recordsPath(machine, "cpu-suite");
        outcome.#before = readRecords(path);
        if (write) outcome.#path = path;
        return outcome;
    }

    /** Those of this run. */
    get records() {
        return recordsOf(this.results, this.#setting);
    }

    /** Whether there is a record of this commit already. */
    has(set, name, processes, { budgetQuarter }) {
        const result = { set, query: queryByName(set, name), ...(budgetQuarter ? { budgetBytes: 0 } : {}) };
        const wanted = processes
            .filter((engine) => takesPart(engine, processes, set, result.query))
            .map((engine) => ({ engine: engine.engine, inputs: inputsOf(engine, set) }))
            .map((one) => keyOf({ workload: workloadOf(result, one, this.#setting), engine: one.engine }));
        const known = this.#before.filter(({ commit }) => commit === this.#setting.commit).map(keyOf);
        return wanted.every((key) => known.includes(key));
    }

    async add(result) {
        this.results.push(result);
        if (this.#path !== undefined) await writeRecords(this.#path, this.#all());
    }

    #all() {
        return mergeRecords(this.#before, this.records, hasQuery);
    }

    /** The plot beside the records, where vega is installed. */
    async plot() {
        if (this.#path === undefined) return;
        say(`Written to ${this.#path}\n`);
        try {
            const { plotSuite } = await import("./suite-plot.mjs");
            const plot = await plotSuite(this.#all());
            if (plot !== undefined) await writePlot(this.#path, plot);
        } catch (error) {
            if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
            say(`without a plot: ${error.message.split("\n")[0]}\n`);
        }
    }
}

async function runSet(processes, set, options, outcome) {
    const names = set.names.filter((name) => !options.missing || !outcome.has(set, name, processes, options));
    if (names.length === 0) return;
    say(`loading ${set.suite} from ${set.folder}\n`);
    for (const engine of processes) await engine.ask("load", { set });
    const run = options.budgetQuarter ? runInQuarter : runQuery;
    for (const name of names) {
        if (Date.now() > options.deadline) {
            say(`${name}: left for later: ${options["limit-s"]} seconds are over\n`);
            continue;
        }
        say(`${name}: `);
        try {
            await outcome.add(await run(processes, set, name, options));
        } catch (error) {
            if (!isTooLarge(error)) throw error;
            say(`left out: ${error.message.split("\n")[0]}\n`);
        }
    }
}

/** Spillway's processes, one for each place of its inputs, and DuckDB's. */
function startEngines({ engines, inputs, threads, work }) {
    return engines
        .flatMap((engine) =>
            engine === "spillway" ? inputs.map((where) => ({ engine, inputs: where })) : [{ engine }]
        )
        .map((one) => new EngineProcess({ ...one, threads, work }));
}

async function runSets(sets, options, outcome) {
    const processes = startEngines(options);
    try {
        for (const set of sets) await runSet(processes, await prepare(set, options), options, outcome);
        for (const engine of processes) await engine.close();
    } catch (error) {
        for (const engine of processes) engine.kill();
        throw error;
    }
}

function textOf(results, { quick, budgetQuarter }) {
    if (results.length === 0) return "Nothing was measured.";
    if (quick) return `${results.filter(({ compared }) => compared).length} queries were compared.`;
    if (budgetQuarter) return `${budgetTable(results)}\n\n${budgetSummary(results)}`;
    return `${resultTable(results)}\n\n${summaryOf(results)}`;
}

/** Runs what the arguments ask for; gives the exit code: 1 where results differ. */
export async function runSuite(args) {
    const options = readOptions(args);
    if (options.help) {
        process.stdout.write(`${help}\n`);
        return 0;
    }
    mkdirSync(options.work, { recursive: true });
    const isWanted = (name) => options.only.length === 0 || options.only.some((part) => name.includes(part));
    const sets = dataSets(options, isWanted);
    if (sets.length === 0) throw new Error(`--only ${options.only.join(", ")} names no query of this run.`);
    const outcome = await Outcome.open(options);
    await runSets(sets, options, outcome);
    await outcome.plot();
    const { results, records } = outcome;
    process.stdout.write(options.json ? `${JSON.stringify(records, null, 4)}\n` : `\n${textOf(results, options)}\n`);
    const wrong = results.flatMap(({ query, outcomes }) =>
        outcomes.flatMap((one) => (one.difference === undefined ? [] : [{ query, ...one }]))
    );
    for (const one of wrong) say(`DIFFERENT RESULTS: ${one.query.name}, ${nameOf(one)}: ${one.difference}\n`);
    return wrong.length > 0 ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    // Where run.mjs has not all packages that it wants.
    process.exitCode = await runSuite(process.argv.slice(2)).catch(({ message }) => {
        say(`${message}\n`);
        return 1;
    });
}
