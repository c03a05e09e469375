// SPDX-License-Identifier: Apache-2.0
// node scripts/test-gpu.mjs              builds the GPU tests if they are out of date, runs them, writes a receipt
// node scripts/test-gpu.mjs --sanitize   also runs the small suite under the four tools of compute-sanitizer
//     --tool NAME (more than once if wanted)   only these tools
//     --tools-only   not the suite: what the tools find is added to the receipt of its run, if that is of these sources
//     --at-once   the suite, in two parts, and the tools side by side, on a GPU with 100 GiB; they share its time
//     --gpus N,M   with --at-once: two parts of the suite, and one of what each tool runs, on each of these GPUs; a
//                  tool sees no other one. 0,0 shares one among twice as many processes (all of it 540 s on an H200).
//                  The suite alone, in fourteen parts by 0,1,0,1,0,1,0, takes 221 s on two H200s, by 0,1 more than 390
//     --filter TEXT (more than once if wanted), --suite small|full, --seed N, --device N   of spillway_gpu_tests
//     --architectures 80-real;90   what CMake compiles for      --limit-s N   ends a run that hangs (default: 1800)
//     --receipt FILE               instead of test/gpu/receipt.json
// node scripts/test-gpu.mjs --build-only      compiles, which takes no GPU
// node scripts/test-gpu.mjs --check-receipt   one line: whether the receipt is of the sources of this tree
// A machine without compiler, sources or packages takes of build/gpu-tests the files spillway_gpu_tests, ...tests.json
// (for --sanitize ..._plain too) and spillway_device_lost_program, and scripts/test-gpu.mjs and scripts/steps. The
// commit of sources without git: SPILLWAY_COMMIT.
// The last line is "N passed, N failed". Exit code 1: something failed; 2: nothing was run, say for want of a GPU.
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";

import {
    driverVersion,
    findSanitizer,
    programFor,
    programOfTool,
    programOrigin,
    runProgram
} from "./steps/gpu-program.mjs";
import { completed, readReceipt, receiptVerdict, sanitizers, withTools, writeReceipt } from "./steps/gpu-receipt.mjs";
import { BuildFailure } from "./steps/step.mjs";

const nothingRan = 2;
const sum = { passed: 0, failed: 0 };
const failures = [];

function readOptions() {
    const text = { type: "string" };
    const flag = { type: "boolean", default: false };
    try {
        const { values } = parseArgs({
            options: {
                filter: { type: "string", multiple: true, default: [] },
                ...{ suite: { ...text, default: "full" }, seed: text, device: text, receipt: text },
                ...{ architectures: text, "limit-s": { ...text, default: "1800" }, gpus: text },
                tool: { type: "string", multiple: true, default: [] },
                ...{ sanitize: flag, "tools-only": flag, "at-once": flag, "build-only": flag, "check-receipt": flag }
            }
        });
        const tools = values.tool.length === 0 ? sanitizers : values.tool;
        const unknown = tools.find((tool) => !sanitizers.includes(tool));
        if (!/^\d+(,\d+)*$/.test(values.gpus ?? "0")) {
            throw new Error(`Expected numbers of GPUs such as 0,1 for --gpus but received '${values.gpus}'.`);
        }
        if (values.gpus !== undefined && (!values["at-once"] || values.filter.length > 0)) {
            throw new Error("--gpus is for --at-once, without --filter: each GPU has a part of the tests.");
        }
        if (unknown !== undefined) {
            throw new Error(`Expected ${sanitizers.join(", ")} for --tool but received '${unknown}'.`);
        }
        const sanitize = values.sanitize || values["tools-only"] || values.tool.length > 0;
        if (Number(values["limit-s"]) > 0) return { ...values, sanitize, tools };
        throw new Error(`Expected a number of seconds for --limit-s but received '${values["limit-s"]}'.`);
    } catch (error) {
        throw new BuildFailure(error.message, nothingRan);
    }
}

function programArguments(options, suite) {
    const given = ["seed", "device"].filter((name) => options[name] !== undefined);
    return [
        ...["--suite", suite],
        ...given.flatMap((name) => [`--${name}`, options[name]]),
        ...options.filter.flatMap((filter) => ["--filter", filter])
    ];
}

function fail(what) {
    failures.push(what);
    sum.failed += 1;
}

/** A failure of the run whose findings these are: runs may go on side by side. */
function note(found, what) {
    found.clean = false;
    fail(what);
}

