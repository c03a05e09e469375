// SPDX-License-Identifier: Apache-2.0
/**
 * `npm run bench -- --suite`: queries over real data on Spillway's CPU engine and in DuckDB, in a process each that
 * both live as long as the run, taking turns query by query and sample by sample. See docs/benchmarks.md.
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
    keyOf,
    mergeRecords,
    recordsOf,
    resultTable,
    summaryOf,
    workloadOf
} from "./suite-report.mjs";

const say = (text) => process.stderr.write(text);

/** Samples of all engines in turns, after a run of each that does not count; `as`: how rows are taken instead. */
async function measureInTurns(processes, name, samples, as) {
    const taken = new Map(processes.map((engine) => [engine, []]));
    for (let i = 0; i <= samples; i++) {
        for (const engine of processes)
            taken.get(engine).push(await engine.ask("sample", { name, as, first: i === 1 }));
    }
    return processes.map((engine) => {
        const [, ...counted] = taken.get(engine);
        const [samplesMs, cpuSamplesMs] = ["ms", "cpuMs"].map((of) => counted.map((sample) => sample[of]));
        const medians = { medianMs: median(samplesMs), medianCpuMs: median(cpuSamplesMs) };
        return { ...counted.at(-1), engine: engine.engine, samplesMs, cpuSamplesMs, ...medians };
    });
}

/** Why the engines' results differ; undefined where they do not. */
async function compare([ours, theirs], name) {
    const { checksum, rows } = await ours.ask("check", { name });
    return differenceOf(checksum, (await theirs.ask("check", { name, rows })).checksum);
}

const timesOf = ({ engine, medianMs, medianCpuMs }) =>
    `${engine} ${medianMs.toPrecision(3)} ms (CPU ${medianCpuMs.toPrecision(3)})`;

async function runQuery(processes, set, name, { samples }) {
    const outcomes = await measureInTurns(processes, name, samples);
    const compared = processes.length > 1;
    const difference = compared ? await compare(processes, name) : undefined;
    const different = difference === undefined ? "" : ` DIFFERENT RESULTS: ${difference}`;
    say(`${outcomes.map(timesOf).join(", ")}${different}\n`);
    return { set, query: queryByName(set, name), outcomes, compared, difference };
}

/** The least budget that a query may have, of its error; others are passed on. */
function smallestBudget(error) {
    if (error.code === "BUDGET_TOO_SMALL" && error.details?.smallest > 0) return error.details.smallest;
    throw error;
}

const leastBudgetBytes = 2 ** 20; // that `memory.host` takes

/**
 * A query without and with a budget of a quarter of the bytes that it reads, or of the least that it can have. Rows of
 * tables, which a budget would have to hold, are taken as batches.
 */
async function runInQuarter([engine], set, name, { samples }) {
    const query = queryByName(set, name);
    const result = query.result === "table" ? "batches" : query.result;
    const measured = async (bytes) => {
        await engine.ask("budget", { bytes });
        return await measureInTurns([engine], name, samples, result);
    };
    const [unlimited] = await measured();
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
    has(set, name, { engines, budgetQuarter }) {
        const budget = budgetQuarter ? { budgetBytes: 0 } : {};
        const workload = workloadOf({ set, query: queryByName(set, name), ...budget }, this.#setting);
        const wanted = engines.map((engine) => keyOf({ workload, engine }));
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
    const names = set.names.filter((name) => !options.missing || !outcome.has(set, name, options));
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

async function runSets(sets, options, outcome) {
    const { threads, work } = options;
    const processes = options.engines.map((engine) => new EngineProcess({ engine, threads, work }));
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
    const wrong = results.filter(({ difference }) => difference !== undefined);
    for (const { query, difference } of wrong) say(`DIFFERENT RESULTS: ${query.name}: ${difference}\n`);
    return wrong.length > 0 ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    // Where run.mjs has not all packages that it wants.
    process.exitCode = await runSuite(process.argv.slice(2)).catch(({ message }) => {
        say(`${message}\n`);
        return 1;
    });
}
