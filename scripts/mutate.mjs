// SPDX-License-Identifier: Apache-2.0
// node scripts/mutate.mjs                        mutates src/planner, src/arrow, src/runtime and src/execute with
//                                                StrykerJS and says which mutants no test of theirs notices
// node scripts/mutate.mjs src/planner            that folder alone
// node scripts/mutate.mjs src/planner/pools.ts   those files alone
// node scripts/mutate.mjs --force ...            also what has not changed since it was tried
// Writes docs/results/mutation.json. No part of CI: all four folders take hours of a core.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Stryker } from "@stryker-mutator/core";
import { folderOf, mergedRecord, readRecord, recordName, writeRecord } from "./steps/mutation-record.mjs";
import { note, root } from "./steps/step.mjs";

const aim = 85;
const node = (...places) => places.map((place) => `test/node/${place}.test.ts`);

/**
 * The tests of each folder: in this process, fast, and made for it. What only some join of whole relations would notice
 * is counted as missed. `runs`: for how many mutants a process is kept; fewer where code keeps state. A process
 * in which a test failed may hold what that test left behind, and is kept only where nothing can be left.
 */
const folders = {
    "src/planner": { tests: node("planner/*", "plan/*"), gpuTests: [], timeoutMs: 60_000, runs: 100, keepFailed: true },
    "src/arrow": {
        tests: node("arrow/*", "api/*", "bad-input/{files,relations}", "differential/result-types", "runtime/streams"),
        ...{ gpuTests: [], timeoutMs: 20_000, runs: 50, keepFailed: true }
    },
    "src/runtime": {
        tests: node("runtime/*", "api/*", "bad-input/{files,options,relations}", "planner/out-of-core-machine"),
        gpuTests: node("device/{algorithms,limits,queries,report-figures,sampling}"),
        ...{ timeoutMs: 8000, runs: 20, keepFailed: false }
    },
    "src/execute": {
        tests: node("runtime/*", "api/*"),
        gpuTests: node("device/{algorithms,limits,queries,report-figures,out-of-core-{groups,lost,turns}}"),
        ...{ timeoutMs: 8000, runs: 20, keepFailed: false }
    }
};
const names = Object.keys(folders);
/** More than a second, most of them with random or all budgets. */
const slow = ["budgets", "plan-query", "planner/out-of-core.", "out-of-core-c", "out-of-core-f", "out-of-core-group."];
slow.push("out-of-core-small", "plan-device", "arrow/metadata", "opened-files-cache", "bad-input/", "api/");

function sourcesOf(folder) {
    const found = readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, String(name)));
    return found.filter((name) => name.endsWith(".ts")).sort();
}

function fail(message) {
    note(message);
    process.exit(2);
}

/** The files of each folder that the arguments name: `{ folder: { files, whole } }`. */
function chosen(paths) {
    const wanted = {};
    for (const path of paths.length === 0 ? names : paths) {
        const name = path.replace(/\/$/, "");
        const folder = folderOf(name, names);
        if (folder === undefined || !existsSync(join(root, name))) {
            fail(`Expected a folder or file of ${names.join(", ")} but received '${path}'.`);
        }
        const isFolder = statSync(join(root, name)).isDirectory();
        const files = isFolder ? sourcesOf(folder).filter((file) => file.startsWith(`${name}/`)) : [name];
        const { files: others = [], whole = false } = wanted[folder] ?? {};
        wanted[folder] = { files: [...new Set([...others, ...files])], whole: whole || name === folder };
    }
    return wanted;
}

/** A folder with the plugin of plain C++ under the names that the addon looks for. */
function gpuFolder() {
    const folder = join(root, "build/mutation/gpu");
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const built = { "libspillway_fake_plugin.so": "libspillway_cuda.so", spillway_gpu_probe: "spillway_gpu_probe" };
    for (const [from, to] of Object.entries(built)) {
        const path = [join(root, "build/Release", from), join(root, "build", from)].find((place) => existsSync(place));
        if (path === undefined) fail(`${from} is not built: run npm run test:native once.`);
        symlinkSync(path, join(folder, to));
    }
    return folder;
}

function commit() {
    try {
        const git = (...args) => execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim();
        const changed = git("status", "--porcelain", "--", "src", "test") === "" ? "" : " and changes";
        return `${git("rev-parse", "--short", "HEAD")}${changed}`;
    } catch {
        return null;
    }
}

async function mutate(folder, files, force) {
    process.env["SPILLWAY_MUTATION"] = JSON.stringify({ ...folders[folder], slow, gpuFolder: gpuFolder() });
    // Tests of random cases: many more find little more, and each survivor takes them all.
    process.env["SPILLWAY_SEEDS"] = "3";
    const copied = ["src", "test", "configs", "docs", "scripts"].flatMap((name) => [`!${name}`, `!${name}/**`]);
    const stryker = new Stryker({
        ...{
            mutate: files,
            incremental: true,
            force,
            incrementalFile: `build/mutation/${folder.replace("/", "-")}.json`
        },
        ...{ testRunner: "vitest", plugins: ["@stryker-mutator/vitest-runner"], coverageAnalysis: "perTest" },
        vitest: { configFile: "test/mutation/vitest.config.ts", related: false },
        // In the copy that is mutated the addon is found through a link.
        ...{ tempDirName: "build/mutation/sandbox", cleanTempDir: "always", buildCommand: `ln -s ${root}/build build` },
        ignorePatterns: ["*", ...copied, "!package.json", "!tsconfig.json"],
        // Texts of messages and names of stages: tests that repeat them word for word would only copy them.
        mutator: { excludedMutations: ["StringLiteral"] },
        // What is computed while a module loads needs a new process and all tests for each mutant.
        ignoreStatic: true,
        ...{ concurrency: availableParallelism(), timeoutMS: 10_000, timeoutFactor: 2, allowEmpty: true },
        ...{ reporters: ["progress-append-only"], allowConsoleColors: false, logLevel: "error" }
    });
    return await stryker.runMutationTest();
}

const { values, positionals } = parseArgs({ options: { force: { type: "boolean" } }, allowPositionals: true });
const wanted = chosen(positionals);
const built = spawnSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root, stdio: "inherit" });
if (built.status !== 0) fail("The build failed; see above.");
for (const [folder, { files, whole }] of Object.entries(wanted)) {
    const start = Date.now();
    note(`${folder}: ${files.length} files`);
    const stamp = { date: new Date().toISOString().slice(0, 10), commit: commit() };
    const results = await mutate(folder, files, values.force === true).catch((error) =>
        fail(`${folder}: ${error.message}`)
    );
    const took = Math.round((Date.now() - start) / 1000);
    // This holds for a run that tried all mutants anew.
    const seconds = whole && values.force === true ? { [folder]: took } : {};
    const record = mergedRecord(readRecord(), results, { folders: names, inFolder: sourcesOf, stamp, seconds });
    writeRecord(record);
    for (const file of files) {
        const { score, survivors } = record.files[file] ?? { score: null, survivors: [] };
        note(`  ${file}: ${score === null ? "no mutants" : `${score} %, ${survivors.length} left`}`);
    }
    const { score, measured, files: all } = record.folders[folder];
    note(`${folder}: ${score ?? "-"} % of ${measured} of ${all} files (aim: ${aim} %), in ${took} s`);
}
note(`Survivors: ${recordName}`);
