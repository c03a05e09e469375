// SPDX-License-Identifier: Apache-2.0
import { innerOperators } from "../../plan/inner-operators.js";
import type { GroupNode, JoinNode, LogicalColumn } from "../../plan/logical.js";
import { isNarrowDecimal } from "./chunk-rows.js";

const sides = ["left", "right"] as const;

/** The columns of a join's result, each with those of its sides that it is made of. */
function linksOf(node: JoinNode): LogicalColumn[][] {
    return node.columns.map((column) => {
        const from = sides.filter((side) => column.side === side || column.side === "either");
        return [column, ...from.map((side) => node[side].columns[column[side]] as LogicalColumn)];
    });
}

/** Columns that come out of a join and are keys of the next one. */
function keysAbove(node: JoinNode): LogicalColumn[] {
    const above = sides.filter((side) => node[side].kind !== "input");
    return above.flatMap((side) => node.keys.map((key) => node[side].columns[key[side].column] as LogicalColumn));
}

/**
 * Which decimals of the rows of a group-by, and of joins below it, are taken in 64 bits. Joins compare all bytes of
 * their keys: what comes out of one and is a key of the next passes whole, on all of its way, and so does a column of
 * both sides of which one has more digits.
 */
export function narrowDecimals(root: GroupNode): (column: LogicalColumn) => boolean {
    const joins = innerOperators(root).flatMap((node) => (node.kind === "join" ? [node] : []));
    const links = joins.flatMap(linksOf).filter((link) => link.some(isNarrowDecimal));
    const mixed = links.filter((link) => !link.every(isNarrowDecimal)).flat();
    const whole = new Set([...joins.flatMap(keysAbove).filter(isNarrowDecimal), ...mixed]);
    for (let before = -1; before < whole.size;) {
        before = whole.size;
        for (const link of links) {
            if (link.some((column) => whole.has(column))) for (const column of link) whole.add(column);
        }
    }
    return (column) => isNarrowDecimal(column) && !whole.has(column);
}
