// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const processTests = "test/node/process/**/*.test.ts";

export default defineConfig({
    resolve: {
        // The built package, as a user gets it. Tests of single parts import them from src/, so that they need no build;
        // what one file imports of both are two copies of a module, whose classes and state differ.
        alias: { spillway: fileURLToPath(new URL("./dist/index.js", import.meta.url)) }
    },
    test: {
        // A process per test file: a crash of native code ends that file alone and is reported with its name.
        pool: "forks",
        testTimeout: 60_000,
        hookTimeout: 60_000,
        server: { deps: { external: [/\/dist\//] } },
        projects: [
            {
                extends: true,
                test: {
                    name: "side by side",
                    include: ["test/node/**/*.test.ts"],
                    exclude: [processTests],
                    maxWorkers: 2,
                    sequence: { groupOrder: 0 }
                }
            },
            {
                // These measure memory, delays and endings of processes, and want the machine for themselves.
                extends: true,
                test: {
                    name: "one by one",
                    include: [processTests],
                    fileParallelism: false,
                    maxWorkers: 1,
                    sequence: { groupOrder: 1 }
                }
            }
        ]
    }
});
