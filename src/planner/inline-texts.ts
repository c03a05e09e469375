// SPDX-License-Identifier: Apache-2.0
import type { ColumnType, KeySpec } from "../model/column-type.js";
import {
    inputsOf,
    type GroupNode,
    type InputInfo,
    type InputNode,
    type JoinKey,
    type JoinNode,
    type LogicalColumn,
    type LogicalNode
} from "../plan/logical.js";
import type { SinkKind } from "../plan/plan.js";
import { countedGroups } from "./distinct-groups.js";
import type { ValueWidth } from "./estimates.js";
import type { Policy } from "./policy.js";

/** Bytes of the longest value of an input's columns of text; undefined: not known, or a column of something else. */
export type TextLengths = ReadonlyMap<InputInfo, readonly (number | undefined)[]>;

const reference = 8; // VarRef: distance and length

function isText({ layout }: ColumnType): boolean {
    return layout === "binary" || layout === "view";
}

/** Bytes of the longest value of a column. Rows without a partner have NULL, which is shorter than any. */
function longestText(node: LogicalNode, column: number, lengths: TextLengths): number | undefined {
    if (node.kind === "input") return lengths.get(node.input)?.[column];
    if (node.kind === "group") {
        const key = node.keys[column];
        const aggregate = node.aggregates[column - node.keys.length];
        const from = key?.column ?? aggregate?.column ?? -1;
        return from < 0 ? undefined : longestText(node.child, from, lengths);
    }
    const from = node.columns[column];
    if (from === undefined) return undefined;
    const left = from.side === "right" ? 0 : longestText(node.left, from.left, lengths);
    const right = from.side === "left" ? 0 : longestText(node.right, from.right, lengths);
    return left === undefined || right === undefined ? undefined : Math.max(left, right);
}

/** What plans of the CPU engine know of the length of texts. */
export class InlineTexts {
    public constructor(
        private readonly lengths: TextLengths,
        private readonly policy: Policy
    ) {}