/** Adds a run to the sum; a run that is not green and names no test that failed is a failure itself. */
function count(name, { code, end, report, seconds }, found = { clean: true }) {
    const tests = report?.tests ?? [];
    const passed = tests.filter((test) => test.status === "passed").length;
    const failed = tests.filter((test) => test.status === "failed");
    const leftOut = tests.filter((test) => test.status === "left out").length;
    sum.passed += passed;
    for (const test of failed) note(found, `${name}: ${test.name}: ${test.message.replaceAll(/\s+/g, " ")}`);
    if (code !== 0 && failed.length === 0) {
        note(found, `${name} ended with ${typeof code === "number" ? "code " : ""}${end}`);
    }
    const others = leftOut === 0 ? "" : `, ${leftOut} left out,`;
    console.log(`${name}: ${passed} passed and ${failed.length} failed${others} in ${seconds.toFixed(0)} s`);
    return { tests_passed: passed, tests_failed: failed.length, tests_left_out: leftOut };
}

/** What a tool says at its end: "ERROR SUMMARY: 0 errors" or, of racecheck, "0 hazards displayed"; null without it. */
function errorsTold(lines) {
    const told = lines.flatMap((line) => /SUMMARY: (\d+) (?:error|hazard)/.exec(line)?.[1] ?? []);
    return told.length === 0 ? null : told.reduce((total, number) => total + Number(number), 0);
}

// Threads of these kernels order their accesses to shared memory by acquire and release alone (cuda/far_partition/
// combining_buffers.cuh). racecheck knows barriers and no other order: it calls every such pair of accesses a hazard.
// ThreadSanitizer watches them on the host (test/native/cuda_far_partition_locks_test.cpp). Parts of mangled names.
const kernelsLeftOut = { racecheck: ["13shared_kernelILi", "11bulk_kernelILi", "19hierarchical_kernelILi"] };

// Neither follows kernels that kernels launch: initcheck calls all that they wrote uninitialized, and synccheck counts
// its warning about them as an error. Beginnings of the names of tests.
const testsLeftOut = { initcheck: ["child kernels: "], synccheck: ["child kernels: "] };

/** The tests that the tool can follow, by their names; none where those are all. */
function testsOf(tool, program, options) {
    const without = testsLeftOut[tool];
    if (without === undefined || options.filter.length > 0) return [];
    const { stdout, status } = spawnSync(program, ["--list"], { encoding: "utf8" });
    if (status !== 0) throw new BuildFailure(`${program} --list ended with ${status}`, nothingRan);
    const names = stdout.split("\n").filter((name) => name !== "");
    const wanted = names.filter((name) => !without.some((start) => name.startsWith(start)));
    return wanted.length === names.length ? [] : wanted.flatMap((name) => ["--filter", name]);
}

function toolArguments(tool) {
    const without = (kernelsLeftOut[tool] ?? []).flatMap((name) => ["--kernel-name-exclude", `kns=${name}`]);
    const common = ["--tool", tool, "--error-exitcode", "86", "--print-limit", "20", ...without];
    // Calls that fail are provoked by tests and checked by the code; memory that nobody freed is an error.
    return tool === "memcheck" ? [...common, "--leak-check", "full", "--report-api-errors", "no"] : common;
}

const partOf = (index, parts) => ["--part", `${index + 1}/${parts}`];

/** Of runs side by side, each of a part of the tests: one whose tests are those of all, and that fails if one does. */
function joined(runs) {
    const reports = runs.flatMap(({ report }) => report ?? []);
    const unlike = runs.find(({ code }) => code !== 0) ?? runs[0];
    return {
        ...unlike,
        lines: runs.flatMap(({ lines }) => lines),
        report: reports.length < runs.length ? null : { ...reports[0], tests: reports.flatMap(({ tests }) => tests) },
        seconds: Math.max(...runs.map(({ seconds }) => seconds))
    };
}

/** The tool on one part of its tests per GPU; the only GPU that such a process sees is its number 0. */
async function runTool(sanitizer, tool, suite, options, limitMs) {
    const program = programOfTool(tool);
    const tests = testsOf(tool, program, options);
    const run = (seen, part, env) => {
        const args = [...toolArguments(tool), program, ...programArguments(seen, suite), ...tests, ...part];
        return runProgram(sanitizer, args, limitMs, env);
    };
    if (options.gpus === undefined) return run(options, [], {});
    const gpus = options.gpus.split(",");
    const runs = gpus.map((gpu, index) =>
        run({ ...options, device: "0" }, partOf(index, gpus.length), { CUDA_VISIBLE_DEVICES: gpu })
    );
    const ran = await Promise.all(runs);
    const whole = joined(ran);
    // Summaries of other parts do not stand for the one that a part ended without.
    return ran.every(({ lines }) => errorsTold(lines) !== null) ? whole : { ...whole, lines: [] };
}

