// SPDX-License-Identifier: Apache-2.0
// test/gpu/receipt.json: what the last run of the GPU tests was and of which sources. CI has no GPU; it compares the
// receipt with the tree instead. Only built-in modules, here and in gpu-program.mjs: a GPU machine may have no others.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { hashOf } from "./sources.mjs";
import { root } from "./step.mjs";

export const sanitizers = ["memcheck", "racecheck", "synccheck", "initcheck"];
export const receiptName = "test/gpu/receipt.json";
const receiptFile = join(root, receiptName);

function gpuTestSources() {
    try {
        const names = readdirSync(join(root, "test/gpu"), { recursive: true }).map(String);
        return names.filter((name) => /\.(cu|cuh|hpp)$/.test(name)).map((name) => join("test/gpu", name));
    } catch {
        return [];
    }
}

/** What a receipt vouches for. native/ belongs to it: kernels include its headers and agree with its layouts. */
export function gpuSourcesHash() {
    return hashOf(["cuda", "native", ...gpuTestSources()]);
}

/** All that the program is built from: the sources and how they are compiled. */
export function gpuInputsHash() {
    return hashOf(["CMakeLists.txt", "cuda", "native", "test/gpu/CMakeLists.txt", ...gpuTestSources()]);
}

const isText = (value) => typeof value === "string" && value !== "";
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
const isTextList = (value) => Array.isArray(value) && value.every(isText);
const statuses = ["passed", "failed", "left out", "not run"];
const isTest = (test) =>
    isText(test?.name) &&
    statuses.includes(test.status) &&
    Number.isFinite(test.ms) &&
    (test.left_out === undefined ? test.status !== "left out" : isText(test.left_out));
const isSanitizer = (run) =>
    sanitizers.includes(run?.tool) &&
    typeof run.clean === "boolean" &&
    [run.errors, run.tests_passed, run.tests_failed, run.tests_left_out].every(isCount);

const fields = {
    complete: (value) => typeof value === "boolean",
    date: (value) => isText(value) && !Number.isNaN(Date.parse(value)),
    commit: (value) => value === null || isText(value),
    sources_sha256: (value) => value === null || /^[0-9a-f]{64}$/.test(value),
    device: (value) => isText(value?.name) && isText(value.compute_capability) && isCount(value.memory_bytes),
    driver: (value) => value === null || isText(value),
    cuda: (value) => isText(value?.driver) && isText(value.runtime),
    suite: (value) => value === "full" || value === "small",
    seed: (value) => /^\d+$/.test(value),
    filters: isTextList,
    not_run: isTextList,
    tests_passed: isCount,
    tests_failed: isCount,
    tests_left_out: isCount,
    tests: (value) => Array.isArray(value) && value.every(isTest),
    sanitizers: (value) => Array.isArray(value) && value.every(isSanitizer)
};

/** Why a run does not vouch for its sources, one text for each part that was not run or not whole. */
function gaps(receipt) {
    const list = receipt.filters.map((filter) => `tests whose names do not contain '${filter}'`);
    if (receipt.suite !== "full") list.push("the full suite");
    list.push(...receipt.tests.filter((test) => test.status === "not run").map((test) => `test '${test.name}'`));
    const run = receipt.sanitizers.map(({ tool }) => tool);
    list.push(...sanitizers.filter((tool) => !run.includes(tool)).map((tool) => `compute-sanitizer ${tool}`));
    if (receipt.sources_sha256 === null) list.push("a comparison with the sources: who built the program is unknown");
    return list;
}

/** Fills in what follows from the rest: what was not run, the counts and whether the receipt vouches for anything. */
export function completed(facts) {
    const count = (status) => facts.tests.filter((test) => test.status === status).length;
    const not_run = gaps(facts);
    const clean = facts.sanitizers.every((run) => run.clean);
    return {
        complete: not_run.length === 0 && clean && count("failed") === 0 && count("passed") > 0,
        not_run,
        tests_passed: count("passed"),
        tests_failed: count("failed"),
        tests_left_out: count("left out"),
        ...facts
    };
}

/** The receipt with further runs of tools, which take the place of runs of the same tools. */
export function withTools(receipt, ran) {
    const derived = ["complete", "not_run", "tests_passed", "tests_failed", "tests_left_out"];
    const facts = Object.fromEntries(Object.entries(receipt).filter(([name]) => !derived.includes(name)));
    const runs = new Map([...receipt.sanitizers, ...ran].map((run) => [run.tool, run]));
    return completed({ ...facts, sanitizers: sanitizers.flatMap((tool) => runs.get(tool) ?? []) });
}

