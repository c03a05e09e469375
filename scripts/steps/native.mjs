// SPDX-License-Identifier: Apache-2.0
import { existsSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

import { parallelJobs } from "./limits.mjs";
import { BuildFailure, note, root, runStep } from "./step.mjs";
import { hasNinja, showsGpu } from "./tools.mjs";

/** Where a checkout is built. */
export const checkoutFolder = join(root, "build");
/** Name of the CUDA plugin, beside the addon. */
export const pluginName = "libspillway_cuda.so";

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

function cacheEntry(folder, name) {
    try {
        const cache = readFileSync(join(folder, "CMakeCache.txt"), "utf8");
        return new RegExp(`^${name}:[A-Z]+=(.*)$`, "m").exec(cache)?.[1] ?? null;
    } catch {
        return null;
    }
}

/** CMake refuses a folder that was configured for other sources (the package was moved) or another generator. */
function dropForeignConfiguration(folder) {
    const home = cacheEntry(folder, "CMAKE_HOME_DIRECTORY");
    if (home === null) return;
    const generator = hasNinja() ? "Ninja" : "Unix Makefiles";
    const sameHome = resolve(home) === realpathSync(root).replace(/\/$/, "");
    if (sameHome && cacheEntry(folder, "CMAKE_GENERATOR") === generator) return;
    rmSync(join(folder, "CMakeCache.txt"), { force: true });
    rmSync(join(folder, "CMakeFiles"), { recursive: true, force: true });
}

// cmake-js takes the headers of Node from the package node-api-headers ("binary.napi_versions" in package.json), so
// nothing is downloaded.
function cmakeJsArguments(command, kind, folder) {
    const folders = ["--directory", root, "--out", folder];
    return [findCMakeJs(), command, ...folders, "--config", kind, "--log-level", "error"];
}

/** The plugin takes minutes to compile: `auto` leaves it out where nothing can run it. */
export const neededCuda = (cuda) => (cuda === "auto" && !showsGpu() ? "off" : cuda);

export async function configure(kind, cuda, folder = checkoutFolder) {
    dropForeignConfiguration(folder);
    await runStep("configuration", process.execPath, [
        ...cmakeJsArguments("configure", kind, folder),
        `--CDSPILLWAY_CUDA=${neededCuda(cuda).toUpperCase()}`,
        // Fewer than a release has, such as "90", for who builds for one machine or only to see that it compiles.
        `--CDSPILLWAY_CUDA_ARCHITECTURES=${process.env["SPILLWAY_CUDA_ARCHITECTURES"] ?? ""}`,
        // "ON" for who only wants to know that everything is there and works (test/package/installed.mjs).
        `--CDSPILLWAY_QUICK=${process.env["SPILLWAY_QUICK"] ?? "OFF"}`
    ]);
}

function build(name, target, kind, folder, optional = false) {
    const args = [...cmakeJsArguments("build", kind, folder), "--target", target, "--parallel", String(jobs)];
    return runStep(name, process.execPath, args, { optional });
}

export async function buildAddon(kind, folder = checkoutFolder) {
    await build(`engine and addon, ${kind}`, "spillway", kind, folder);
}

/** The plugin is a bonus of `auto`: when it does not compile, the CPU engine is whole without it. */
export async function buildPlugin(kind, cuda, folder = checkoutFolder) {
    const plugin = join(folder, kind, pluginName);
    if (cacheEntry(folder, "SPILLWAY_CUDA_FOUND") !== "ON") {
        rmSync(plugin, { force: true });
        const why = showsGpu()
            ? "no CUDA toolkit 12.0 or newer that works with this C++ compiler"
            : "no GPU on this machine (`--cuda on` compiles the CUDA plugin all the same)";
        if (cuda === "auto") note(`  --  ${why}: built for the CPU only`);
        return;
    }
    const built = await build("CUDA plugin", "spillway_cuda", kind, folder, cuda === "auto");
    if (built !== null && existsSync(plugin)) return;
    rmSync(plugin, { force: true });
    note("  --  the CUDA plugin did not compile: built for the CPU only (`--cuda on` shows why)");
}
