// SPDX-License-Identifier: Apache-2.0
/**
 * `npm run bench -- --suite`: queries over real data on Spillway's CPU engine and in DuckDB, in a process each that
 * both live as long as the run, taking turns query by query and sample by sample. See docs/benchmarks.md.
 */
import { mkdirSync } from "node:fs";

import { median } from "../measure.mjs";
import { differenceOf } from "./checksum.mjs";
import { dataSets, prepare, queryByName } from "./data-sets.mjs";
import { EngineProcess } from "./engine-process.mjs";
import { help, readOptions } from "./options.mjs";
import { lossesOf, recordsOf, resultTable } from "./suite-report.mjs";

const say = (text) => process.stderr.write(text);

/** Samples of all engines in turns, after a run of each that does not count. */
async function measureInTurns(processes, name, samples) {
    const taken = new Map(processes.map((engine) => [engine, []]));
    for (let i = 0; i <= samples; i++) {
        for (const engine of processes) taken.get(engine).push(await engine.ask("sample", { name, first: i === 1 }));
    }
    return processes.map((engine) => {
        const [, ...counted] = taken.get(engine);
        const last = counted.at(-1);
        return {
            ...last,
            engine: engine.engine,
            samplesMs: counted.map(({ ms }) => ms),
            cpuSamplesMs: counted.map(({ cpuMs }) => cpuMs),
            medianMs: median(counted.map(({ ms }) => ms)),
            medianCpuMs: median(counted.map(({ cpuMs }) => cpuMs))
        };
    });
}

/** Why the engines' results differ; undefined where they do not. */
async function compare(processes, name) {
    const [ours, theirs] = processes;
    if (theirs === undefined) return undefined;
    const { checksum, rows } = await ours.ask("check", { name });
    return differenceOf(checksum, (await theirs.ask("check", { name, rows })).checksum);
}

async function runQuery(processes, set, name, { samples }) {
    say(`${name} ... `);
    const outcomes = await measureInTurns(processes, name, samples);
    const difference = await compare(processes, name);
    for (const { engine, medianMs, medianCpuMs } of outcomes) {
        say(`${engine} ${medianMs.toPrecision(3)} ms (CPU ${medianCpuMs.toPrecision(3)}) `);
    }
    say(difference === undefined ? "\n" : `DIFFERENT RESULTS: ${difference}\n`);
    return { set, query: queryByName(set, name), outcomes, difference };
}

async function runSets(sets, options) {
    const processes = [];
    const results = [];
    try {
        for (const engine of options.engines) {
            processes.push(new EngineProcess({ engine, threads: options.threads, work: options.work }));
        }
        for (const planned of sets) {
            const set = await prepare(planned, options).catch((error) => {
                if (planned.kind !== "small") throw error;
                say(`left out: ${error.message}\n`);
            });
            if (set === undefined) continue;
            say(`loading ${set.suite}, ${set.folder}\n`);
            for (const engine of processes) await engine.ask("load", { set });
            for (const name of set.names) results.push(await runQuery(processes, set, name, options));
        }
        for (const engine of processes) await engine.close();
    } catch (error) {
        for (const engine of processes) engine.kill();
        throw error;
    }
    return results;
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
    const results = await runSets(sets, options);
    const records = recordsOf(results, options);
    process.stdout.write(
        options.json ? `${JSON.stringify(records, null, 4)}\n` : `\n${resultTable(results)}\n\n${lossesOf(results)}\n`
    );
    const wrong = results.filter(({ difference }) => difference !== undefined);
    for (const { query, difference } of wrong) say(`DIFFERENT RESULTS: ${query.name}: ${difference}\n`);
    return wrong.length > 0 ? 1 : 0;
}
