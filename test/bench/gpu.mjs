// SPDX-License-Identifier: Apache-2.0
/**
 * `npm run bench:gpu`: joins and group-bys of relations in the memory of one GPU, and joins of larger ones, timed
 * against targets and published code; see docs/benchmarks.md. Only built-in modules: a machine without compiler,
 * sources or packages takes build/gpu-tests/spillway_gpu_bench, configs/experiments, scripts/steps and
 * test/bench/gpu*.mjs. Joins and group-bys of larger relations have the sizes of plans, which takes the built package.
 * Exit code 1: a result is wrong or a run failed; 2: nothing was measured, say for want of a GPU.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";

import { benchProgram } from "../../scripts/steps/gpu-program.mjs";
import { BuildFailure, root } from "../../scripts/steps/step.mjs";
import { farGroupTable } from "./gpu-far-group-by.mjs";
import { experimentParts } from "./gpu-grid.mjs";
import { outOfCoreTables } from "./gpu-out-of-core.mjs";
import { partitionTable } from "./gpu-partition.mjs";
import { finisherOf, recomputeFile, recordFiles } from "./gpu-recompute.mjs";
import { gpuSlug, groupByTable, mergeRecords, planRuns, resultTable, toRecord } from "./gpu-report.mjs";
import { nothingRan, otherEngines, runners } from "./gpu-run.mjs";
import { tierTable } from "./gpu-tiers.mjs";

const together = {
    all: ["in-core-joins", "in-core-group-by"],
    "out-of-core": ["out-of-core-joins", "out-of-core-sizes", "out-of-core-device-limit", "out-of-core-shapes"]
};
const readConfig = (name) => JSON.parse(readFileSync(join(root, `configs/experiments/${name}.json`), "utf8"));
// Those that name a program of their own are not for this one.
const experiments = readdirSync(join(root, "configs/experiments"))
    .filter((name) => name.endsWith(".json"))
    .map((name) => name.slice(0, -".json".length))
    .filter((name) => readConfig(name).program === undefined)
    .sort();
const usual = "in-core-joins";
const keepEveryMs = 3000;
const tables = {
    join: resultTable,
    "group-by": groupByTable,
    "out-of-core": outOfCoreTables,
    "out-of-core-group-by": farGroupTable,
    partition: partitionTable,
    tiers: tierTable
};

/** Words in lines of the help, behind the names of its options. */
function wrapped(words) {
    const lines = [""];
    for (const word of words) {
        if (lines.at(-1).length + word.length > 80) lines.push("");
        lines.push(`${lines.pop()}${word} `);
    }
    return lines.map((line) => line.trimEnd()).join(`\n${" ".repeat(24)}`);
}

const groups = Object.entries(together).map(([name, members]) => `${name} (${members.join(", ")})`);

const help = `npm run bench:gpu -- [options]
  --experiment NAME     a file of configs/experiments, by name or path (default: ${usual}); -peer: two GPUs
                        ${wrapped(experiments)}
                        several of them: ${wrapped(groups.join(" ").split(" "))}
  --only TEXT           workloads whose name contains TEXT, such as "wide 2+2" or "m:n"
  --algorithm TEXT      algorithms whose name, with their options, contains TEXT
  --samples N           timed runs of each workload (default: 7, out-of-core 5)
  --warmup N            runs before them that are not timed (default: 2, out-of-core 1)
  --memory-limit BYTES  of device memory (default: what is free; workloads out of core have their own)
  --seed N, --device N  of the generated relations; which GPU
  --set NAME=VALUE      an option of the program as it is, such as chunk-rows=4194304; any number of these
  --limit-s 300         ends a workload that hangs
  --write               puts the results into docs/results/<machine>/<experiment>.json, beside those not run again
  --file PATH           ... or into this file
  --recompute           runs nothing: computes anew what is planned of records that there are (of --machine or all)
  --machine NAME        name of the folder under docs/results (default: from the GPU)
  --program PATH        runs this spillway_gpu_bench as it is, instead of compiling one
  --build-only          compiles, which takes nvcc and no GPU
  --architectures LIST  what CMake compiles for, such as 90 (default: this machine's GPUs)`;

function readOptions() {
    const word = { type: "string" };
    const flag = { type: "boolean", default: false };
    try {
        const { values } = parseArgs({
            options: {
                ...{ only: word, algorithm: word, machine: word, file: word, program: word, architectures: word },
                experiment: { ...word, default: usual },
                ...{ samples: word, warmup: word, set: { ...word, multiple: true, default: [] } },
                ...{ "memory-limit": word, seed: word, device: word, "limit-s": { ...word, default: "300" } },
                ...{ help: flag, write: flag, recompute: flag, "build-only": flag }
            }
        });
        values.experiment = values.experiment.replace(/^(.*\/)?([^/]+)\.json$/, "$2");
        const several = together[values.experiment] !== undefined;
        if (!several && !experiments.includes(values.experiment)) {
            const names = [...experiments, ...Object.keys(together)].join(", ");
            throw new Error(`Expected ${names} for --experiment but received '${values.experiment}'.`);
        }
        if (several && values.file !== undefined) {
            throw new Error("Expected --file with one --experiment, not with several of them.");
        }
        const unset = values.set.find((option) => !/^[a-z-]+=./.test(option));
        if (unset !== undefined) throw new Error(`Expected NAME=VALUE for --set but received '${unset}'.`);
        const limitMs = Number(values["limit-s"]) * 1000;
        if (limitMs > 0) return { ...values, limitMs };
        throw new Error(`Expected a number of seconds for --limit-s but received '${values["limit-s"]}'.`);
    } catch (error) {
        throw new BuildFailure(error.message, nothingRan);
    }
}

