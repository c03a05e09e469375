// SPDX-License-Identifier: Apache-2.0
import type { DebugKnobs, ExperimentOptions } from "spillway";

const experiments: ReadonlySet<string> = new Set([
    ...["partitioner", "interleave", "residentShare", "chunkRows", "radixBits", "secondRadixBits"],
    ...["partitionBlocks", "gatherBlocks", "pages", "coPartitionJoin"]
]);

/** The options `debug` and `experiment` of what a test turns, told together. */
export function knobs(turned: DebugKnobs & ExperimentOptions): { debug: DebugKnobs; experiment: ExperimentOptions } {
    const pick = (isExperiment: boolean): object =>
        Object.fromEntries(Object.entries(turned).filter(([name]) => experiments.has(name) === isExperiment));
    return { debug: pick(false), experiment: pick(true) };
}
