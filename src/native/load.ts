// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { errorCodes, toSpillwayError } from "../errors.js";
import type { Binding } from "./binding.js";
import { engineFolder } from "./engine-folder.js";
import { notBuilt, notLoadable, notMatching } from "./load-failure.js";

// From dist/native/ (or src/native/) up to the package.
const packageRoot = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Where the addon may be: where `spillway build` puts that of an installed package, where `npm run build` does in a
 * checkout; a debug build counts when there is no other.
 */
function places(): readonly string[] {
    const installed = engineFolder();
    const folders = ["Release", "Debug"].map((kind) => join(packageRoot, "build", kind));
    return [...(installed === null ? [] : [installed]), ...folders].map((folder) => join(folder, "spillway.node"));
}

function checkVersion(binding: Binding, path: string): void {
    if (typeof binding.errorCodes !== "function") throw notMatching(path, "it has no list of error codes");
    const found = binding.errorCodes();
    const missing = errorCodes.filter((code) => !found.includes(code));
    const unknown = found.filter((code) => !(errorCodes as readonly string[]).includes(code));
    const same = found.length === errorCodes.length && found.every((code, index) => code === errorCodes[index]);
    if (same) return;
    const names = [...missing, ...unknown].join(", ");
    throw notMatching(path, names === "" ? "its error codes are in another order" : `error codes differ: ${names}`);
}

/**
 * The same binding, whose calls throw and reject with nothing but a SpillwayError. This is the edge: no caller above
 * it has to know what a native error looks like, and none can let one out. Code of the user never runs below it.
 */
export function withSpillwayErrors(binding: Binding): Binding {
    const fail = (error: unknown): never => {
        throw toSpillwayError(error);
    };
    const calls = Object.entries(binding).map(([name, call]: [string, (...args: unknown[]) => unknown]) => {
        const mapped = (...args: unknown[]): unknown => {
            try {
                const result = call(...args);
                return result instanceof Promise ? result.catch(fail) : result;
            } catch (error) {
                return fail(error);
            }
        };
        return [name, mapped];
    });
    return Object.fromEntries(calls) as Binding;
}

function load(): Binding {
    const all = places();
    const path = all.find((place) => existsSync(place));
    if (path === undefined) throw notBuilt(all, existsSync(join(packageRoot, "build", "CMakeCache.txt")));
    let binding: Binding;
    try {
        binding = createRequire(import.meta.url)(path) as Binding;
    } catch (error) {
        throw notLoadable(path, error);
    }
    checkVersion(binding, path);
    // process.exit() in the middle of a job: native clean-up hooks do not run then, so the jobs end here and files that
    // were being written disappear.
    process.once("exit", () => binding.shutdown());
    return withSpillwayErrors(binding);
}

let loaded: Binding | undefined;

/**
 * The native engine, loaded once per thread (each worker_thread has its own instance).
 * Rejects with NATIVE_MISSING and a list of remedies for the exact cause.
 */
export async function loadBinding(): Promise<Binding> {
    loaded ??= load();
    return loaded;
}
