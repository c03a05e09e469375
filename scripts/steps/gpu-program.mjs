// SPDX-License-Identifier: Apache-2.0
// The programs of the GPU tests and benchmarks: building them where that can be done, finding them where they were
// packed, running them.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { gpuInputsHash, gpuSourcesHash } from "./gpu-receipt.mjs";
import { parallelJobs } from "./limits.mjs";
import { withLock } from "./lock.mjs";
import { BuildFailure, note, root, runStep } from "./step.mjs";
import { hasNinja, missingTools } from "./tools.mjs";

const folder = join(root, "build", "gpu-tests");
const target = "spillway_gpu_tests";
const program = join(folder, target);
// Without bulk copies, which racecheck and initcheck do not see; built for sanitized runs only.
const plainProgram = `${program}_plain`;
const benchTarget = "spillway_gpu_bench";
// Beside the program, so that whoever packs both files can tell on another machine what it was built from.
const stampFile = `${program}.json`;
// nvcc with the sort and scan templates of CUB.
const compilerBytes = 2 * 2 ** 30;

function output(command, args) {
    const result = spawnSync(command, args, { cwd: root, encoding: "utf8" });
    return result.status === 0 ? result.stdout.trim() : null;
}

function findProgram(name, places) {
    const found = places.filter((path) => path && existsSync(path));
    if (found.length > 0) return found[0];
    return output("sh", ["-c", `command -v ${name}`]);
}

const findNvcc = () => findProgram("nvcc", [process.env["CUDACXX"], "/usr/local/cuda/bin/nvcc"]);

export function findSanitizer() {
    const inToolkit = ["bin/compute-sanitizer", "compute-sanitizer/compute-sanitizer"];
    const places = inToolkit.map((name) => join("/usr/local/cuda", name));
    return findProgram("compute-sanitizer", [process.env["COMPUTE_SANITIZER"], ...places]);
}

/** Signs of a GPU, to spare a long build in vain; the program itself has the last word. */
function seesGpu() {
    const devices = existsSync("/dev") ? readdirSync("/dev") : [];
    if (devices.some((name) => /^(nvidia\d+|nvhost-gpu|dxg)$/.test(name))) return true;
    return /^GPU \d/m.test(output("nvidia-smi", ["-L"]) ?? "");
}

export function driverVersion() {
    const told = output("nvidia-smi", ["--query-gpu=driver_version", "--format=csv,noheader"]);
    if (told) return told.split("\n")[0].trim();
    try {
        const text = readFileSync("/proc/driver/nvidia/version", "utf8");
        return /Kernel Module\D+([\d.]+)/.exec(text)?.[1] ?? null;
    } catch {
        return null;
    }
}

/** The commit of the tree, marked when the sources in question differ from it; null without git. */
function gitCommit() {
    const head = output("git", ["rev-parse", "HEAD"]);
    if (head === null) return null;
    const changes = output("git", ["status", "--porcelain", "--", "cuda", "native", "test/gpu", ":!test/gpu/*.json"]);
    return changes === "" ? head : `${head}+changes`;
}

function readStamp() {
    try {
        return JSON.parse(readFileSync(stampFile, "utf8"));
    } catch {
        return null;
    }
}

/** Hash of the sources that the program was built from (null: unknown) and their commit. */
export function programOrigin() {
    const stamp = readStamp();
    const sources_sha256 = stamp?.sources_sha256 ?? null;
    const isTree = sources_sha256 !== null && sources_sha256 === gpuSourcesHash();
    const commit = process.env["SPILLWAY_COMMIT"] || (isTree ? gitCommit() : null) || stamp?.commit || null;
    return { sources_sha256, commit };
}

/** One architecture per generation of the GPUs of this machine: a test build need not run anywhere else. */
function architecturesHere() {
    const told = output("nvidia-smi", ["--query-gpu=compute_cap", "--format=csv,noheader"]) ?? "";
    const numbers = told.split("\n").map((line) => line.trim().replace(".", ""));
    return [...new Set(numbers.filter((number) => /^\d+$/.test(number)))].join(";");
}

async function compile(name, targets, architectures) {
    const generator = hasNinja() ? ["-G", "Ninja"] : [];
    const options = ["-DCMAKE_BUILD_TYPE=Release", "-DSPILLWAY_CUDA=ON"];
    options.push(`-DSPILLWAY_CUDA_ARCHITECTURES=${architectures}`);
    await runStep(`configuration of the ${name}`, "cmake", ["-S", root, "-B", folder, ...generator, ...options]);
    const jobs = String(parallelJobs(compilerBytes));
    await runStep(name, "cmake", ["--build", folder, "--target", ...targets, "--parallel", jobs]);
}

async function build(architectures, sanitize) {
    const inputs_sha256 = gpuInputsHash();
    const sources_sha256 = gpuSourcesHash();
    mkdirSync(folder, { recursive: true });
    await withLock(folder, async () => {
        rmSync(stampFile, { force: true });
        const targets = sanitize ? [target, `${target}_plain`] : [target];
        await compile("GPU tests", targets, architectures);
        const commit = process.env["SPILLWAY_COMMIT"] || gitCommit();
        const stamp = { sources_sha256, inputs_sha256, commit, architectures };
        writeFileSync(stampFile, `${JSON.stringify(stamp, null, 4)}\n`);
    });
}

