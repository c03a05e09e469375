// SPDX-License-Identifier: Apache-2.0
import { Field, Uint32, Uint64 } from "apache-arrow";

import type { ColumnType, KeySpec } from "../../../model/column-type.js";
import type { InputNode, JoinColumn, JoinNode, LogicalColumn, LogicalNode } from "../../../plan/logical.js";
import { chunkWidth, isText, textCodeBytes } from "../chunk-rows.js";
import { whyGathered } from "../join/gather.js";
import { keyPlan } from "../join/keys.js";

/** A column of a source. Sources have numbers in the order in which the tree names them: one may be there twice. */
interface SourceColumn {
    readonly source: number;
    readonly node: InputNode;
    readonly column: number;
}

/** Sources from which the values of a result column are read by row number: the first one that has a row counts. */
export interface GatheredColumn {
    readonly sources: readonly SourceColumn[];
    readonly reason: string;
}

/** A tree whose joins hand on row numbers of sources in place of columns that are gathered. */
export interface NumberedTree {
    readonly root: JoinNode;
    /** Columns of the root by those that the query wants, which are not gathered. */
    readonly columns: ReadonlyMap<number, number>;
    /** Its columns that are row numbers, by source. */
    readonly numbers: ReadonlyMap<number, number>;
    /** Sources, as they are named in it. */
    readonly sources: ReadonlyMap<LogicalNode, number>;
}

const numberFields = { 4: new Field("row number", new Uint32()), 8: new Field("row number", new Uint64()) } as const;

const numberType = (byteWidth: 4 | 8): ColumnType => ({
    ...{ name: "row number", layout: "fixed", order: "unsigned", byteWidth, nullable: false, utf8: false },
    ...{ listSize: 0, typeIds: [], children: [] }
});

/** The largest number of its width stands for a row that is not there. `leastBytes`: of the number. */
function numberColumn(rows: number, leastBytes = 4): LogicalColumn {
    const width = leastBytes === 4 && rows < 2 ** 32 - 1 ? 4 : 8;
    return { name: "row number", field: numberFields[width], type: numberType(width), origin: null };
}

export function isRowNumber({ field }: LogicalColumn): boolean {
    return field === numberFields[4] || field === numberFields[8];
}

function sourceCount(node: LogicalNode): number {
    if (node.kind === "input") return 1;
    return node.kind === "group" ? sourceCount(node.child) : sourceCount(node.left) + sourceCount(node.right);
}

/** Where a column's values come from; nothing: an operator computes them. `first`: the node's first source. */
function sourcesOf(node: LogicalNode, column: number, first = 0): SourceColumn[] {
    if (node.kind === "input") return [{ source: first, node, column }];
    if (node.kind === "group") return [];
    const from = node.columns[column] as JoinColumn;
    const left = from.side === "right" ? [] : sourcesOf(node.left, from.left, first);
    const right = from.side === "left" ? [] : sourcesOf(node.right, from.right, first + sourceCount(node.left));
    return [...left, ...right];
}

const nameOf = ({ source, column }: Pick<SourceColumn, "source" | "column">): string => `${source}.${column}`;

/** Columns of sources that are keys of an operator which does not read the source itself: those travel anyway. */
function keysAbove(node: LogicalNode, first = 0, found = new Set<string>()): Set<string> {
    if (node.kind !== "join") return found;
    const firstRight = first + sourceCount(node.left);
    for (const [side, at] of [["left", first] as const, ["right", firstRight] as const]) {
        keysAbove(node[side], at, found);
        if (node[side].kind === "input") continue;
        for (const key of node.keys) {
            for (const from of sourcesOf(node[side], key[side].column, at)) found.add(nameOf(from));
        }
    }
    return found;
}

/** Bytes of a value that travels as it is, and of whether there is one. */
function travellingBytes({ type }: LogicalColumn): number {
    return (isText(type) ? textCodeBytes : chunkWidth(type)) + (type.nullable ? 1 : 0);
}

/**
 * Which columns of a join's result stay in host memory, and are gathered by row number when the rows of the result are
 * delivered: those that cannot travel from operator to operator, and as many others as rows are too wide for.
 */
export class GatherChoice {
    /** By the result's column. */
    readonly gathered = new Map<number, GatheredColumn>();
    readonly #keys: ReadonlySet<string>;

    public constructor(private readonly root: JoinNode) {
        this.#keys = keysAbove(root);
        for (const [at, { type }] of root.columns.entries()) {
            const reason = whyGathered(type);
            if (reason !== undefined) this.#gather(at, reason);
        }
    }

