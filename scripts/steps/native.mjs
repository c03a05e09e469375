// SPDX-License-Identifier: Apache-2.0
import { readFileSync, realpathSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

import { parallelJobs } from "./limits.mjs";
import { BuildFailure, note, root, runStep } from "./step.mjs";
import { hasNinja } from "./tools.mjs";

const buildFolder = join(root, "build");

function findCMakeJs() {
    try {
        return createRequire(import.meta.url).resolve("cmake-js/bin/cmake-js");
    } catch {
        throw new BuildFailure("The packages that the build needs are not installed; run `npm ci` first.");
    }
}

// The largest files of the engine take about this much memory to compile.
const compilerBytes = 1 << 30;
const jobs = parallelJobs(compilerBytes);

function cacheEntry(name) {
    try {
        const cache = readFileSync(join(buildFolder, "CMakeCache.txt"), "utf8");
        return new RegExp(`^${name}:[A-Z]+=(.*)$`, "m").exec(cache)?.[1] ?? null;
    } catch {
        return null;
    }
}

/** CMake refuses a folder that was configured for other sources (the package was moved) or another generator. */
function dropForeignConfiguration() {
    const home = cacheEntry("CMAKE_HOME_DIRECTORY");
    if (home === null) return;
    const generator = hasNinja() ? "Ninja" : "Unix Makefiles";
    if (resolve(home) === realpathSync(root).replace(/\/$/, "") && cacheEntry("CMAKE_GENERATOR") === generator) return;
    rmSync(join(buildFolder, "CMakeCache.txt"), { force: true });
    rmSync(join(buildFolder, "CMakeFiles"), { recursive: true, force: true });
}

// cmake-js takes the headers of Node from the package node-api-headers ("binary.napi_versions" in package.json), so
// nothing is downloaded.
function cmakeJsArguments(command, kind) {
    const folders = ["--directory", root, "--out", buildFolder];
    return [findCMakeJs(), command, ...folders, "--config", kind, "--log-level", "error"];
}

export async function configure(kind, cuda) {
    dropForeignConfiguration();
    await runStep("configuration", process.execPath, [
        ...cmakeJsArguments("configure", kind),
        `--CDSPILLWAY_CUDA=${cuda.toUpperCase()}`,
        // Fewer than a release has, such as "90", for who builds for one machine or only to see that it compiles.
        `--CDSPILLWAY_CUDA_ARCHITECTURES=${process.env["SPILLWAY_CUDA_ARCHITECTURES"] ?? ""}`
    ]);
}

function build(name, target, kind, optional = false) {
    const args = [...cmakeJsArguments("build", kind), "--target", target, "--parallel", String(jobs)];
    return runStep(name, process.execPath, args, { optional });
}

export async function buildAddon(kind) {
    await build(`engine and addon, ${kind}`, "spillway", kind);
}

/** The plugin is a bonus of `auto`: when it does not compile, the CPU engine is whole without it. */
export async function buildPlugin(kind, cuda) {
    const plugin = join(buildFolder, kind, "libspillway_cuda.so");
    if (cacheEntry("SPILLWAY_CUDA_FOUND") !== "ON") {
        rmSync(plugin, { force: true });
        if (cuda === "auto") {
            note("  --  no CUDA toolkit 12.0 or newer that works with this C++ compiler: built for the CPU only");
        }
        return;
    }
    const built = await build("CUDA plugin", "spillway_cuda", kind, cuda === "auto");
    if (built !== null) return;
    rmSync(plugin, { force: true });
    note("  --  the CUDA plugin did not compile: built for the CPU only (`npm run build -- --cuda on` shows why)");
}
