// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const processTests = "test/node/process/**/*.test.ts";
// Of these, the ones that measure what a process of their own has resident, to which no other one adds.
const memoryTests = ["large-file", "resident-memory", "resources"].map((name) => `test/node/process/${name}.test.ts`);
// They take the longest: begun last, one of them would run while the other core has nothing left to do. Without records
// of earlier runs vitest begins with the largest files.
const longTests = [
    ...memoryTests,
    ...["device/standalone", "device/open-results", "differential/tight"].map((name) => `test/node/${name}.test.ts`)
];

class LongestFirst extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
        const isLong = ({ moduleId }: TestSpecification) => longTests.some((name) => moduleId.endsWith(`/${name}`));
        const sorted = await super.sort(files);
        return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
    }
}

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
        sequence: { sequencer: LongestFirst },
        server: { deps: { external: [/\/dist\//] } },
        projects: [
            {
                extends: true,
                test: {
                    name: "side by side",
                    include: ["test/node/!(process)/**/*.test.ts", ...memoryTests],
                    maxWorkers: 2,
                    sequence: { groupOrder: 0 }
                }
            },
            {
                // These measure delays and endings of processes, and want the machine for themselves.
                extends: true,
                test: {
                    name: "one by one",
                    include: [processTests],
                    exclude: memoryTests,
                    fileParallelism: false,
                    maxWorkers: 1,
                    sequence: { groupOrder: 1 }
                }
            }
        ]
    }
});
