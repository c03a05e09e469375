// SPDX-License-Identifier: Apache-2.0
// node scripts/check.mjs        prettier, eslint, clang-format and tsc; exit code 1 when one of them complains
// node scripts/check.mjs --fix  lets prettier, eslint and clang-format write what they can
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const fix = process.argv.includes("--fix");
const failed = [];

function step(name, command, args) {
    const start = Date.now();
    const result = spawnSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
    const ok = result.status === 0;
    if (!ok) failed.push(name);
    console.log(`${ok ? "ok    " : "FAILED"} ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
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
        return;
    }
    const files = nativeSources();
    if (files.length > 0) step("clang-format", program, [...(fix ? ["-i"] : ["--dry-run", "--Werror"]), ...files]);
}

const node = process.execPath;
const modules = "node_modules";
step("prettier", node, [
    join(modules, "prettier/bin/prettier.cjs"),
    fix ? "--write" : "--check",
    "--log-level=warn",
    "."
]);
step("eslint", node, [join(modules, "eslint/bin/eslint.js"), "--max-warnings=0", ...(fix ? ["--fix"] : []), "."]);
clangFormat();
for (const project of ["tsconfig.json", "test/tsconfig.json"]) {
    step(`tsc ${project}`, node, [join(modules, "typescript/bin/tsc"), "--noEmit", "-p", project]);
}
if (failed.length > 0) {
    console.log(`Complaints from ${failed.join(", ")}.${fix ? "" : " 'npm run format' writes what can be written."}`);
    process.exitCode = 1;
}