/** What is wrong with the form of a receipt, and with claims that its own lists contradict. */
export function receiptProblems(receipt) {
    if (typeof receipt !== "object" || receipt === null) return ["it is no object"];
    const bad = Object.keys(fields).filter((name) => !fields[name](receipt[name]));
    if (bad.length > 0) return bad.map((name) => `'${name}' is missing or malformed`);
    const { complete, not_run, tests_passed, tests_failed, tests_left_out, ...facts } = receipt;
    const derived = completed(facts);
    const problems = [];
    const counts = [tests_passed, tests_failed, tests_left_out];
    if (counts.join() !== [derived.tests_passed, derived.tests_failed, derived.tests_left_out].join()) {
        problems.push("the numbers of tests are not those of the list");
    }
    if (complete !== derived.complete) problems.push(`'complete' is ${complete}, its lists say ${derived.complete}`);
    if (JSON.stringify(not_run) !== JSON.stringify(derived.not_run)) {
        problems.push("'not_run' is not what the lists lack");
    }
    if (new Set(receipt.tests.map(({ name }) => name)).size !== receipt.tests.length) {
        problems.push("a test is listed twice");
    }
    return problems;
}

/** The receipt of the tree, null when there is none; throws when it is no JSON. */
export function readReceipt(file = receiptFile) {
    let text;
    try {
        text = readFileSync(file, "utf8");
    } catch (error) {
        if (error.code === "ENOENT") return null;
        throw error;
    }
    return JSON.parse(text);
}

/**
 * What the machine of the run lacks, and for how many tests: a receipt is complete without them, since no machine has
 * all that tests ask for, but does not vouch for them.
 */
function leftOut({ tests }) {
    const reasons = new Map();
    for (const { left_out } of tests) {
        for (const reason of left_out?.split("; ") ?? []) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    }
    if (reasons.size === 0) return "";
    const each = [...reasons].map(([reason, count]) => `${reason} (${count} test${count === 1 ? "" : "s"})`);
    return `; left out, at least in part: ${each.join(", ")}`;
}

/** One line for a log: a warning when the receipt does not vouch for the CUDA code of this tree. */
export function receiptVerdict() {
    let receipt;
    try {
        receipt = readReceipt();
    } catch (error) {
        return `warning: ${receiptName} cannot be read: ${error.message}`;
    }
    const never = "the CUDA code of this tree has not been tested on a GPU";
    if (receipt === null) return `warning: ${never}: there is no ${receiptName}`;
    const problems = receiptProblems(receipt);
    if (problems.length > 0) return `warning: ${receiptName} is malformed: ${problems.join("; ")}`;
    const run = `${receipt.device.name}, ${receipt.date}, ${receipt.tests_passed} passed${leftOut(receipt)}`;
    if (receipt.sources_sha256 !== gpuSourcesHash())
        return `warning: ${never}: ${receiptName} is of other sources (${run})`;
    if (receipt.complete) return `GPU tests passed with the CUDA code of this tree: ${run}`;
    const open = [...receipt.not_run];
    if (receipt.tests_failed > 0) open.unshift(`${receipt.tests_failed} tests failed`);
    for (const { tool, clean } of receipt.sanitizers) if (!clean) open.push(`compute-sanitizer ${tool} found errors`);
    return `warning: ${receiptName} is not complete (${run}); open: ${open.join("; ")}`;
}

/**
 * Writes it, unless it would hide a better one: a green but partial run says nothing against a complete receipt of the
 * same sources. Returns a line about what was done.
 */
export function writeReceipt(receipt, file = receiptFile) {
    const green = receipt.tests_failed === 0 && receipt.sanitizers.every((run) => run.clean);
    const lost = receipt.tests.some((test) => test.status === "not run");
    let old = null;
    try {
        old = readReceipt(file);
    } catch {
        // A damaged one is replaced.
    }
    const kept = old?.complete === true && old.sources_sha256 === receipt.sources_sha256;
    if (kept && green && !lost && !receipt.complete) return `${file} is kept: it is of a complete run.`;
    writeFileSync(file, `${JSON.stringify(receipt, null, 4)}\n`);
    const open = receipt.complete ? "complete" : `not complete, not run: ${receipt.not_run.join("; ") || "nothing"}`;
    return `Wrote ${file} (${open}).`;
}
