// SPDX-License-Identifier: Apache-2.0
// The GPU of the tests: a plugin of plain C++ (test/native/fake_plugin), so that everything around the kernels is
// tested on every machine. With SPILLWAY_TEST_DEVICE=gpu the plugin of the package, on the GPU of this machine.
import { existsSync, mkdtempSync, readdirSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
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

/** Before the first runtime of the process is opened: the addon looks for the plugin once. */
export function useGpu(): void {
    if (usesRealGpu || process.env["SPILLWAY_GPU_FOLDER"] !== undefined) return;
    const folder = mkdtempSync(join(tmpdir(), "spillway-gpu-"));
    symlinkSync(find(plugin), join(folder, "libspillway_cuda.so"));
    symlinkSync(find(probe), join(folder, probe));
    process.env["SPILLWAY_GPU_FOLDER"] = folder;
}