/** Why the program cannot be built here; null when it can. */
function buildObstacle() {
    const sources = ["CMakeLists.txt", "cuda/CMakeLists.txt", "native/base", "test/gpu/CMakeLists.txt"];
    const absent = sources.find((name) => !existsSync(join(root, name)));
    if (absent !== undefined) return `the sources are not here (no ${absent})`;
    if (findNvcc() === null) return "there is no nvcc (looked at CUDACXX, /usr/local/cuda/bin and PATH)";
    return missingTools()?.replace(/\.$/, "") ?? null;
}

/** Ends the run where there is no sign of a GPU. */
function expectGpu(nothing = "No test was run") {
    if (seesGpu()) return;
    throw new BuildFailure(`${nothing}: this machine has no GPU (--build-only compiles without one).`, 2);
}

/**
 * The path of a program that is as new as the sources, or of the packed one where nothing can be built.
 * `sanitize`: the one without bulk copies as well. `architectures`: as CMake wants them; undefined takes what the
 * last build had, or what fits this machine.
 */
export async function programFor({ architectures, buildOnly, sanitize }) {
    const stamp = existsSync(program) ? readStamp() : null;
    const obstacle = buildObstacle();
    if (obstacle !== null) {
        if (buildOnly) throw new BuildFailure(`The GPU tests cannot be built: ${obstacle}.`);
        if (!existsSync(program)) {
            expectGpu();
            throw new BuildFailure(`No test was run: the GPU tests cannot be built, ${obstacle}.`, 2);
        }
        if (existsSync(join(root, "cuda")) && stamp?.sources_sha256 !== gpuSourcesHash()) {
            note(`The program of the GPU tests is not of these sources; it cannot be built anew: ${obstacle}.`);
        }
        return program;
    }
    const wanted = architectures ?? stamp?.architectures ?? architecturesHere();
    const built = existsSync(program) && (!sanitize || existsSync(plainProgram));
    if (built && stamp?.inputs_sha256 === gpuInputsHash() && stamp.architectures === wanted) return program;
    if (!buildOnly) expectGpu();
    await build(wanted, sanitize);
    return program;
}

/** The program that a tool of compute-sanitizer can follow. */
export function programOfTool(tool) {
    if (tool === "memcheck" || tool === "synccheck") return program;
    if (existsSync(plainProgram)) return plainProgram;
    throw new BuildFailure(`compute-sanitizer ${tool} needs ${target}_plain beside the program of the GPU tests.`, 2);
}

/** The path of the benchmark program, compiled from the sources that are here, or the packed one where none are. */
export async function benchProgram({ architectures, buildOnly }) {
    const path = join(folder, benchTarget);
    const nothing = "Nothing was measured";
    const obstacle = buildObstacle() ?? (existsSync(join(root, "test/bench/gpu")) ? null : "its sources are not here");
    if (obstacle !== null) {
        if (buildOnly) throw new BuildFailure(`The GPU benchmark cannot be built: ${obstacle}.`);
        if (existsSync(path)) return path;
        expectGpu(nothing);
        throw new BuildFailure(`${nothing}: the GPU benchmark cannot be built, ${obstacle}.`, 2);
    }
    if (!buildOnly) expectGpu(nothing);
    mkdirSync(folder, { recursive: true });
    // Tests and benchmark share the folder and so their architectures.
    const wanted = architectures ?? readStamp()?.architectures ?? architecturesHere();
    await withLock(folder, () => compile("GPU benchmark", [benchTarget], wanted));
    return path;
}

function readReport(file) {
    try {
        return JSON.parse(readFileSync(file, "utf8"));
    } catch {
        return null;
    }
}

/**
 * Runs a command whose last arguments make the program write a report, and ends it after `limitMs`; `env`: variables of
 * its own.
 */
export async function runProgram(command, args, limitMs, env = {}) {
    const scratch = mkdtempSync(join(tmpdir(), "spillway-gpu-"));
    const file = join(scratch, "report.json");
    try {
        const start = Date.now();
        // A group of its own: compute-sanitizer runs the program as a child, which must not outlive it.
        const options = {
            ...{ cwd: root, stdio: ["ignore", "pipe", "inherit"], detached: true },
            env: { ...process.env, ...env }
        };
        const child = spawn(command, [...args, "--json", file], options);
        const kill = () => process.kill(-child.pid, "SIGKILL");
        const timer = setTimeout(kill, limitMs);
        const interrupts = ["SIGINT", "SIGTERM"];
        for (const signal of interrupts) process.once(signal, kill);
        const lines = [];
        const reader = createInterface({ input: child.stdout });
        reader.on("line", (line) => {
            lines.push(line);
            if (!/^\d+ passed, \d+ failed$/.test(line)) console.log(line); // the caller's last line is the sum of all
        });
        const ended = await new Promise((resolve) => {
            child.on("error", (error) => resolve(error.message));
            child.on("close", (code, signal) => resolve(code ?? signal));
        });
        clearTimeout(timer);
        for (const signal of interrupts) process.removeListener(signal, kill);
        const late = Date.now() - start >= limitMs && ended === "SIGKILL";
        const end = late ? `the time limit of ${limitMs / 1000} s` : ended;
        const report = readReport(file);
        for (const test of report?.tests ?? []) {
            if (test.status !== "running") continue;
            Object.assign(test, { status: "failed", message: `the run ended in it: ${end}` });
            console.log(`FAILED ${test.name}: ${test.message}`);
        }
        return { code: ended, end, lines, report, seconds: (Date.now() - start) / 1000 };
    } finally {
        rmSync(scratch, { recursive: true, force: true });
    }
}
