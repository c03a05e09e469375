// SPDX-License-Identifier: Apache-2.0
// How test/bench/gpu.mjs runs workloads: processes of the program, what they write, what is told while they run. Only
// built-in modules: a GPU machine may have no others.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";

import { BuildFailure, root } from "../../scripts/steps/step.mjs";
import { farGroupArguments } from "./gpu-far-group-by.mjs";
import { outOfCoreArguments } from "./gpu-out-of-core.mjs";
import { groupSizes, joinSizes, NoPlan } from "./gpu-plan-sizes.mjs";
import { partitionArguments, partitionGroups } from "./gpu-partition.mjs";
import { groupByArguments, joinArguments, runLabel } from "./gpu-report.mjs";
import { tierArguments, tierOutcomes } from "./gpu-tiers.mjs";

export const nothingRan = 2;
const leftOut = 3; // of the programs of other engines: they are not installed, or lack memory
let hasRun = false; // a program that this process started, which had a GPU then

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
    if (end === nothingRan && !hasRun) throw new BuildFailure("", nothingRan); // the program has said why
    if (program !== process.execPath) hasRun = true;
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

function engineArguments(file, { workload: { build_rows, probe_rows } }, { samples, warmup }) {
    const numbers = Object.entries({ "build-rows": build_rows, "probe-rows": probe_rows, samples, warmup });
    return [join(root, "test/bench", file), ...numbers.flatMap(([name, value]) => [`--${name}`, String(value)])];
}

/** Programs beside spillway_gpu_bench, which need no GPU, by the name of their algorithm. */
export const otherEngines = {
    duckdb: (...of) => engineArguments("gpu-duckdb.mjs", ...of),
    "cpu-radix": (...of) => engineArguments("gpu-cpu-engine.mjs", ...of)
};

/** With the sizes of the workload's plan in front of options that are set by hand, which override them. */
async function plannedArguments(sizesOf, argumentsOf, run, extra) {
    const sizes = await sizesOf(run, { ...run.options, ...extra });
    return argumentsOf({ ...run, options: { ...sizes, ...run.options } }, extra);
}

const farJoinArguments = (...of) => plannedArguments(joinSizes, outOfCoreArguments, ...of);
const farGroupByArguments = (...of) => plannedArguments(groupSizes, farGroupArguments, ...of);

/** null: there is no plan for the run, which is said. */
async function argumentsOrNull(argumentsOf, run, extra) {
    try {
        return await argumentsOf(run, extra);
    } catch (error) {
        if (!(error instanceof NoPlan)) throw error;
        process.stderr.write(`there is no plan: ${error.message}\n`);
        return null;
    }
}

/** A process per workload and algorithm. */
async function runJoins(argumentsOf, program, runs, { limitMs, report }, extra) {
    for (const run of runs) {
        process.stderr.write(`${run.workload.name}: ${runLabel(run)} ... `);
        const engine = otherEngines[run.algorithm];
        const command = engine ? process.execPath : program;
        const args = engine ? engine(run, extra) : await argumentsOrNull(argumentsOf, run, extra);
        if (args === null) {
            report(run, null);
            continue;
        }
        const { end, outcomes: written } = await runProgram(command, args, limitMs);
        if (engine !== undefined && end === leftOut) {
            report(run, { skipped: "left out" }); // the program has said why
            continue;
        }
        const outcome = written.length === 0 ? null : end === 0 ? written[0] : { ...written[0], verified: false };
        if (outcome === null) explainEnd(end);
        else tell(outcome);
        report(run, outcome);
    }
}

/** A process per workload, for its rows take longer to make than to join or group. */
async function runTogether(argumentsOf, program, runs, { limitMs, report }, extra) {
    for (const workload of new Set(runs.map((run) => run.workload))) {
        const mine = runs.filter((run) => run.workload === workload);
        const wanted = mine.map(({ algorithm }) => algorithm);
        process.stderr.write(`${workload.name}: ${wanted.join(", ")} ...\n`);
        const args = argumentsOf(workload, wanted, extra);
        const { end, outcomes: written } = await runProgram(program, args, limitMs);
        for (const run of mine) {
            const outcome = written.find((one) => one.algorithm === run.algorithm) ?? null;
            process.stderr.write(`    ${run.algorithm} `);
            if (outcome === null) explainEnd(end);
            else tell(outcome);
            report(run, outcome);
        }
    }
}

/** A process per partitioner and kind of destination, whose memory takes longer to get than to fill. */
async function runPartitions(program, runs, { limitMs, report }, extra) {
    for (const group of partitionGroups(runs)) {
        const [{ workload }] = group;
        process.stderr.write(`${workload.name.replace(/\d+$/, "...")} ${runLabel(group[0])} ...\n`);
        const { end, outcomes: written } = await runProgram(program, partitionArguments(group, extra), limitMs);
        for (const run of group) {
            const outcome = written.find(({ workload: { bits } }) => bits === run.workload.bits) ?? null;
            process.stderr.write(`    2^${run.workload.bits} `);
            // The program leaves out what it has no shared memory for.
            const skipped = outcome === null && end === 0;
            if (skipped) process.stderr.write("is more than shared memory allows\n");
            else if (outcome === null) explainEnd(end);
            else tell(outcome);
            report(run, skipped ? { skipped: "no room" } : outcome);
        }
    }
}

/** One process that measures what there is. */
async function runTiers(program, runs, { limitMs, report }, extra) {
    for (const run of runs) {
        process.stderr.write(`${run.workload.name} ...\n`);
        const { end, outcomes: written } = await runProgram(program, tierArguments(run, extra), limitMs);
        const found = tierOutcomes(written);
        for (const { run: one, outcome } of found) report(one, outcome);
        if (end === 0 && found.length > 0) continue;
        explainEnd(end);
        report(run, null);
    }
}

/**
 * By operator: (program, runs, { limitMs, report }, extra options of the program), where report(run, outcome) is told
 * of each outcome as it comes; null: there is none.
 */
export const runners = {
    join: (...of) => runTogether(joinArguments, ...of),
    "group-by": (...of) => runTogether(groupByArguments, ...of),
    "out-of-core": (...of) => runJoins(farJoinArguments, ...of),
    "out-of-core-group-by": (...of) => runJoins(farGroupByArguments, ...of),
    partition: runPartitions,
    tiers: runTiers
};
