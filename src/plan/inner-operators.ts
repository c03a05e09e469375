// SPDX-License-Identifier: Apache-2.0
import type { GroupNode, JoinColumn, JoinNode, LogicalColumn, LogicalNode } from "./logical.js";

export type OperatorNode = GroupNode | JoinNode;

/**
 * Joins and group-bys below other operators, each once, in the order in which they can run: what one is made of comes
 * before it. A plan beyond GPU memory may have a stage for each, whose rows are an input of later ones.
 */
export function innerOperators(root: LogicalNode): OperatorNode[] {
    const found: OperatorNode[] = [];
    const visit = (node: LogicalNode): void => {
        if (node.kind === "input") return;
        for (const child of node.kind === "join" ? [node.left, node.right] : [node.child]) {
            visit(child);
            if (child.kind !== "input" && !found.includes(child)) found.push(child);
        }
    };
    visit(root);
    return found;
}

/** Columns that operators read of the nodes below them. */
class ReadColumns {
    readonly #read = new Map<LogicalNode, Set<number>>();

    public constructor(private readonly root: LogicalNode) {}

    public of(node: LogicalNode): number[] {
        return [...(this.#read.get(node) ?? [])].sort((a, b) => a - b);
    }

    public read(node: LogicalNode, columns: Iterable<number>): void {
        const known = this.#read.get(node);
        const all = new Set([...(known ?? []), ...columns]);
        if (node.kind === "group") for (const column of node.keys.keys()) all.add(column);
        if (all.size === 0 && node !== this.root) for (const column of cheapest(node)) all.add(column);
        if (known?.size === all.size) return;
        this.#read.set(node, all);
        if (node.kind === "join") this.#readSides(node, all);
        if (node.kind === "group") {
            const aggregates = node.aggregates.filter((_, at) => all.has(node.keys.length + at));
            const inputs = [...node.keys, ...aggregates].map(({ column }) => column);
            this.read(node.child, new Set(inputs.filter((column) => column >= 0)));
        }
    }

    #readSides(node: JoinNode, columns: ReadonlySet<number>): void {
        for (const side of ["left", "right"] as const) {
            const carried = node.columns.filter((column, at) => columns.has(at) && isOf(column, side));
            this.read(node[side], [...node.keys.map((key) => key[side].column), ...carried.map((one) => one[side])]);
        }
    }
}

function isOf(column: JoinColumn, side: "left" | "right"): boolean {
    return column.side === side || column.side === "either";
}

const bytesOf = ({ type }: LogicalColumn): number =>
    type.layout === "fixed" ? type.byteWidth : type.layout === "bool" ? 1 : 64;

/** Sums may not fit their type, which nobody is to learn who does not read them. */
const sumCost = 2 ** 10;

/** Rows have to have a column: one of the least bytes, if no operator reads any. */
function cheapest(node: LogicalNode): number[] {
    const isSum = (at: number): boolean => {
        const kind = node.kind === "group" ? node.aggregates[at - node.keys.length]?.kind : undefined;
        return kind === "sum" || kind === "mean";
    };
    const costs = node.columns.map((column, at) => bytesOf(column) + (isSum(at) ? sumCost : 0));
    return costs.length === 0 ? [] : [costs.indexOf(Math.min(...costs))];
}

interface Pruned {
    readonly node: LogicalNode;
    /** Where columns of the node are, that are still there. */
    readonly places: ReadonlyMap<number, number>;
}

/**
 * The tree without columns of joins, and aggregates of group-bys, that no operator above reads. The root has all that
 * it had, but of a group-by only its keys, and of a join nothing, if its rows are `counted`.
 */
export function prunedTree(root: LogicalNode, counted: boolean): LogicalNode {
    const columns = new ReadColumns(root);
    const all = root.columns.map((_, at) => at);
    columns.read(root, !counted ? all : root.kind === "group" ? root.keys.map((_, at) => at) : []);
    const made = new Map<LogicalNode, Pruned>();
    const prune = (node: LogicalNode): Pruned => {
        const known = made.get(node);
        if (known !== undefined) return known;
        const read = columns.of(node);
        const pruned = node.kind === "join" ? prunedJoin(node, read, prune) : prunedOther(node, read, prune);
        made.set(node, pruned);
        return pruned;
    };
    return prune(root).node;
}

function placesOf(columns: readonly number[]): Map<number, number> {
    return new Map(columns.map((column, at) => [column, at]));
}

function prunedOther(
    node: Exclude<LogicalNode, JoinNode>,
    read: readonly number[],
    prune: (node: LogicalNode) => Pruned
): Pruned {
    if (node.kind === "input") return { node, places: placesOf(node.columns.map((_, at) => at)) };
    const child = prune(node.child);
    const moved = <T extends { readonly column: number }>(one: T): T => ({
        ...one,
        column: child.places.get(one.column) ?? -1
    });
    const aggregates = node.aggregates.filter((_, at) => read.includes(node.keys.length + at));
    const columns = node.columns.filter((_, at) => read.includes(at));
    const made = { ...node, child: child.node, keys: node.keys.map(moved), aggregates: aggregates.map(moved), columns };
    return { node: made, places: placesOf(read) };
}

function prunedJoin(node: JoinNode, read: readonly number[], prune: (node: LogicalNode) => Pruned): Pruned {
    const left = prune(node.left);
    const right = prune(node.right);
    const keys = node.keys.map((key) => ({
        left: { ...key.left, column: left.places.get(key.left.column) ?? -1 },
        right: { ...key.right, column: right.places.get(key.right.column) ?? -1 }
    }));
    const columns = read.flatMap((at) => {
        const column = node.columns[at];
        if (column === undefined) return [];
        return [{ ...column, left: left.places.get(column.left) ?? -1, right: right.places.get(column.right) ?? -1 }];
    });
    return { node: { ...node, left: left.node, right: right.node, keys, columns }, places: placesOf(read) };
}
