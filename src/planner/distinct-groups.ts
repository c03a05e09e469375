// SPDX-License-Identifier: Apache-2.0
import { isNested, type ColumnType } from "../model/column-type.js";
import { groupKey } from "../plan/key-match.js";
import type { GroupNode, LogicalAggregate } from "../plan/logical.js";

/** Nested values are compared by nobody, and only NULLs are of the null type. */
function canBeKey(type: ColumnType): boolean {
    const values = type.layout === "dictionary" ? type.children[0] : type;
    return values !== undefined && values.layout !== "null" && !isNested(values);
}

interface CountedGroups {
    /** Makes a group of each value. */
    readonly groups: GroupNode;
    /** Counts those, and has the columns of the original. */
    readonly count: GroupNode;
}

const known = new WeakMap<GroupNode, CountedGroups | null>();

/**
 * A group-by without keys that only counts the distinct values of one column, as the count of the groups of another one
 * by that column. Those are made before rows are partitioned, or in partitions by value, where else each worker makes a
 * set of all values and the sets are merged. undefined: it is no such group-by. Nodes are the same ones for the same
 * group-by, since estimates are known by node.
 */
export function countedGroups(node: GroupNode): CountedGroups | undefined {
    const before = known.get(node);
    if (before !== undefined) return before ?? undefined;
    const made = makeCountedGroups(node);
    known.set(node, made ?? null);
    return made;
}

function makeCountedGroups(node: GroupNode): CountedGroups | undefined {
    const { child, keys, aggregates } = node;
    const index = aggregates[0]?.column ?? -1;
    const column = child.columns[index];
    const isCount = aggregates.every((one) => one.kind === "countDistinct" && one.column === index);
    if (keys.length > 0 || column === undefined || !isCount || !canBeKey(column.type)) return undefined;
    const groups: GroupNode = {
        ...{ kind: "group", child, keys: [groupKey(column, index)], aggregates: [], columns: [column], hints: {} }
    };
    // NULLs, of which dictionaries may have some among their values, are a group that does not count. Without them
    // nothing of a group has to reach those who count it. Types of an intermediate result promise nothing.
    const mayBeNull = child.kind !== "input" || column.type.nullable || column.type.layout === "dictionary";
    const count: LogicalAggregate = mayBeNull
        ? { kind: "count", column: 0, decimalScale: 0 }
        : { kind: "countRows", column: -1, decimalScale: 0 };
    return { groups, count: { ...node, child: groups, aggregates: aggregates.map(() => count) } };
}
