// SPDX-License-Identifier: Apache-2.0
// node scripts/test.mjs                    builds what is out of date, runs the native unit tests, then vitest
// node scripts/test.mjs native [NAME]      native unit tests only (those whose name contains NAME)
// node scripts/test.mjs node [FILTER ...]  vitest only, with its own arguments
// node scripts/test.mjs hostile [OPTION ...]  hostile files only, with the options of test/hostile/run.mjs
// node scripts/test.mjs sanitize           native unit tests under ASan + UBSan and under TSan, hostile files under the
//                                          former and without
// The last line is always "N passed, N failed", the sum of everything that ran; a line "failed: ..." for each failure
// comes before it, so that the end of a long log says what went wrong.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const sum = { passed: 0, failed: 0 };
const failures = [];
const quiet = "--log-level=WARNING";
const hostileSeconds = "50"; // under the sanitizers: all crafted files, then patched ones until the time ends
const hostilePlainSeconds = "20";

function run(command, args, options = {}) {
    const result = spawnSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"], ...options });
    if (result.error) throw result.error;
    return result;
}

function exists(command) {
    return spawnSync(command, ["--version"], { stdio: "ignore" }).status === 0;
}

function fail(what) {
    console.error(what);
    failures.push(what);
    sum.failed += 1;
}

function buildPackage(...options) {
    const built = run(process.execPath, ["scripts/build.mjs", "--if-needed", ...options]);
    if (built.status !== 0) fail("The build failed; see above.");
    return built.status === 0;
}

/** The tests share the folder of the addon, so that the engine is compiled once. */
function configureWithAddon() {
    if (!buildPackage("--native-only")) return null;
    return { folder: "build", status: run("cmake", ["-S", ".", "-B", "build", "-DSPILLWAY_TESTS=ON", quiet]).status };
}

/** What cmake-js would tell CMake of Node's headers: with it, the folder builds the addon, too. */
function addonOptions() {
    const require = createRequire(import.meta.url);
    // One of the two names its folder relative to the current one.
    const folders = ["node-api-headers", "node-addon-api"].map((name) => resolve(require(name).include_dir));
    return [`-DCMAKE_JS_INC=${folders.join(";")}`];
}

function configureSanitized(sanitize) {
    const folder = join("build", `sanitize-${sanitize}`);
    const generator = exists("ninja") ? ["-G", "Ninja"] : [];
    // Warnings are no errors here: in instrumented code GCC sees overflows and unset values that are not there.
    const options = ["-DSPILLWAY_TESTS=ON", "-DSPILLWAY_CUDA=OFF", ...(sanitize === "address" ? addonOptions() : [])];
    const sources = ["-S", ".", "-B", folder, ...generator];
    return { folder, status: run("cmake", [...sources, ...options, `-DSPILLWAY_SANITIZE=${sanitize}`, quiet]).status };
}

/** Configures and builds spillway_native_tests; returns the program or null. */
function buildNative(name, sanitize) {
    const configured = sanitize === "" ? configureWithAddon() : configureSanitized(sanitize);
    if (configured === null) return null;
    const { folder, status } = configured;
    const jobs = String(availableParallelism());
    // Behind tests that run meanwhile: some of them wait for a time.
    const targets = ["spillway_native_tests", ...(sanitize === "address" ? ["spillway"] : [])];
    const build = ["cmake", "--build", folder, "--target", ...targets, "--parallel", jobs];
    if (status === 0 && run("nice", build).status === 0) {
        // The addon's folder keeps programs per configuration, as cmake-js wants it.
        const places = [join(root, folder, "Release"), join(root, folder)];
        const program = places.map((place) => join(place, "spillway_native_tests")).find((path) => existsSync(path));
        if (program !== undefined) return program;
    }
    fail(`Building the native tests (${name}) failed; see above.`);
    return null;
}

/** The plugin of plain C++ that tests of queries on the GPU open; the native tests build it too. */
function buildFakeGpu() {
    const { folder, status } = configureWithAddon() ?? { status: 1 };
    const targets = ["spillway_fake_plugin", "spillway_gpu_probe"];
    const built = status === 0 && run("cmake", ["--build", folder, "--target", ...targets]).status === 0;
    if (!built) fail("Building the plugin for tests of the GPU failed; see above.");
}

// GCC's thread sanitizer cannot map its shadow when the kernel randomizes addresses with many bits.
function withoutRandomAddresses(program) {
    const probe = spawnSync("setarch", ["-R", "true"], { stdio: "ignore" });
    return probe.status === 0 ? ["setarch", "-R", program] : [program];
}

/** Runs a program that prints "FAILED ..." lines and counts at its end: `{ status, signal, stdout }`. */
async function runProgram(command, args, env = {}) {
    const child = spawn(command, args, {
        cwd: root,
        stdio: ["ignore", "pipe", "inherit"],
        env: { ...process.env, ...env }
    });
    const ended = once(child, "close");
    const stdout = await text(child.stdout);
    const [status, signal] = await ended;
    return { status, signal, stdout };
}

