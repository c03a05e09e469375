// SPDX-License-Identifier: Apache-2.0
// The GPU of the tests: a plugin of plain C++ (test/native/fake_plugin), so that everything around the kernels is
// tested on every machine. With SPILLWAY_TEST_DEVICE=gpu the plugin of the package, on the GPU of this machine.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const build = fileURLToPath(new URL("../../build", import.meta.url));
const plugin = "libspillway_fake_plugin.so";
const probe = "spillway_gpu_probe";

export const usesRealGpu = process.env["SPILLWAY_TEST_DEVICE"] === "gpu";

function find(name: string): string {
    const places = [join(build, "Release"), build, join(build, "Debug")];
    const found = places.map((place) => join(place, name)).find((path) => existsSync(path));
    if (found !== undefined) return found;
    throw new Error(`${name} is not built: run npm run test:native once (looked in ${readdirSync(build).join(", ")})`);
}

/** A link of that name, also where another process makes it at the same time or it leads to an older build. */
function link(target: string, path: string): void {
    const made = `${path}.${process.pid}`;
    rmSync(made, { force: true });
    symlinkSync(target, made);
    renameSync(made, path);
}

/** Before the first runtime of the process is opened: the addon looks for the plugin once. */
export function useGpu(): void {
    if (usesRealGpu || process.env["SPILLWAY_GPU_FOLDER"] !== undefined) return;
    // One for all processes, beside what it links to: nobody knows when the last one that looks into it has ended.
    const folder = join(build, "test-gpu");
    mkdirSync(folder, { recursive: true });
    link(find(plugin), join(folder, "libspillway_cuda.so"));
    link(find(probe), join(folder, probe));
    process.env["SPILLWAY_GPU_FOLDER"] = folder;
}
