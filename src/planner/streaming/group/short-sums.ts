// SPDX-License-Identifier: Apache-2.0
import { inputsOf, type GroupNode } from "../../../plan/logical.js";
import type { SinkKind } from "../../../plan/plan.js";
import type { Estimator } from "../../estimates.js";
import type { PlanQuery } from "../../plan-search.js";
import { traceColumn } from "../../statistics.js";
import type { IsShortSum } from "./row-layout.js";

/** Half of what 64 bits hold with a sign: values that a sample missed, or more rows than expected, may double it. */
const shortSumMax = 2 ** 62;

/** Rows of these sinks are gone only when the query has ended, so that another plan can bring them again. */
const restartable: readonly SinkKind[] = ["count", "file"];

/**
 * Columns whose sums 64 bits hold, by a sample of their values: even the sum of all rows would fit. H200, 2^26 rows,
 * six sums, 2^22 groups, 4 GiB: a partial row has 56 bytes then, and 104 otherwise. The GPU finds sums that do not fit,
 * and the query is planned again without short ones. So inputs have to be there for a second run, and nobody may hold
 * the rows. The sum of an integer that does not fit is an error anyway. Means and decimals may be right beyond 64 bits:
 * theirs are short only where no reader can have got rows before the overflow.
 */
export function shortSumsOf(query: PlanQuery, node: GroupNode, estimator: Estimator): IsShortSum {
    const isOnce = query.isHeld === true || inputsOf(query.root).some(({ streamed }) => streamed);
    // One group has a partial row for each chunk, whatever it holds.
    if (query.plainDevice === true || isOnce || node.keys.length === 0) return () => false;
    const rows = Math.max(1, estimator.of(node.child).rows);
    const endsIn64 = (column: number): boolean =>
        node.child.columns[column]?.type.order !== "decimal" &&
        node.aggregates.every((one) => one.column !== column || one.kind !== "mean");
    return (column) => {
        if (!restartable.includes(query.sink) && !endsIn64(column)) return false;
        const from = traceColumn(node.child, column);
        const sample = from && query.valueSamples?.get(from.input)?.[from.column];
        return sample !== undefined && sample.magnitude * rows <= shortSumMax;
    };
}