    /** Sources whose row numbers travel. */
    get #numbered(): Set<number> {
        return new Set([...this.gathered.values()].flatMap(({ sources }) => sources.map(({ source }) => source)));
    }

    /** Sources that a column could be gathered from; none where it cannot be, or travels as a key all the same. */
    #sources(column: number): SourceColumn[] {
        const sources = sourcesOf(this.root, column);
        const stays = sources.every((from) => !from.node.input.streamed && !this.#keys.has(nameOf(from)));
        return stays ? sources : [];
    }

    #gather(column: number, reason: string): void {
        const sources = this.#sources(column);
        if (sources.length > 0) this.gathered.set(column, { sources, reason });
    }

    /**
     * Gathers the columns of one more source, one of those given: that whose columns take most more bytes than row
     * numbers in their place. `always`: also where they do not. Returns whether there was such a source.
     */
    public gatherMore(among: ReadonlySet<number>, reason: string, always: boolean): boolean {
        const numbered = this.#numbered;
        const options = [...among].map((source) => {
            const columns = this.root.columns.flatMap((_, at) => {
                const isOf = this.#sources(at).some((from) => from.source === source);
                return isOf && !this.gathered.has(at) ? [at] : [];
            });
            const bytes = columns.reduce((sum, at) => sum + travellingBytes(this.root.columns[at] as JoinColumn), 0);
            const sources = new Map(columns.flatMap((at) => this.#sources(at).map((from) => [from.source, from])));
            const added = [...sources.values()].filter((from) => !numbered.has(from.source));
            const more = added.reduce((sum, { node }) => sum + numberColumn(node.input.rows).type.byteWidth, 0);
            return { columns, saved: bytes - more };
        });
        const [best] = options.sort((a, b) => b.saved - a.saved);
        if (best === undefined || best.columns.length === 0 || (best.saved <= 0 && !always)) return false;
        for (const column of best.columns) this.#gather(column, reason);
        return true;
    }

    /** The tree without the columns that are gathered, with the row numbers that they are read by. */
    public tree(): NumberedTree {
        const sources = new Map<LogicalNode, number>();
        const wanted = this.root.columns.flatMap((_, at) => (this.gathered.has(at) ? [] : [at]));
        const { node, columns, numbers } = numberedNode(
            this.root,
            { wanted, numbers: this.#numbered, first: 0 },
            sources
        );
        return { root: node as JoinNode, columns, numbers, sources };
    }
}

interface Wanted {
    readonly wanted: Iterable<number>;
    /** Sources whose numbers are wanted. */
    readonly numbers: ReadonlySet<number>;
    /** Number of the node's first source. */
    readonly first: number;
    /** Bytes of row numbers at least. */
    readonly numberBytes?: number;
}

interface NumberedNode {
    readonly node: LogicalNode;
    readonly columns: Map<number, number>;
    readonly numbers: Map<number, number>;
}

function numberedNode(node: LogicalNode, what: Wanted, sources: Map<LogicalNode, number>): NumberedNode {
    const { wanted, numbers, first } = what;
    if (node.kind === "join") return numberedJoin(node, what, sources);
    const columns = new Map([...wanted].map((column) => [column, column]));
    if (node.kind === "group") return { node, columns, numbers: new Map() };
    const isNumbered = numbers.has(first);
    const number = numberColumn(node.input.rows, what.numberBytes);
    const made = { ...node, columns: isNumbered ? [...node.columns, number] : node.columns };
    sources.set(made, first);
    return { node: made, columns, numbers: new Map(isNumbered ? [[first, node.columns.length]] : []) };
}

function numberedJoin(node: JoinNode, what: Wanted, sources: Map<LogicalNode, number>): NumberedNode {
    const wanted = [...new Set(what.wanted)].sort((a, b) => a - b);
    const from = wanted.map((column) => node.columns[column] as JoinColumn);
    const once = node.type === "semi" || node.type === "anti";
    const side = (of: "left" | "right", first: number): NumberedNode => {
        const keys = node.keys.map((key) => key[of].column);
        const read = from.flatMap((column) => (column.side === of || column.side === "either" ? [column[of]] : []));
        const numbers = once && of === "right" ? new Set<number>() : what.numbers;
        // Kernels alone move a value as wide as the key.
        const numberBytes = node.algorithm?.startsWith("triton") === true ? keyPlan(node, { wordsMax: 1 }).bytes : 4;
        return numberedNode(node[of], { wanted: [...keys, ...read], numbers, first, numberBytes }, sources);
    };
    const left = side("left", what.first);
    const right = side("right", what.first + sourceCount(node.left));
    const moved = (key: KeySpec, { columns }: NumberedNode): KeySpec => ({
        ...key,
        column: columns.get(key.column) ?? -1
    });
    const columns: JoinColumn[] = from.map((column) => ({
        ...column,
        left: left.columns.get(column.left) ?? -1,
        right: right.columns.get(column.right) ?? -1
    }));
    const numbers = new Map<number, number>();
    for (const [of, made] of [["left", left] as const, ["right", right] as const]) {
        for (const [source, column] of made.numbers) {
            numbers.set(source, columns.length);
            columns.push({ ...(made.node.columns[column] as LogicalColumn), side: of, left: column, right: column });
        }
    }
    const keys = node.keys.map((key) => ({ left: moved(key.left, left), right: moved(key.right, right) }));
    return {
        node: { ...node, left: left.node, right: right.node, keys, columns },
        columns: new Map(wanted.map((column, at) => [column, at])),
        numbers
    };
}
