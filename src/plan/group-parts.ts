// SPDX-License-Identifier: Apache-2.0
import { columnTypeOf } from "../arrow/column-type-of.js";
import { aggregateField } from "./aggregate-type.js";
import { innerOperators, type OperatorNode } from "./inner-operators.js";
import { matchKeys } from "./key-match.js";
import type {
    GroupNode,
    JoinColumn,
    JoinKey,
    JoinNode,
    LogicalAggregate,
    LogicalColumn,
    LogicalNode
} from "./logical.js";

/** A group-by that several others make, by the same keys of the same rows: each has some of its aggregates. */
export interface GroupParts {
    /** Its number among the operators of the query (`operatorsOf`). */
    readonly operator: number;
    /** The aggregates of each part by their numbers, each in one part, with the names of their columns. */
    readonly parts: readonly { readonly aggregates: readonly number[]; readonly names: readonly string[] }[];
}

/** All joins and group-bys of a query, each once: the inner ones by their numbers, then the root. */
export function operatorsOf(root: LogicalNode): OperatorNode[] {
    return root.kind === "input" ? [] : [...innerOperators(root), root];
}

/** What is never NULL takes no room for whether it is: a part says so, where the schema that users see does not. */
function withNull(column: LogicalColumn, nullable: boolean): LogicalColumn {
    if (column.type.nullable === nullable) return column;
    return { ...column, field: column.field.clone({ nullable }), type: { ...column.type, nullable } };
}

/** Parts of a group-by without keys have one row each, and the number of rows in common, by which they are joined. */
function rowCount(taken: readonly LogicalColumn[]): { aggregate: LogicalAggregate; column: LogicalColumn } {
    let name = "rows";
    while (taken.some((column) => column.name === name)) name += "_";
    const field = aggregateField("countRows", undefined, name);
    return {
        aggregate: { kind: "countRows", column: -1, decimalScale: 0 },
        column: { name, field, type: { ...columnTypeOf(field), nullable: false }, origin: null }
    };
}

/** A group-by with these of its aggregates alone; without keys it has the number of its rows behind them. */
export function groupPart(node: GroupNode, aggregates: readonly number[]): GroupNode {
    const { child, keys } = node;
    const isNullable = (column: number): boolean => child.columns[column]?.type.nullable === true;
    const keyColumns = keys.map(({ column }, at) => withNull(node.columns[at] as LogicalColumn, isNullable(column)));
    const made = aggregates.map((at) => {
        const aggregate = node.aggregates[at] as LogicalAggregate;
        const column = node.columns[keys.length + at] as LogicalColumn;
        // A group has a row, unless it is the one of a group-by without keys.
        const mayLack = keys.length === 0 || isNullable(aggregate.column);
        return { aggregate, column: withNull(column, column.type.nullable && mayLack) };
    });
    const all = keys.length > 0 ? made : [...made, rowCount(node.columns)];
    // Parts that had only some of the groups each would have different ones.
    const { limit: _, ...unlimited } = node;
    return {
        ...unlimited,
        aggregates: all.map(({ aggregate }) => aggregate),
        columns: [...keyColumns, ...all.map(({ column }) => column)]
    };
}

/** Columns by which groups of two parts are the same: their keys, or where there are none their numbers of rows. */
function partKeys({ keys }: GroupNode, left: LogicalNode, right: GroupNode): JoinKey[] {
    const keyOf = (l: number, r: number): JoinKey =>
        matchKeys(left.columns[l] as LogicalColumn, l, right.columns[r] as LogicalColumn, r);
    if (keys.length === 0) return [keyOf(left.columns.length - 1, right.columns.length - 1)];
    return keys.map((_, at) => keyOf(at, at));
}

function columnsOf({ columns }: LogicalNode, side: "left" | "right"): JoinColumn[] {
    return columns.map((column, at) => ({
        ...column,
        ...{ side, left: side === "left" ? at : -1, right: side === "right" ? at : -1 }
    }));
}

/** The groups of parts, joined one after the other; without keys the last column is the number of rows. */
function joined(node: GroupNode, [first, ...others]: readonly [GroupNode, ...GroupNode[]]): LogicalNode {
    const { length: keys } = node.keys;
    return others.reduce<LogicalNode>((left, right): JoinNode => {
        const before = columnsOf(left, "left").slice(0, left.columns.length - (keys === 0 ? 1 : 0));
        return {
            ...{ kind: "join", type: "inner", nullEquality: true, hints: {}, left, right },
            keys: partKeys(node, left, right),
            columns: [...before, ...columnsOf(right, "right").slice(keys)]
        };
    }, first);
}

/** The columns of the group-by, of the groups of its parts. */
function inOrder(node: GroupNode, made: LogicalNode, order: readonly number[]): LogicalNode {
    const limit = node.limit === undefined ? {} : { limit: node.limit };
    if (made.kind !== "join") return { ...made, ...limit };
    const { length: keys } = node.keys;
    const columns = node.columns.map((column, at): JoinColumn => {
        const from = at < keys ? at : keys + order.indexOf(at - keys);
        const { side, left, right } = made.columns[from] as JoinColumn;
        return { ...column, side, left, right };
    });
    return { ...made, columns, ...limit };
}

/** The tree with joins of parts in place of these group-bys. What was there twice is there twice. */
export function inParts(root: LogicalNode, cut: readonly GroupParts[]): LogicalNode {
    if (cut.length === 0) return root;
    const operators = operatorsOf(root);
    const partsOf = new Map(cut.map(({ operator, parts }) => [operators[operator], parts]));
    const known = new Map<LogicalNode, LogicalNode>();
    const changed = (node: LogicalNode): LogicalNode => {
        const before = known.get(node);
        if (before !== undefined) return before;
        const made = change(node);
        known.set(node, made);
        return made;
    };
    const change = (node: LogicalNode): LogicalNode => {
        if (node.kind === "input") return node;
        if (node.kind === "join") return { ...node, left: changed(node.left), right: changed(node.right) };
        const own = { ...node, child: changed(node.child) };
        const parts = partsOf.get(node);
        if (parts === undefined) return own;
        const order = parts.flatMap(({ aggregates }) => aggregates);
        const groups = parts.map(({ aggregates }) => groupPart(own, aggregates));
        return inOrder(own, joined(own, groups as [GroupNode, ...GroupNode[]]), order);
    };
    return changed(root);
}
