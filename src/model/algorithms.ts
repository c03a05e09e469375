// SPDX-License-Identifier: Apache-2.0
import { deviceGroupAlgorithms, deviceJoinAlgorithms } from "./device-constants.js";

export { deviceGroupAlgorithms, deviceJoinAlgorithms };

/**
 * Joins of the GPU, by the names of their papers and in the order of their numbers. npj: no-partitioning join, with
 * linear probing or (npj-perfect) an array over the keys' range. phj: partitioned hash join, smj: sort-merge join; -tr:
 * payloads are transformed (partitioned or sorted) with the keys and gathered from there (GFTR; phj-tr moves whole
 * rows), -ur: they stay where they are and are gathered from the untransformed relation (GFUR). phj-shared: partitions
 * by histograms in shared memory, smj-merge: merge sort.
 */
export type DeviceJoinAlgorithm = (typeof deviceJoinAlgorithms)[number];

/** Group-bys of the GPU, likewise: hash-based, partitioned, sort-based; sgb-de-tr sorts by dictionary-encoded keys. */
export type DeviceGroupAlgorithm = (typeof deviceGroupAlgorithms)[number];

/** What the option `algorithm` of a join takes. */
export const joinAlgorithms = ["auto", ...deviceJoinAlgorithms] as const;
export type JoinAlgorithm = (typeof joinAlgorithms)[number];

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
    hgb: "hash group-by",
    "pgb-tr": "partitioned group-by of packed rows",
    "sgb-ur": "sort-based group-by, values gathered",
    "pgb-ur": "partitioned group-by, values gathered",
    "sgb-tr": "sort-based group-by, values sorted along",
    "sgb-de-tr": "sort-based group-by of dictionary-encoded keys"
};
