// SPDX-License-Identifier: Apache-2.0
import { inputsOf, limitOf, type InputInfo, type LogicalNode } from "../plan/logical.js";
import { arrowRowBytes, Estimator } from "./estimates.js";
import { namesOf } from "./named-algorithm.js";
import { defaultPolicy } from "./policy.js";
import type { PlanQuery } from "./plan-search.js";

/** So many times the rows that are wanted are expected of the first rows: keys may not be spread evenly over them. */
const expectedFactor = 16;
/** The first rows of all inputs are no larger a part of all rows: where they do not do, little is lost. */
const triedShareMax = 1 / 8;
/** Fewer rows of an input take no less time. */
const triedRowsMin = 2 ** 14;
/** Rows that are wanted wait until they are all there: share of the budget for them. */
const heldShare = 1 / 16;

/**
 * The query of the first rows of each input, where that is likely to give all rows that are wanted; undefined: it is
 * not, or is little faster. What rows of joins give is part of what all rows give, without the rows that have no
 * partner among the first ones.
 */
export function firstRowsQuery(query: PlanQuery): PlanQuery | undefined {
    const { root, statistics, debug, budgetBytes } = query;
    const policy = query.policy ?? defaultPolicy;
    const limit = limitOf(root);
    const inputs = inputsOf(root);
    if (limit === 0 || limit === Infinity || !isOfRelations(root)) return undefined;
    // Whoever decides how a query runs wants it to run that way.
    if (namesOf(root).length > 0 || Object.keys(debug).length > 0) return undefined;
    const estimator = new Estimator(root, statistics, policy);
    const { rows: all, widths } = estimator.of(root);
    if (limit * arrowRowBytes(widths) > budgetBytes * heldShare) return undefined;
    const rowsMax = rowsTried(inputs, limit / all);
    return rowsMax === undefined ? undefined : { ...query, root: shortened(root, rowsMax) };
}

/** Is it made of relations that can be read again, by joins of which more rows take no row away? */
function isOfRelations(node: LogicalNode): boolean {
    if (node.kind === "input") return node.input.source.kind === "layout";
    return node.kind === "join" && node.type !== "anti" && isOfRelations(node.left) && isOfRelations(node.right);
}

const sumOfRows = (inputs: readonly InputInfo[], rowsMax: number): number =>
    inputs.reduce((sum, { rows }) => sum + Math.min(rows, rowsMax), 0);

/** Rows of each input that are likely to be enough for such a share of the result. */
function rowsTried(inputs: readonly InputInfo[], share: number): number | undefined {
    const most = sumOfRows(inputs, Infinity) * triedShareMax;
    if (most < triedRowsMin) return undefined;
    for (let rowsMax = triedRowsMin; sumOfRows(inputs, rowsMax) <= most; rowsMax *= 2) {
        const pairs = inputs.reduce((product, { rows }) => product * Math.min(1, rowsMax / rows), 1);
        if (pairs >= share * expectedFactor) return rowsMax;
    }
    return undefined;
}

/** The tree with the first rows of its inputs, each of which stays one however often it is read. */
function shortened(root: LogicalNode, rowsMax: number): LogicalNode {
    const known = new Map<InputInfo, InputInfo>();
    const shortInput = (input: InputInfo): InputInfo => {
        const made = known.get(input) ?? firstRowsOf(input, rowsMax);
        known.set(input, made);
        return made;
    };
    const visit = (node: LogicalNode): LogicalNode => {
        if (node.kind === "input") return { ...node, input: shortInput(node.input) };
        if (node.kind === "group") return node;
        // Rows without a partner among the first rows may have one elsewhere.
        const type = node.type === "semi" ? "semi" : "inner";
        return { ...node, type, left: visit(node.left), right: visit(node.right), hints: {} };
    };
    return visit(root);
}

function firstRowsOf(input: InputInfo, rowsMax: number): InputInfo {
    const rows = Math.min(input.rows, rowsMax);
    const share = rows / Math.max(1, input.rows);
    return {
        ...input,
        rows,
        columnBytes: input.columnBytes.map((bytes) => Math.ceil(bytes * share)),
        largestBatchRows: Math.min(input.largestBatchRows, rows)
    };
}
