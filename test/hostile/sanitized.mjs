// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";

/** The sanitizers' libraries that a shared object was linked with: Node has none of them and must load them first. */
function sanitizerLibraries(addon) {
    const { stdout } = spawnSync("ldd", [addon], { encoding: "utf8" });
    return [...(stdout ?? "").matchAll(/=> (\S*lib(?:asan|ubsan|clang_rt)\S*)/g)].map(([, path]) => path);
}

/**
 * A copy of the package built in `root` whose addon is the instrumented one that was built in `folder`, and the
 * environment in which Node runs it. A copy, since the package looks for its addon beside itself and nowhere else: a
 * variable that named another one would let whoever sets it run code in the user's process.
 */
export function sanitizedPackage(root, folder) {
    const addon = join(folder, "spillway.node");
    const place = join(folder, "package");
    rmSync(place, { recursive: true, force: true });
    mkdirSync(join(place, "build/Release"), { recursive: true });
    for (const name of ["dist", "configs", "package.json"]) {
        cpSync(join(root, name), join(place, name), { recursive: true });
    }
    symlinkSync(addon, join(place, "build/Release/spillway.node"));
    const libraries = sanitizerLibraries(addon);
    if (libraries.length === 0) throw new Error(`${addon} is linked with no shared library of a sanitizer`);
    const env = {
        LD_PRELOAD: libraries.join(" "),
        // Node itself leaks at its end. A smaller quarantine than the usual 256 MiB, so that resident memory tells
        // something about the engine.
        ASAN_OPTIONS: "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=32",
        UBSAN_OPTIONS: "print_stacktrace=1"
    };
    return { package: place, env };
}
