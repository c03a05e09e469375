// SPDX-License-Identifier: Apache-2.0
import type { DeviceGroupAlgorithm, DeviceJoinAlgorithm } from "../../model/algorithms.js";
import { formatBytes, formatCount, sumOf } from "../../model/sizes.js";
import { hashSlices } from "./group-cost.js";
import { npjTableBytes } from "./join-cost.js";
import { isInner } from "./lone-rows.js";
import type { MemoryCost } from "./memory-cost.js";
import type { DeviceGroupShape, DeviceJoinShape } from "./shapes.js";

/**
 * The decision trees of the GFTR paper (its section 5 and figure 21), as the questions that they ask of a workload.
 * Predicted times decide; the tree says in words what they come from, and is the second opinion of tests.
 */
export interface TreeAnswer<Name extends string> {
    readonly algorithm: Name;
    /** What was asked and found, one after the other. */
    readonly facts: readonly string[];
}

// From this share of matched rows on it pays to transform payload columns (section 4.1.4, and its measurements).
const matchRatioMin = 0.25;
// The most frequent key of Zipf frequencies with exponent 1 has some 5 % of the rows.
const skewedShare = 0.05;
// Groups from which sorting a column is faster than gathering it (section 4.1.3).
const sortedGroupsMin = 16;

function percent(share: number): string {
    return `${Number((share * 100).toPrecision(2))} %`;
}

/** Which join the paper's rules take. */
export function joinTree(shape: DeviceJoinShape, memory: MemoryCost): TreeAnswer<DeviceJoinAlgorithm> {
    const { matchRatio, keyBytes, probeHeaviestShare, buildPayload, probePayload } = shape;
    const tableBytes = npjTableBytes(shape);
    const cacheBytes = memory.speeds.deviceCacheBytes;
    const facts: string[] = [];
    if (tableBytes <= cacheBytes && isInner(shape) && shape.uniqueBuildKeys) {
        facts.push(`a hash table of ${formatBytes(tableBytes)} stays in the GPU's cache`);
        return { algorithm: "npj", facts };
    }
    facts.push(
        tableBytes <= cacheBytes
            ? `a hash table of ${formatBytes(tableBytes)} is for inner joins with unique build keys`
            : `a hash table of ${formatBytes(tableBytes)} leaves the GPU's cache`
    );
    const columns = buildPayload.length + probePayload.length;
    if (columns === 0) {
        facts.push("no payload columns");
        return { algorithm: "phj-tr", facts };
    }
    facts.push(`${columns} payload columns of ${sumOf([...buildPayload, ...probePayload])} B`);
    facts.push(`${percent(matchRatio)} of the probe rows match`);
    const skewed = probeHeaviestShare >= skewedShare;
    if (skewed) facts.push(`the most frequent key has ${percent(probeHeaviestShare)} of them`);
    if (matchRatio >= matchRatioMin || skewed || keyBytes > 4) return { algorithm: "phj-tr", facts };
    return { algorithm: "phj-ur", facts };
}

/** Which group-by the paper's rules take. */
export function groupTree(shape: DeviceGroupShape, memory: MemoryCost): TreeAnswer<DeviceGroupAlgorithm> {
    const { groups, keyBytes, heaviestShare, values } = shape;
    const facts = [`about ${formatCount(groups)} groups`];
    const sorted = (): TreeAnswer<DeviceGroupAlgorithm> => {
        // Sorting by numbers of groups saves a pass for every 8 bits of the key that they do not need.
        const passes = Math.ceil(Math.log2(Math.max(2, groups)) / 8);
        if (passes < keyBytes && values.length > 1) {
            facts.push(`their numbers sort in ${passes} passes, their keys in ${keyBytes}`);
            return { algorithm: "sgb-de-tr", facts };
        }
        return { algorithm: groups >= sortedGroupsMin ? "sgb-tr" : "sgb-ur", facts };
    };
    if (shape.sorted) {
        facts.push("rows of a group must come together");
        return sorted();
    }
    const slices = hashSlices(shape, memory);
    if (slices !== undefined) {
        facts.push(
            slices === 1
                ? "their states fit the shared memory of a block"
                : `their states fit the shared memory of a block in ${slices} passes over the rows`
        );
        return { algorithm: "hgb", facts };
    }
    facts.push("their states leave the shared memory of a block");
    if (heaviestShare < skewedShare) return { algorithm: "pgb-tr", facts };
    facts.push(`the most frequent key has ${percent(heaviestShare)} of the rows`);
    return sorted();
}