/** Runs the tests of a program that buildNative() made. */
async function runTests(program, sanitize, filter) {
    const [command, ...args] = sanitize === "thread" ? withoutRandomAddresses(program) : [program];
    return runProgram(command, [...args, ...filter], {
        ASAN_OPTIONS: "detect_leaks=1:allocator_may_return_null=1",
        UBSAN_OPTIONS: "print_stacktrace=1",
        TSAN_OPTIONS: "halt_on_error=1:second_deadlock_stack=1"
    });
}

function report(name, { status, signal, stdout }) {
    const lines = stdout.trimEnd().split("\n");
    failures.push(...lines.filter((line) => line.startsWith("FAILED ")).map((line) => `${name}: ${line.slice(7)}`));
    const counts = /^(\d+) passed, (\d+) failed$/.exec(lines.at(-1) ?? "");
    for (const line of counts ? lines.slice(0, -1) : lines) console.log(line);
    const passed = Number(counts?.[1] ?? 0);
    const failed = Number(counts?.[2] ?? 0);
    sum.passed += passed;
    sum.failed += failed;
    console.log(`${name}: ${passed} passed and ${failed} failed`);
    if (status !== 0 && failed === 0) {
        fail(`${name} ended with ${signal ?? `exit code ${status}`}: a crash or a sanitizer report.`);
    }
}

/** `kinds`: [name, sanitizer]. One runs while the next is built, the last on two cores: most tests take one. */
async function runNative(kinds, [filter = ""] = []) {
    const runs = kinds.flatMap(([name, sanitize], at) => {
        const program = buildNative(name, sanitize);
        if (program === null) return [];
        const shares = at + 1 < kinds.length ? 1 : Math.min(2, availableParallelism());
        return Array.from({ length: shares }, (_, i) => ({
            name: shares === 1 ? name : `${name}, ${i + 1} of ${shares}`,
            ended: runTests(program, sanitize, shares === 1 ? [filter] : [filter, `${i + 1}/${shares}`])
        }));
    });
    for (const { name, ended } of runs) report(name, await ended);
}

async function runHostile(options, name = "hostile") {
    report(name, await runProgram(process.execPath, ["test/hostile/run.mjs", ...options]));
}

/** One line for each test that failed, and for each file that failed outside its tests. */
function vitestFailures({ testResults = [] }) {
    const oneLine = (text) => text.split("\n    at ")[0].replaceAll(/\s+/g, " ").trim().slice(0, 500);
    return testResults.flatMap(({ name, message, status, assertionResults }) => {
        const failed = assertionResults.filter((result) => result.status === "failed");
        const told = failed.map(
            ({ fullName, failureMessages }) => `${fullName}: ${oneLine(failureMessages.join(" "))}`
        );
        if (told.length === 0 && status === "failed") told.push(oneLine(message));
        return told.map((text) => `${relative(root, name)}: ${text}`);
    });
}

function runVitest(filters) {
    const folder = mkdtempSync(join(tmpdir(), "spillway-vitest-"));
    const report = join(folder, "report.json");
    try {
        const result = run(process.execPath, [
            ...["node_modules/vitest/vitest.mjs", "run", "--reporter=default", "--reporter=json"],
            ...[`--outputFile.json=${report}`, ...filters]
        ]);
        let counts = { numPassedTests: 0, numFailedTests: 0 };
        try {
            counts = JSON.parse(readFileSync(report, "utf8"));
        } catch {
            fail("vitest left no report.");
        }
        sum.passed += counts.numPassedTests;
        sum.failed += counts.numFailedTests;
        failures.push(...vitestFailures(counts));
        if (result.status !== 0 && counts.numFailedTests === 0) {
            fail(`vitest ended with ${result.signal ?? `exit code ${result.status}`} outside a test; see above.`);
        }
    } finally {
        rmSync(folder, { recursive: true, force: true });
    }
}

async function runNodeTests(part, filters) {
    if (part === "all") await runNative([["native tests", ""]]);
    else buildFakeGpu();
    runVitest(filters);
}

async function main([part = "all", ...rest]) {
    if (!["all", "native", "node", "hostile", "sanitize"].includes(part)) {
        console.error(`Expected all, native, node, hostile or sanitize but received '${part}'.`);
        process.exitCode = 2;
        return;
    }
    if (part === "sanitize") {
        const kinds = [
            ["native tests, TSan", "thread"],
            ["native tests, ASan and UBSan", "address"]
        ];
        await runNative(kinds, rest);
        if (rest.length === 0 && buildPackage()) {
            const options = ["--seconds", hostileSeconds, "--sanitized", "build/sanitize-address"];
            await runHostile(options, "hostile files, ASan and UBSan");
            // A sanitizer hides what the program itself takes: without one, memory is held to what README promises.
            await runHostile(["--seconds", hostilePlainSeconds], "hostile files");
        }
    } else if (part === "native") {
        await runNative([["native tests", ""]], rest);
    } else if (buildPackage()) {
        if (part === "hostile") await runHostile(rest);
        else await runNodeTests(part, rest);
    }
    for (const failure of failures) console.log(`failed: ${failure}`);
    console.log(`${sum.passed} passed, ${sum.failed} failed`);
    process.exitCode = sum.failed === 0 && sum.passed > 0 ? 0 : 1;
}

await main(process.argv.slice(2));