/** racecheck takes some seconds where others take a tenth: it has a suite of its own (test/gpu/watched.hpp). */
async function sanitize(sanitizer, tool, options, limitMs) {
    const suite = tool === "racecheck" ? "watched" : "small";
    console.log(`compute-sanitizer ${tool}, ${suite} suite:`);
    const run = await runTool(sanitizer, tool, suite, options, limitMs);
    const found = { clean: true };
    const counts = count(tool, run, found);
    const errors = errorsTold(run.lines);
    if (errors === null) note(found, `${tool} ended without a summary`);
    if (errors > 0 && found.clean) note(found, `${tool} found ${errors} errors`);
    const seconds = Math.round(run.seconds);
    const kernels_left_out = kernelsLeftOut[tool] ?? [];
    const left_out = { kernels_left_out, ...(testsLeftOut[tool] && { tests_without: testsLeftOut[tool] }) };
    return { tool, suite, clean: found.clean, errors: errors ?? 0, ...counts, ...left_out, seconds };
}

/** The suite; two parts of it per GPU side by side if all is to run at once, since most of its time is the host's. */
async function runSuite(program, options, limitMs) {
    if (!options["at-once"] || options.filter.length > 0) {
        return runProgram(program, programArguments(options, options.suite), limitMs);
    }
    const gpus = options.gpus?.split(",") ?? [options.device];
    const runs = [...gpus, ...gpus].map((device, index) => {
        const args = programArguments({ ...options, device }, options.suite);
        return runProgram(program, [...args, ...partOf(index, 2 * gpus.length)], limitMs);
    });
    return joined(await Promise.all(runs));
}

/** One after the other or, if all are to run at once, side by side: most of their time is the host's. */
async function sanitizeAll(sanitizer, tools, options, limitMs) {
    if (options["at-once"]) return Promise.all(tools.map((tool) => sanitize(sanitizer, tool, options, limitMs)));
    const ran = [];
    for (const tool of tools) ran.push(await sanitize(sanitizer, tool, options, limitMs));
    return ran;
}

const sumLine = () => {
    for (const failure of failures) console.log(`failed: ${failure}`);
    console.log(`${sum.passed} passed, ${sum.failed} failed`);
    process.exitCode = sum.failed === 0 && sum.passed > 0 ? 0 : 1;
};

/** The suite ran before, where there was no time for the tools as well. */
async function addTools(sanitizer, options, limitMs) {
    const receipt = readReceipt(options.receipt);
    const { sources_sha256 } = programOrigin();
    if (sources_sha256 === null || receipt?.sources_sha256 !== sources_sha256) {
        throw new BuildFailure("No tool was run: there is no receipt of a run of these sources to add to.", nothingRan);
    }
    const ran = await sanitizeAll(sanitizer, options.tools, options, limitMs);
    console.log(writeReceipt(withTools(receipt, ran), options.receipt));
    sumLine();
}

async function runAll(options) {
    const limitMs = Number(options["limit-s"]) * 1000;
    const sanitizer = options.sanitize ? findSanitizer() : null;
    const program = await programFor({
        architectures: options.architectures,
        buildOnly: options["build-only"],
        sanitize: options.sanitize
    });
    if (options["build-only"]) return;
    if (options.sanitize && sanitizer === null) {
        throw new BuildFailure("No test was run: there is no compute-sanitizer; COMPUTE_SANITIZER may name it.", 2);
    }
    if (options["tools-only"]) return addTools(sanitizer, options, limitMs);
    const running = runSuite(program, options, limitMs);
    const tools = sanitizer === null ? [] : options.tools;
    const sanitizing = options["at-once"] ? sanitizeAll(sanitizer, tools, options, limitMs) : null;
    const run = await running;
    if (run.code === nothingRan) {
        await sanitizing;
        throw new BuildFailure("", nothingRan); // the program has said why
    }
    count("GPU tests", run);
    const ran = await (sanitizing ?? sanitizeAll(sanitizer, tools, options, limitMs));
    if (run.report !== null) {
        const { device, cuda, suite, seed, tests } = run.report;
        const facts = { date: new Date().toISOString(), ...programOrigin(), device, driver: driverVersion(), cuda };
        const receipt = completed({ ...facts, suite, seed, filters: options.filter, sanitizers: ran, tests });
        console.log(writeReceipt(receipt, options.receipt));
    }
    sumLine();
}

try {
    const options = readOptions();
    if (options["check-receipt"]) console.log(receiptVerdict());
    else await runAll(options);
} catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    if (error.message !== "") console.error(error.message);
    process.exitCode = error.exitCode;
}
