// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
    resolve: {
        // The built package, as a user gets it: the tests see dist/ and the addon, never src/.
        alias: { spillway: fileURLToPath(new URL("./dist/index.js", import.meta.url)) }
    },
    test: {
        include: ["test/node/**/*.test.ts"],
        // A process per test file: a crash of native code ends that file alone and is reported with its name.
        pool: "forks",
        maxWorkers: 2,
        testTimeout: 60_000,
        hookTimeout: 60_000,
        server: { deps: { external: [/\/dist\//] } }
    }
});
