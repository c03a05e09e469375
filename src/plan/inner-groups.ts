// SPDX-License-Identifier: Apache-2.0
import type { GroupNode, LogicalNode } from "./logical.js";

/**
 * Group-bys below other operators, each once, in the order in which they can run: what one is made of comes before it.
 * A plan beyond GPU memory has a stage for each, whose groups are an input of later ones.
 */
export function innerGroups(root: LogicalNode): GroupNode[] {
    const found: GroupNode[] = [];
    const visit = (node: LogicalNode): void => {
        if (node.kind === "input") return;
        for (const child of node.kind === "join" ? [node.left, node.right] : [node.child]) {
            visit(child);
            if (child.kind === "group" && !found.includes(child)) found.push(child);
        }
    };
    visit(root);
    return found;
}
