// SPDX-License-Identifier: Apache-2.0
/**
 * `npm run bench:gpu`: joins and group-bys of relations in the memory of one GPU, and joins of larger ones, timed
 * against targets and published code; see docs/benchmarks.md. Only built-in modules: a machine without compiler,
 * sources or packages takes build/gpu-tests/spillway_gpu_bench, configs/experiments, scripts/steps and
 * test/bench/gpu*.mjs.
 * Exit code 1: a result is wrong or a run failed; 2: nothing was measured, say for want of a GPU.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";

import { benchProgram } from "../../scripts/steps/gpu-program.mjs";
import { BuildFailure, root } from "../../scripts/steps/step.mjs";
import { experimentParts } from "./gpu-grid.mjs";
import { outOfCoreArguments, outOfCoreTable } from "./gpu-out-of-core.mjs";
import {
    gpuSlug,
    groupByArguments,
    groupByTable,
    mergeRecords,
    planRuns,
    programArguments,
    resultTable,
    toRecord
} from "./gpu-report.mjs";

const nothingRan = 2;
const together = {
    all: ["in-core-joins", "in-core-group-by"],
    "out-of-core": ["out-of-core-joins", "out-of-core-sizes", "out-of-core-device-limit", "out-of-core-shapes"]
};
const experiments = [...Object.values(together).flat(), "in-core-grid", "out-of-core-baselines", "out-of-core-peer"];
const runners = {
    join: (...of) => runJoins(programArguments, ...of),
    "group-by": runGroupBys,
    "out-of-core": (...of) => runJoins(outOfCoreArguments, ...of)
};
const tables = { join: resultTable, "group-by": groupByTable, "out-of-core": outOfCoreTable };

const help = `npm run bench:gpu -- [options]
  --experiment NAME     in-core-joins (default), in-core-group-by, all (both), or in-core-grid;
                        out-of-core-joins, -sizes, -device-limit, -shapes, out-of-core (all four),
                        out-of-core-baselines, or out-of-core-peer, for two GPUs
  --only TEXT           workloads whose name contains TEXT, such as "wide 2+2" or "m:n"
  --algorithm TEXT      algorithms whose name contains TEXT
  --samples N           timed runs of each workload (default: 7, out-of-core 5)
  --warmup N            runs before them that are not timed (default: 2, out-of-core 1)
  --memory-limit BYTES  of device memory (default: what is free; workloads out of core have their own)
  --seed N, --device N  of the generated relations; which GPU
  --limit-s 300         ends a workload that hangs
  --write               puts the results into docs/results/<machine>/<experiment>.json, beside those not run again
  --file PATH           ... or into this file
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
                experiment: { ...word, default: experiments[0] },
                ...{ samples: word, warmup: word },
                ...{ "memory-limit": word, seed: word, device: word, "limit-s": { ...word, default: "300" } },
                ...{ help: flag, write: flag, "build-only": flag }
            }
        });
        const several = together[values.experiment] !== undefined;
        if (!several && !experiments.includes(values.experiment)) {
            const names = [...experiments, ...Object.keys(together)].join(", ");
            throw new Error(`Expected ${names} for --experiment but received '${values.experiment}'.`);
        }
        if (several && values.file !== undefined) {
            throw new Error("Expected --file with one --experiment, not with several of them.");
        }
        const limitMs = Number(values["limit-s"]) * 1000;
        if (limitMs > 0) return { ...values, limitMs };
        throw new Error(`Expected a number of seconds for --limit-s but received '${values["limit-s"]}'.`);
    } catch (error) {
        throw new BuildFailure(error.message, nothingRan);
    }
}

/** Parts of one operator each. */
function readParts(experiment) {
    return experimentParts(JSON.parse(readFileSync(join(root, `configs/experiments/${experiment}.json`), "utf8")));
}

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

/** Runs the program; the objects that it wrote, one a line, and how it ended. A wrong result is an outcome too. */
async function runProgram(program, args, limitMs) {
    const child = spawn(program, args, {
        stdio: ["ignore", "pipe", "inherit"],
        timeout: limitMs,
        killSignal: "SIGKILL"
    });
    const ended = new Promise((resolve) => {
        child.on("error", (error) => resolve(error.message));
        child.on("close", (code, signal) => resolve(code ?? signal));
    });
    const written = await text(child.stdout);
    const end = await ended;
    if (end === nothingRan) throw new BuildFailure("", nothingRan); // the program has said why
    const outcomes = written.split("\n").flatMap((line) => {
        try {
            return [JSON.parse(line)];
        } catch {
            return []; // an empty line, or one that the end of the program cut off
        }
    });
    return { end, outcomes };
}

