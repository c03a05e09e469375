// SPDX-License-Identifier: Apache-2.0
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

// From dist/native/ to a file that no package has.
const fileOfCheckout = new URL("../../tsconfig.json", import.meta.url);

/** What the package says of its engine: its version, and a hash of the sources that it is compiled of. */
function engineName(): string | null {
    if (existsSync(fileOfCheckout)) return null;
    try {
        const text = readFileSync(new URL("engine.json", import.meta.url), "utf8");
        const { version, sources } = JSON.parse(text) as { version: string; sources: string };
        return `${version}-${sources}-${process.platform}-${process.arch}`;
    } catch {
        return null;
    }
}

/** The folder of caches of this user; null where there is none. */
function cacheFolder(): string | null {
    const named = process.env["XDG_CACHE_HOME"] ?? "";
    if (isAbsolute(named)) return join(named, "spillway");
    try {
        return join(homedir(), ".cache", "spillway");
    } catch {
        return null; // a user without a home
    }
}

/**
 * Where an installed package has its engine: in a folder of the user, since `npm ci` empties node_modules, and apart
 * from other versions. SPILLWAY_ENGINE_FOLDER takes the place of the user's folder. null in a checkout, which has it in
 * build/.
 */
export function engineFolder(): string | null {
    const name = engineName();
    if (name === null) return null;
    const named = process.env["SPILLWAY_ENGINE_FOLDER"] ?? "";
    const base = named === "" ? cacheFolder() : named;
    return base === null ? null : join(base, name);
}
