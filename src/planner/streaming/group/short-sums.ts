// SPDX-License-Identifier: Apache-2.0
import { inputsOf, type GroupNode } from "../../../plan/logical.js";
import type { Estimator } from "../../estimates.js";
import type { PlanQuery } from "../../plan-search.js";
import { traceColumn } from "../../statistics.js";
import type { IsShortSum } from "./row-layout.js";

/** Half of what 64 bits hold with a sign: values that a sample missed, or more rows than expected, may double it. */
const shortSumMax = 2 ** 62;

/**
 * Sums of 64-bit integers that have as many bits themselves, by a sample of their values: even that of all rows would
 * have. H200, 2^26 rows, six sums, 2^22 groups, 4 GiB: a partial row has 56 bytes so and 104 otherwise. The GPU finds
 * those that do not fit, and the query is planned again without any, which takes inputs that can be read twice and rows
 * that are wanted by nobody but its result.
 */
export function shortSumsOf(query: PlanQuery, node: GroupNode, estimator: Estimator): IsShortSum {
    const isOnce = query.isHeld === true || inputsOf(query.root).some(({ streamed }) => streamed);
    // One group has a partial row for each chunk, whatever it holds.
    if (query.plainDevice === true || isOnce || node.keys.length === 0) return () => false;
    const rows = Math.max(1, estimator.of(node.child).rows);
    return (column) => {
        const from = traceColumn(node.child, column);
        const sample = from && query.valueSamples?.get(from.input)?.[from.column];
        return sample !== undefined && sample.magnitude * rows <= shortSumMax;
    };
}