    /**
     * Bytes that a text takes in a row itself, with its length in the last one; 0: a reference serves better, as texts
     * are long, or most of them far shorter than the longest. `heap`: bytes of a text in the mean.
     */
    #width(longest: number | undefined, heap: number): number {
        const { inlineTextBytesMax, inlineTextGrowthMax } = this.policy;
        if (longest === undefined || longest > inlineTextBytesMax) return 0;
        const width = Math.max(longest, 1) + 1;
        return width <= (reference + heap) * inlineTextGrowthMax ? width : 0;
    }

    #keyWidth(node: LogicalNode, key: KeySpec, width: ValueWidth | undefined): number {
        const isBytes = key.kind === "bytes" || (key.kind === "dictionaryValue" && key.kindOfValue === "bytes");
        if (!isBytes) return 0;
        const heap = (key.kind === "bytes" ? width?.heap : width?.decodedHeap) ?? 0;
        return this.#width(longestText(node, key.column, this.lengths), heap);
    }

    /** The keys of a group-by, short texts inline. */
    public groupKeys(node: LogicalNode, keys: readonly KeySpec[], widths: readonly ValueWidth[]): KeySpec[] {
        return keys.map((key) => inlined(key, this.#keyWidth(node, key, widths[key.column])));
    }

    /** Both sides' keys of a join: texts that are short on both sides are inline on both, and alike. */
    public joinKeys(
        { left, right, keys }: JoinNode,
        widths: Readonly<Record<"left" | "right", readonly ValueWidth[]>>
    ): JoinKey[] {
        return keys.map((key) => {
            const own = this.#keyWidth(left, key.left, widths.left[key.left.column]);
            const other = this.#keyWidth(right, key.right, widths.right[key.right.column]);
            const width = own === 0 || other === 0 ? 0 : Math.max(own, other);
            return { left: inlined(key.left, width), right: inlined(key.right, width) };
        });
    }

    /** For each carried column the bytes that a text takes in the row itself; undefined: none does. */
    public carriedBytes(
        node: LogicalNode,
        carry: readonly number[],
        widths: readonly ValueWidth[]
    ): number[] | undefined {
        const bytes = carry.map((column) => {
            const type = node.columns[column]?.type;
            if (type === undefined || !isText(type)) return 0;
            return this.#width(longestText(node, column, this.lengths), widths[column]?.heap ?? 0);
        });
        return bytes.some((one) => one > 0) ? bytes : undefined;
    }
}

function inlined(key: KeySpec, width: number): KeySpec {
    if (width === 0) return key;
    if (key.kind === "dictionaryValue") return { ...key, kindOfValue: "inlineBytes", width };
    return { ...key, kind: "inlineBytes", kindOfValue: "inlineBytes", width };
}

/** May the column be inline, for all that its size says? */
function mayBeShort({ columnBytes, rows }: InputInfo, column: number, type: ColumnType, policy: Policy): boolean {
    if (type.layout === "dictionary") return true;
    const beside = type.layout === "view" ? 0 : type.byteWidth;
    return (columnBytes[column] ?? 0) / Math.max(1, rows) <= policy.inlineTextBytesMax + beside + 1;
}

/** Columns of a node that are needed, and whether dictionaries of them are compared by value. */
type Needed = ReadonlyMap<number, boolean>;

function neededOfSide(node: JoinNode, needed: Needed, side: "left" | "right"): Needed {
    const found = new Map<number, boolean>();
    for (const [index, isCompared] of needed) {
        const column = node.columns[index];
        if (column === undefined || (column.side !== side && column.side !== "either")) continue;
        found.set(column[side], isCompared || found.get(column[side]) === true);
    }
    for (const key of node.keys) found.set(key[side].column, true);
    return found;
}

/** Values of inputs stay where they are while rows are grouped: only those of a join have been copied by then. */
function neededOfGroups(node: GroupNode, needed: Needed): Needed {
    const found = new Map<number, boolean>();
    for (const index of node.child.kind === "input" ? [] : needed.keys()) {
        const column = node.aggregates[index - node.keys.length]?.column ?? -1;
        if (column >= 0) found.set(column, false);
    }
    node.keys.forEach(({ column, kind }, index) => {
        found.set(column, kind !== "dictionaryIndex" || needed.get(index) === true);
    });
    return found;
}

/**
 * Columns of inputs whose longest text the planner wants to know: keys, and what joins carry for the result. Queries of
 * few rows are not worth it.
 */
export function wantedTexts(root: LogicalNode, sink: SinkKind, policy: Policy): Map<InputInfo, number[]> {
    const wanted = new Map<InputInfo, Set<number>>();
    if (inputsOf(root).every(({ rows }) => rows < policy.inlineTextRowsMin)) return new Map();
    const add = (node: InputNode, needed: Needed): void => {
        const { input } = node;
        if (input.streamed) return;
        for (const [column, isCompared] of needed) {
            const { type } = node.columns[column] as LogicalColumn;
            const isWanted = isText(type) || (isCompared && type.layout === "dictionary" && type.children.some(isText));
            if (!isWanted || !mayBeShort(input, column, type, policy)) continue;
            wanted.set(input, (wanted.get(input) ?? new Set()).add(column));
        }
    };
    const visit = (node: LogicalNode, needed: Needed): void => {
        if (node.kind === "input") add(node, needed);
        else if (node.kind === "group") {
            const groups = countedGroups(node)?.groups;
            visit(node.child, groups === undefined ? neededOfGroups(node, needed) : neededOfGroups(groups, new Map()));
        } else for (const side of ["left", "right"] as const) visit(node[side], neededOfSide(node, needed, side));
    };
    visit(root, new Map(sink === "count" ? [] : root.columns.map((_, column) => [column, false])));
    return new Map([...wanted].map(([input, columns]) => [input, [...columns].sort((a, b) => a - b)]));
}
