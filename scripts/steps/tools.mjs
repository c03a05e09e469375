// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

const oldestCMake = [3, 24];

/** Output of `command --version`, or null when there is no such program. */
function versionOf(command) {
    const result = spawnSync(command, ["--version"], { encoding: "utf8" });
    return result.status === 0 ? result.stdout : null;
}

export function hasNinja() {
    return versionOf("ninja") !== null;
}

function hasCompiler() {
    const compilers = process.env["CXX"] ? [process.env["CXX"]] : ["c++", "g++", "clang++"];
    // By what it can compile: names and version numbers of compilers say little about their standard library.
    const program = "#include <concepts>\n#include <bit>\ntemplate <std::integral T> T f(T x) { return x; }\n";
    const flags = ["-std=c++20", "-x", "c++", "-fsyntax-only", "-"];
    return compilers.some((compiler) => spawnSync(compiler, flags, { input: program }).status === 0);
}

/** One sentence that names what is missing and how to get it; null when everything is there. */
export function missingTools() {
    const missing = [];
    const packages = [];
    if (!hasCompiler()) {
        missing.push("a C++20 compiler");
        packages.push("g++");
    }
    const cmake = /(\d+)\.(\d+)/.exec(versionOf("cmake") ?? "");
    const [major, minor] = [Number(cmake?.[1]), Number(cmake?.[2])];
    const oldest = oldestCMake.join(".");
    let advice = "";
    if (cmake === null) {
        missing.push(`CMake ${oldest} or newer`);
        packages.push("cmake");
    } else if (major < oldestCMake[0] || (major === oldestCMake[0] && minor < oldestCMake[1])) {
        missing.push(`CMake ${oldest} or newer (found ${major}.${minor})`);
        packages.push("cmake");
        advice = " (releases before Debian 12 and Ubuntu 24.04 have an older one: `pip install cmake`)";
    }
    if (versionOf("make") === null && !hasNinja()) {
        missing.push("make");
        packages.push("make");
    }
    if (missing.length === 0) return null;
    const list = missing.length === 1 ? missing[0] : `${missing.slice(0, -1).join(", ")} and ${missing.at(-1)}`;
    return `Spillway needs ${list} to build its engine: \`apt-get install ${packages.join(" ")}\`${advice}.`;
}

/** The same as in src/machine/devices.ts, of which nothing can be taken before it is compiled; a test compares. */
export const gpuFile = /^(nvidia\d+|nvhost-gpu|dxg)$/;

/**
 * Does the machine show signs of an NVIDIA GPU? To compile the CUDA plugin takes minutes, which are lost where nothing
 * can run it.
 */
export function showsGpu() {
    try {
        return readdirSync("/dev").some((name) => gpuFile.test(name));
    } catch {
        return false;
    }
}