function explainEnd(end) {
    process.stderr.write(`the program ended with ${typeof end === "number" ? `code ${end}` : end}\n`);
}

function tell(outcome) {
    const problem = outcome.verified ? "" : `, WRONG: ${outcome.problem ?? "the program failed"}`;
    process.stderr.write(`${outcome.median_ms.toFixed(2)} ms${problem}\n`);
}

/** A process per workload and algorithm. */
async function runJoins(argumentsOf, program, runs, options, extra) {
    const outcomes = [];
    for (const run of runs) {
        process.stderr.write(`${run.workload.name}: ${run.algorithm} ... `);
        const { end, outcomes: written } = await runProgram(program, argumentsOf(run, extra), options.limitMs);
        const outcome = written.length === 0 ? null : end === 0 ? written[0] : { ...written[0], verified: false };
        outcomes.push(outcome);
        if (outcome === null) explainEnd(end);
        else tell(outcome);
    }
    return outcomes;
}

/** A process per workload, for its rows take longer to make than to group. */
async function runGroupBys(program, runs, options, extra) {
    const outcomes = [];
    for (const workload of new Set(runs.map((run) => run.workload))) {
        const wanted = runs.filter((run) => run.workload === workload).map(({ algorithm }) => algorithm);
        process.stderr.write(`${workload.name}: ${wanted.join(", ")} ...\n`);
        const args = groupByArguments(workload, wanted, extra);
        const { end, outcomes: written } = await runProgram(program, args, options.limitMs);
        for (const algorithm of wanted) {
            const outcome = written.find((one) => one.algorithm === algorithm) ?? null;
            outcomes.push(outcome);
            process.stderr.write(`    ${algorithm} `);
            if (outcome === null) explainEnd(end);
            else tell(outcome);
        }
    }
    return outcomes;
}

async function runAll(program, config, runs, options) {
    const extra = {
        ...Object.fromEntries(["memory-limit", "seed", "device"].map((name) => [name, options[name]])),
        ...{ samples: options.samples ?? config.samples ?? 7, warmup: options.warmup ?? config.warmup ?? 2 }
    };
    const setting = { date: new Date().toISOString().slice(0, 10), commit: currentCommit() };
    const outcomes = await runners[config.operator ?? "join"](program, runs, options, extra);
    return runs.map((run, index) => {
        const outcome = outcomes[index];
        return { run, record: outcome === null ? null : toRecord(config.experiment, run, outcome, setting) };
    });
}

function readRecords(file) {
    try {
        return JSON.parse(readFileSync(file, "utf8"));
    } catch (error) {
        if (error.code === "ENOENT") return [];
        throw error;
    }
}

function write(parts, config, records, options) {
    const machine = options.machine ?? gpuSlug(records[0].device);
    const file = options.file ?? join(root, "docs/results", machine, `${config.experiment}.json`);
    const merged = mergeRecords(
        parts.flatMap((part) => planRuns(part)),
        readRecords(file),
        records
    );
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${JSON.stringify(merged, null, 4)}\n`);
    process.stderr.write(`Written to ${file}\n`);
}

async function main() {
    const options = readOptions();
    if (options.help) return void process.stdout.write(`${help}\n`);
    const chosen = chooseRuns(together[options.experiment] ?? [options.experiment], options);
    const wanted = { architectures: options.architectures, buildOnly: options["build-only"] };
    const program = options.program ?? (await benchProgram(wanted));
    if (options["build-only"]) return;
    for (const { parts, config, runs } of chosen) {
        const results = await runAll(program, config, runs, options);
        const records = results.flatMap(({ record }) => record ?? []);
        process.stdout.write(`\n${tables[config.operator ?? "join"](results, config)}\n`);
        if ((options.write || options.file !== undefined) && records.length > 0) write(parts, config, records, options);
        if (results.some(({ record }) => record?.verified !== true)) process.exitCode = 1;
    }
}

try {
    await main();
} catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    if (error.message !== "") process.stderr.write(`${error.message}\n`);
    process.exitCode = error.exitCode;
}
