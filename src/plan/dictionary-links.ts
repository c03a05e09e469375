// SPDX-License-Identifier: Apache-2.0
import type { JoinNode, LogicalNode, Origin } from "./logical.js";

function sameOrigin(a: Origin, b: Origin): boolean {
    return a.input === b.input && a.column === b.column;
}

function joins(node: LogicalNode): JoinNode[] {
    if (node.kind === "input") return [];
    if (node.kind === "group") return joins(node.child);
    return [node, ...joins(node.left), ...joins(node.right)];
}

/**
 * Groups of dictionary columns whose codes must mean the same values, because a full join puts them into one column.
 */
export function dictionaryLinks(root: LogicalNode): Origin[][] {
    let groups: Origin[][] = [];
    for (const node of joins(root)) {
        for (const column of node.columns) {
            const left = node.left.columns[column.left]?.origin;
            const right = node.right.columns[column.right]?.origin;
            if (column.side !== "either" || column.type.layout !== "dictionary" || !left || !right) continue;
            const touched = groups.filter((group) =>
                group.some((member) => sameOrigin(member, left) || sameOrigin(member, right))
            );
            const merged: Origin[] = [];
            for (const member of [...touched.flat(), left, right]) {
                if (!merged.some((known) => sameOrigin(known, member))) merged.push(member);
            }
            groups = [...groups.filter((group) => !touched.includes(group)), merged];
        }
    }
    return groups.filter((group) => group.length > 1);
}
