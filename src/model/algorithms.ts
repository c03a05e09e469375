// SPDX-License-Identifier: Apache-2.0
import { deviceBaselineJoins, deviceGroupAlgorithms, deviceJoinAlgorithms } from "./device-constants.js";

export { deviceGroupAlgorithms, deviceJoinAlgorithms };

/**
 * Joins of the GPU, by the names of their papers and in the order of their numbers. npj: no-partitioning join, with
 * linear probing or (npj-perfect) an array over the keys' range. phj: partitioned hash join, smj: sort-merge join; -tr:
 * payloads are transformed (partitioned or sorted) with the keys and gathered from there (GFTR; phj-tr moves whole
 * rows, phj-gftr column after column as the paper has it), -ur: they stay where they are and are gathered from the
 * untransformed relation (GFUR). phj-shared: partitions by histograms in shared memory, smj-merge: merge sort.
 */
export type DeviceJoinAlgorithm = (typeof deviceJoinAlgorithms)[number];

/**
 * Group-bys of the GPU, likewise: hash-based, partitioned, sort-based; hgb has its tables in shared memory, hgb-global
 * numbers groups by one in GPU memory, as the paper has it; sgb-de-tr sorts by dictionary-encoded keys.
 */
export type DeviceGroupAlgorithm = (typeof deviceGroupAlgorithms)[number];

/**
 * Joins that others are compared with (cuda/baseline_join). stream-probe: the probe side streams past the build side in
 * GPU memory, sorted or partitioned; npj-far: past a hash table spread over GPU and host memory; cpu-partitioned: the
 * CPU partitions both sides, the GPU joins the partitions.
 */
export type BaselineJoinAlgorithm = (typeof deviceBaselineJoins)[number];

/**
 * Joins of relations that need not fit GPU memory. staged: by copy engines, which bring chunks in and packed rows out.
 * triton: by kernels that read and write host memory themselves, with as many pages as fit GPU memory between them;
 * triton-uncached: the same with all pages in host memory.
 */
export const outOfCoreJoinAlgorithms = ["staged", "triton", "triton-uncached", ...deviceBaselineJoins] as const;
export type OutOfCoreJoinAlgorithm = (typeof outOfCoreJoinAlgorithms)[number];

/** The way of rows out of core: by copy engines, or by kernels that read and write host memory themselves. */
export type OutOfCorePathName = "staged" | "coherent";

/** The radix join of the CPU engine. */
export const cpuJoinAlgorithm = "cpu-radix";

/** Every join that has a name, wherever it runs. */
export type NamedJoinAlgorithm = DeviceJoinAlgorithm | OutOfCoreJoinAlgorithm | typeof cpuJoinAlgorithm;

/** What the option `algorithm` of a join takes. */
export const joinAlgorithms = [
    "auto",
    ...deviceJoinAlgorithms,
    ...outOfCoreJoinAlgorithms,
    cpuJoinAlgorithm
] as const satisfies readonly ("auto" | NamedJoinAlgorithm)[];
export type JoinAlgorithm = (typeof joinAlgorithms)[number];

/** Does it join tables in GPU memory? */
export function isTableJoin(algorithm: NamedJoinAlgorithm): algorithm is DeviceJoinAlgorithm {
    return (deviceJoinAlgorithms as readonly string[]).includes(algorithm);
}

/** Is it there to compare others with? */
export function isBaselineJoin(algorithm: NamedJoinAlgorithm | undefined): algorithm is BaselineJoinAlgorithm {
    return (deviceBaselineJoins as readonly (string | undefined)[]).includes(algorithm);
}

/** Does it join relations that need not fit GPU memory? */
export function isOutOfCoreJoin(algorithm: NamedJoinAlgorithm): algorithm is OutOfCoreJoinAlgorithm {
    return (outOfCoreJoinAlgorithms as readonly string[]).includes(algorithm);
}

/** What the option `algorithm` of a group-by takes. */
export const groupByAlgorithms = ["auto", ...deviceGroupAlgorithms] as const;
export type GroupByAlgorithm = (typeof groupByAlgorithms)[number];

/** Who named the algorithm of an operation. */
export type AlgorithmChoice = "planner" | "user";

/** What the names stand for, in `explain` and reports. */
export const algorithmTitles: Readonly<Record<DeviceJoinAlgorithm | DeviceGroupAlgorithm, string>> = {
    "phj-tr": "radix hash join of packed rows",
    npj: "no-partitioning hash join",
    "npj-perfect": "no-partitioning join, perfect hashing",
    "phj-ur": "radix hash join, payloads gathered",
    "smj-ur": "sort-merge join, payloads gathered",
    "smj-tr": "sort-merge join, payloads sorted along",
    "smj-merge": "merge-sort join",
    "phj-shared": "hash join partitioned by shared histograms",
    "phj-gftr": "radix hash join, payloads partitioned along",
    hgb: "hash group-by",
    "pgb-tr": "partitioned group-by of packed rows",
    "sgb-ur": "sort-based group-by, values gathered",
    "pgb-ur": "partitioned group-by, values gathered",
    "sgb-tr": "sort-based group-by, values sorted along",
    "sgb-de-tr": "sort-based group-by of dictionary-encoded keys",
    "hgb-global": "hash group-by, groups numbered by a table in GPU memory"
};
