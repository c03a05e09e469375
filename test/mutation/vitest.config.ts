// SPDX-License-Identifier: Apache-2.0
// How scripts/mutate.mjs runs the tests: in a copy of the project whose src/ holds all mutants, one of them switched on
// in the process that runs the tests. So nothing here may come from dist/, and tests of other processes see no mutant.
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { KeptFork } from "./kept-fork.js";

interface Settings {
    tests: string[];
    gpuTests: string[];
    /** Longer than any test takes on a busy machine: a mutant may leave a promise pending. */
    timeoutMs: number;
    /** Parts of the paths of those that take longest. */
    slow: string[];
    /** Where the plugin of the tests is. */
    gpuFolder: string;
    /** For how many runs a process is kept, and whether also after one that failed. */
    runs: number;
    keepFailed: boolean;
}

const pathOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const given = JSON.parse(process.env["SPILLWAY_MUTATION"] ?? "{}") as Partial<Settings>;
const {
    tests = ["test/node/**/*.test.ts"],
    gpuTests = [],
    slow = [],
    timeoutMs = 10_000,
    gpuFolder = "",
    runs = 1,
    keepFailed = false
} = given;

/** The slow ones last: vitest's own order has them first, and the first test that fails ends a run. */
class SlowLast extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
        const rank = ({ moduleId }: TestSpecification): string =>
            `${slow.some((name) => moduleId.includes(name)) ? 1 : 0}${moduleId}`;
        return files.sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
    }
}

const project = (name: string, include: string[], order: number, env: Record<string, string>) => ({
    extends: true as const,
    test: { name, include, env, exclude: ["test/node/process/**"], sequence: { groupOrder: order } }
});

export default defineConfig({
    root: pathOf("../.."),
    resolve: { alias: { spillway: pathOf("../../src/index.ts") } },
    plugins: [
        {
            name: "spillway:forks",
            // Stryker asks for threads, each with an environment of its own; the addon reads that of the process.
            configureVitest: ({ project: { config } }) => {
                config.pool = runs > 1 ? KeptFork.poolName : "forks";
                if (runs === 1) return;
                config.poolRunner = {
                    name: KeptFork.poolName,
                    createPoolWorker: (options) => new KeptFork(options, runs, keepFailed)
                };
            }
        }
    ],
    test: {
        setupFiles: [pathOf("./forget.ts")],
        // One process for all files of a run: to load every module anew for each file took most of the time.
        isolate: false,
        maxWorkers: 1,
        testTimeout: timeoutMs,
        hookTimeout: timeoutMs,
        sequence: { sequencer: SlowLast },
        // Two processes, since the addon looks for a GPU once.
        projects: [
            project("host", tests, 0, {}),
            ...(gpuTests.length === 0 ? [] : [project("gpu", gpuTests, 1, { SPILLWAY_GPU_FOLDER: gpuFolder })])
        ]
    }
});
