// SPDX-License-Identifier: Apache-2.0
// Profiles in which one algorithm of the GPU takes no time, so that a plan takes it whatever the figures say.
import { readFileSync, writeFileSync } from "node:fs";
import { parse, stringify } from "yaml";
import type { Sandbox } from "./sandbox.js";

const given = new URL("../../configs/machines/h200.yaml", import.meta.url);

/** Path of a profile with these algorithms for free. */
export function profileFor(sandbox: Sandbox, ...algorithms: readonly string[]): string {
    const free = { factor: 1e-9, fixed_ms: 0 };
    const fits = { transform: free, match: free, materialize: free };
    const profile = {
        ...(parse(readFileSync(given, "utf8")) as object),
        device_algorithms: Object.fromEntries(algorithms.map((name) => [name, fits]))
    };
    const path = sandbox.path("profile.yaml");
    writeFileSync(path, stringify(profile));
    return path;
}
