// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../errors.js";
import { engineFolder } from "./engine-folder.js";

/** Oldest Node whose Node-API (version 9) and ES modules this package uses; equals "engines" in package.json. */
const oldestNode = [20, 19] as const;

/** How the engine is built: of a package that was installed, or in a checkout. */
const buildRemedy = (): string =>
    engineFolder() === null
        ? "build it: run `npm run build` in the folder of the package (it names what is missing)"
        : "build it: run `npx spillway build` in your project, once for each version (it names what is missing)";

/** What to delete of an engine that is no good. */
const deleteRemedy = (): string => `delete the folder ${engineFolder() ?? "`build` of the package"}`;

/** What keeps this Node from running the addon whatever is built; null if nothing does. */
function unsuitableNode(): string | null {
    if (process.platform !== "linux") return `Spillway runs on Linux only, this is ${process.platform}`;
    const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
    if (major > oldestNode[0] || (major === oldestNode[0] && minor >= oldestNode[1])) return null;
    return `Spillway needs Node ${oldestNode.join(".")} or newer, this is ${process.versions.node}`;
}

/** Remedies by what the dynamic linker says; the first that matches. */
const linkerCauses = (): readonly { pattern: RegExp; cause: string; remedies: readonly string[] }[] => [
    {
        pattern: /invalid ELF header|wrong ELF class|cannot open shared object file: Exec format|file too short/,
        cause: "it was built for another processor or its file is damaged",
        remedies: [deleteRemedy(), buildRemedy()]
    },
    {
        pattern: /version [`'](GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found/,
        cause: "it was built on a newer system than this one",
        remedies: [deleteRemedy(), `${buildRemedy()} on this machine`]
    },
    {
        pattern: /undefined symbol: napi_/,
        cause: "this Node lacks functions it was built for",
        remedies: [`use Node ${oldestNode.join(".")} or newer`]
    },
    {
        pattern: /undefined symbol/,
        cause: "its parts were built from different versions of the sources",
        remedies: [deleteRemedy(), buildRemedy()]
    },
    {
        pattern: /cannot open shared object file/,
        cause: "a library it needs is not installed",
        remedies: ["install the library named above (Debian and Ubuntu: `apt-get install libstdc++6`)", buildRemedy()]
    },
    {
        pattern: /failed to map segment|Operation not permitted|Permission denied/,
        cause: "the system does not allow to run code from that folder",
        remedies: ["install the package on a file system that is not mounted `noexec` and that you may read"]
    }
];

function failure(what: string, remedies: readonly string[], path: string, cause?: unknown): SpillwayError {
    const list = remedies.map((remedy) => `\n  - ${remedy}`).join("");
    return new SpillwayError("NATIVE_MISSING", `${what}. What helps:${list}`, { path }, cause);
}

/** No addon was found at any of the places. */
export function notBuilt(places: readonly string[], started: boolean): SpillwayError {
    const path = places[0] ?? "";
    const node = unsuitableNode();
    if (node !== null) return failure(node, [`use Linux with Node ${oldestNode.join(".")} or newer`], path);
    const state = started ? "A build was begun but left no engine" : "The engine of Spillway has not been built yet";
    const tools =
        "have a C++20 compiler, CMake 3.24 or newer and make (Debian and Ubuntu: `apt-get install g++ cmake make`)";
    return failure(`${state}: there is no ${path}`, [buildRemedy(), tools], path);
}

/** The addon at `path` exists but Node could not load it. */
export function notLoadable(path: string, error: unknown): SpillwayError {
    const node = unsuitableNode();
    if (node !== null) return failure(node, [`use Linux with Node ${oldestNode.join(".")} or newer`], path, error);
    const message = error instanceof Error ? error.message : String(error);
    const known = linkerCauses().find(({ pattern }) => pattern.test(message));
    const cause = known === undefined ? "" : `; ${known.cause}`;
    const remedies = known?.remedies ?? [deleteRemedy(), buildRemedy()];
    return failure(`The engine of Spillway could not be loaded: ${message}${cause}`, remedies, path, error);
}

/** The addon was loaded but is not the one that belongs to this JavaScript. */
export function notMatching(path: string, difference: string): SpillwayError {
    const what = `The engine at ${path} belongs to another version of this package (${difference})`;
    return failure(what, [buildRemedy(), "or install the package anew"], path);
}
