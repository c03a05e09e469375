// SPDX-License-Identifier: Apache-2.0
import type { KeySpec } from "../model/column-type.js";
import {
    inputsOf,
    limitOf,
    otherSide,
    type JoinColumn,
    type JoinKey,
    type JoinNode,
    type LogicalColumn,
    type LogicalNode,
    type Side
} from "../plan/logical.js";

/** Inner joins give the same rows in any order, unless the user has a say in how they are made. */
function isFree(node: LogicalNode): node is JoinNode {
    if (node.kind !== "join" || node.type !== "inner" || node.algorithm !== undefined) return false;
    return limitOf(node) === Infinity && Object.keys(node.hints).length === 0;
}

function largestRows(node: LogicalNode): number {
    return Math.max(...inputsOf(node).map(({ rows }) => rows));
}

/** A result column that is the `index`-th column of a side. */
function takenFrom(side: Side, index: number, { name, field, type, origin }: LogicalColumn): JoinColumn {
    const none = -1;
    return {
        name,
        field,
        type,
        origin,
        side,
        left: side === "left" ? index : none,
        right: side === "right" ? index : none
    };
}

/** Which side of the join all of these of its columns are from; undefined: they are from both. */
function sideOf(node: JoinNode, columns: readonly number[]): Side | undefined {
    const [first, ...others] = new Set(columns.map((column) => node.columns[column]?.side));
    return first === undefined || first === "either" || others.length > 0 ? undefined : first;
}

/**
 * A join of A with a join of C and D, whose keys are columns of D, as a join of A and D that is joined with C: rows of
 * A then go past the rows of one input after the other.
 */
function turned(outer: JoinNode, bushy: Side): JoinNode | undefined {
    const inner = outer[bushy];
    const other = otherSide(bushy);
    if (!isFree(inner)) return undefined;
    const near = sideOf(
        inner,
        outer.keys.map((key) => key[bushy].column)
    );
    if (near === undefined) return undefined;
    const [a, d, c] = [outer[other], inner[near], inner[otherSide(near)]];
    // Columns of A come first in the join of A and D, then those of D.
    const ofNear = (column: number): number => (inner.columns[column] as JoinColumn)[near];
    const nearKey = (key: KeySpec): KeySpec => ({ ...key, column: ofNear(key.column) });
    const first: JoinNode = {
        kind: "join",
        left: other === "left" ? a : d,
        right: other === "left" ? d : a,
        type: "inner",
        keys: outer.keys.map((key) => ({ ...key, [bushy]: nearKey(key[bushy]) })),
        nullEquality: outer.nullEquality,
        columns: [
            ...a.columns.map((column, i) => takenFrom(other, i, column)),
            ...d.columns.map((column, i) => takenFrom(bushy, i, column))
        ],
        hints: {}
    };
    const moved = (key: JoinKey): JoinKey => {
        const fromNear = { ...key[near], column: a.columns.length + key[near].column };
        return { left: fromNear, right: key[otherSide(near)] };
    };
    const columns = outer.columns.map((column): JoinColumn => {
        if (column.side !== bushy) return takenFrom("left", column[other], column);
        const within = inner.columns[column[bushy]] as JoinColumn;
        if (within.side === near) return takenFrom("left", a.columns.length + within[near], column);
        return takenFrom("right", within[otherSide(near)], column);
    });
    return {
        kind: "join",
        left: leftDeep(first),
        right: leftDeep(c),
        type: "inner",
        keys: inner.keys.map(moved),
        nullEquality: inner.nullEquality,
        columns,
        hints: {}
    };
}

/**
 * The same query with the largest input of each tree of inner joins on the way past one other input after the other,
 * as far as keys allow it: no result of a join is then a side of a join that rows of a larger input go past.
 */
export function leftDeep(node: LogicalNode): LogicalNode {
    if (node.kind === "input") return node;
    if (node.kind === "group") {
        const child = leftDeep(node.child);
        return child === node.child ? node : { ...node, child };
    }
    if (isFree(node)) {
        const bushy: Side = largestRows(node.left) < largestRows(node.right) ? "left" : "right";
        const found = turned(node, bushy);
        if (found !== undefined) return found;
    }
    const [left, right] = [leftDeep(node.left), leftDeep(node.right)];
    return left === node.left && right === node.right ? node : { ...node, left, right };
}