/** Parts of one operator each. */
const readParts = (experiment) => experimentParts(readConfig(experiment));

/** What is to be run of each part of some experiments that has any of it. */
function chooseRuns(names, options) {
    const chosen = names.flatMap((name) => {
        const parts = readParts(name);
        return parts.map((config) => ({ parts, config, runs: planRuns(config, options) }));
    });
    const some = chosen.filter(({ runs }) => runs.length > 0);
    if (some.length > 0) return some;
    const runs = chosen.flatMap(({ config }) => planRuns(config));
    const known = [...new Set(runs.map(({ workload }) => `"${workload.name}"`))].join(", ");
    throw new BuildFailure(`No workload and algorithm have these names; the workloads are ${known}.`, nothingRan);
}

function currentCommit() {
    if (process.env["SPILLWAY_COMMIT"]) return process.env["SPILLWAY_COMMIT"];
    const git = spawnSync("git", ["describe", "--always", "--dirty"], { cwd: root, encoding: "utf8" });
    return git.status === 0 ? git.stdout.trim() : null;
}

/** `keep` is given all results so far, every few seconds and at the end. */
async function runAll(program, config, runs, options, keep) {
    const extra = {
        ...Object.fromEntries(["memory-limit", "seed", "device"].map((name) => [name, options[name]])),
        ...{ samples: options.samples ?? config.samples ?? 7, warmup: options.warmup ?? config.warmup ?? 2 },
        ...Object.fromEntries(options.set.map((option) => option.split(/=(.*)/s, 2)))
    };
    const setting = { date: new Date().toISOString().slice(0, 10), commit: currentCommit() };
    const operator = config.operator ?? "join";
    const finish = finisherOf(operator);
    const results = [];
    let keptAt = Date.now();
    const report = (run, outcome) => {
        const skipped = outcome?.skipped;
        const isRecord = outcome !== null && skipped === undefined;
        const record = isRecord ? finish(toRecord(config.experiment, run, outcome, setting), run) : null;
        results.push({ run, record, skipped });
        if (Date.now() - keptAt < keepEveryMs) return;
        keep(results);
        keptAt = Date.now();
    };
    await runners[operator](program, runs, { limitMs: options.limitMs, report }, extra);
    keep(results);
    return results;
}

function readRecords(file) {
    try {
        return JSON.parse(readFileSync(file, "utf8"));
    } catch (error) {
        if (error.code === "ENOENT") return [];
        throw error;
    }
}

/** undefined: no option says it, and no record is of a GPU. */
function fileOf(config, records, options) {
    if (options.file !== undefined) return options.file;
    const ofGpu = records.find(({ algorithm }) => !(algorithm in otherEngines));
    const machine = options.machine ?? (ofGpu === undefined ? undefined : gpuSlug(ofGpu.device));
    return machine === undefined ? undefined : join(root, "docs/results", machine, `${config.experiment}.json`);
}

function write(file, parts, records) {
    const merged = mergeRecords(
        // What is measured of memory is up to the machine.
        parts.flatMap((part) => (part.operator === "tiers" ? records : planRuns(part))),
        readRecords(file),
        records
    );
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${JSON.stringify(merged, null, 4)}\n`);
}

/** Predictions, bytes per row and targets of records, which are not measured. */
function recompute(names, options) {
    for (const name of names) {
        const [file, machine] = [options.file, options.machine];
        const files = file === undefined ? recordFiles(join(root, "docs/results"), name, machine) : [file];
        for (const one of files) {
            recomputeFile(readParts(name), one);
            process.stderr.write(`Computed ${one}\n`);
        }
        if (files.length === 0) process.stderr.write(`${name}: there are no records\n`);
    }
}

async function main() {
    const options = readOptions();
    if (options.help) return void process.stdout.write(`${help}\n`);
    if (options.recompute) return recompute(together[options.experiment] ?? [options.experiment], options);
    if (options.write && currentCommit() === null) {
        const why = "Results that are kept name the commit that they are of, and this copy has no git";
        throw new BuildFailure(`${why}: set SPILLWAY_COMMIT.`, nothingRan);
    }
    const chosen = chooseRuns(together[options.experiment] ?? [options.experiment], options);
    const wanted = { architectures: options.architectures, buildOnly: options["build-only"] };
    const program = options.program ?? (await benchProgram(wanted));
    if (options["build-only"]) return;
    for (const { parts, config, runs } of chosen) {
        let file;
        // What is measured stays so, should the time for all of it end.
        const keep = (soFar) => {
            if (!options.write && options.file === undefined) return;
            const records = soFar.flatMap(({ record }) => record ?? []);
            if (records.length === 0) return;
            file = fileOf(config, records, options);
            if (file !== undefined) write(file, parts, records);
        };
        const results = await runAll(program, config, runs, options, keep);
        process.stdout.write(`\n${tables[config.operator ?? "join"](results, config)}\n`);
        if (file !== undefined) process.stderr.write(`Written to ${file}\n`);
        if (results.some(({ record, skipped }) => skipped === undefined && record?.verified !== true)) {
            process.exitCode = 1;
        }
    }
}

try {
    await main();
} catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    if (error.message !== "") process.stderr.write(`${error.message}\n`);
    process.exitCode = error.exitCode;
}
