// SPDX-License-Identifier: Apache-2.0
// node scripts/check.mjs        prettier, eslint, clang-format and tsc; exit code 1 when one of them complains
//                               (side by side: each takes little more than one core)
// node scripts/check.mjs --fix  lets prettier, eslint and clang-format write what they can
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const fix = process.argv.includes("--fix");
const failed = [];

/** What it prints is kept until it ends: others run meanwhile. */
async function step([name, command, args]) {
    const start = Date.now();
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    const ended = once(child, "close"); // rejects if it cannot be started
    const [[status], ...printed] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
    const ok = status === 0;
    if (!ok) failed.push(name);
    process.stdout.write(printed.join(""));
    console.log(`${ok ? "ok    " : "FAILED"} ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
}

/** Two at once on two cores; one after another where they write, since some write the same files. */
async function runAll(steps) {
    const waiting = [...steps];
    const worker = async () => {
        for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await step(next);
    };
    const workers = fix ? 1 : availableParallelism();
    await Promise.all(Array.from({ length: workers }, worker));
}

function nativeSources() {
    const suffix = /\.(cpp|hpp|h|cu|cuh)$/;
    return ["native", "cuda", "test/native", "test/gpu", "test/bench/gpu"].flatMap((folder) => {
        try {
            return readdirSync(join(root, folder), { recursive: true })
                .map((name) => join(folder, String(name)))
                .filter((name) => suffix.test(name));
        } catch {
            return [];
        }
    });
}

function clangFormat() {
    const program = process.env["CLANG_FORMAT"] ?? "clang-format";
    if (spawnSync(program, ["--version"], { stdio: "ignore" }).status !== 0) {
        console.log(`skip   clang-format: '${program}' is not installed (Debian and Ubuntu: apt install clang-format)`);
        return [];
    }
    const files = nativeSources();
    if (files.length === 0) return [];
    return [["clang-format", program, [...(fix ? ["-i"] : ["--dry-run", "--Werror"]), ...files]]];
}

const node = process.execPath;
const modules = "node_modules";
const prettier = [join(modules, "prettier/bin/prettier.cjs"), fix ? "--write" : "--check", "--log-level=warn", "."];
const eslint = [join(modules, "eslint/bin/eslint.js"), "--max-warnings=0", ...(fix ? ["--fix"] : []), "."];
const compiler = join(modules, "typescript/bin/tsc");
// The longest first.
await runAll([
    ["eslint", node, eslint],
    ["tsc test/tsconfig.json", node, [compiler, "--noEmit", "-p", "test/tsconfig.json"]],
    ["prettier", node, prettier],
    ["tsc tsconfig.json", node, [compiler, "--noEmit", "-p", "tsconfig.json"]],
    ...clangFormat()
]);
if (failed.length > 0) {
    console.log(`Complaints from ${failed.join(", ")}.${fix ? "" : " 'npm run format' writes what can be written."}`);
    process.exitCode = 1;
}
