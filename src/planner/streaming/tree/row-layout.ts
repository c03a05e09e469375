// SPDX-License-Identifier: Apache-2.0
import { isOutOfCoreJoin } from "../../../model/algorithms.js";
import { sumOf } from "../../../model/sizes.js";
import { keyWordColumn, type ColumnType, type KeySpec } from "../../../model/column-type.js";
import type { GroupNode, InputNode, JoinNode, LogicalColumn, LogicalNode } from "../../../plan/logical.js";
import type { OutOfCoreGroupLayout } from "../../../plan/out-of-core-group-stage.js";
import type { OutOfCoreLayout, OutOfCorePart, OutOfCoreSide } from "../../../plan/out-of-core-stage.js";
import type {
    OutOfCoreFlow,
    OutOfCorePipe,
    OutOfCorePipePart,
    OutOfCoreResult,
    OutOfCoreStep
} from "../../../plan/out-of-core-tree-stage.js";
import { inputsOf } from "../../../plan/logical.js";
import { NotOnDevice } from "../../device-support.js";
import type { Estimator } from "../../estimates.js";
import { joinSides, joinSidesFrom, otherSide, type JoinSides, type Side } from "../../join-sides.js";
import type { Policy } from "../../policy.js";
import {
    chunkWidth,
    isNarrowDecimal,
    isNumbered,
    isText,
    keyBytesMax,
    rowBytesMax,
    rowColumnsMax,
    textCodeBytes
} from "../chunk-rows.js";
import { outOfCoreGroupLayout } from "../group/row-layout.js";
import { rowNumberBytes, whyGathered, type SideColumn } from "../join/gather.js";
import { keyPlan, keyWordsMax } from "../join/keys.js";
import { outOfCoreLayout } from "../join/row-layout.js";
import { dictionaryComesLate, givesKeylessBuildRows, waitsForDictionary } from "../join/stream-sides.js";

/** A join or a group-by of the tree, with how its rows are laid out. */
export type TreeOperator =
    | { readonly kind: "join"; readonly node: JoinNode; readonly sides: JoinSides; readonly layout: OutOfCoreLayout }
    | { readonly kind: "group"; readonly node: GroupNode; readonly layout: OutOfCoreGroupLayout };

export interface TreeLayout {
    /** The last operator comes first, and every one before those that give it rows. */
    readonly operators: readonly TreeOperator[];
    readonly flows: readonly OutOfCoreFlow[];
    readonly result: OutOfCoreResult;
}

export interface TreeRequest {
    readonly root: LogicalNode;
    /** Nobody wants rows. */
    readonly counted: boolean;
    readonly estimator: Estimator;
    readonly policy: Policy;
}

/** How rows of an operator are to be read: where the values of each wanted column are. */
interface Made {
    readonly columns: ReadonlyMap<number, readonly OutOfCorePart[]>;
    readonly presence: number;
}

type ReadSide = OutOfCoreGroupLayout["side"];

function columnOf(node: LogicalNode, column: number): LogicalColumn {
    return node.columns[column] as LogicalColumn;
}

/** Bytes of a column that passes operators: groups take decimals in 64 bits, and numbers of text, as of streams. */
function passingWidth(column: LogicalColumn, grouped: boolean): number {
    if (grouped && isNarrowDecimal(column)) return 8;
    return isNumbered(column) || (grouped && isText(column.type)) ? textCodeBytes : chunkWidth(column.type);
}

/** Such a column as it comes out of an operator. */
function passingType(column: LogicalColumn, grouped: boolean): ColumnType {
    const { type } = column;
    const byteWidth = passingWidth(column, grouped);
    if (byteWidth === chunkWidth(type)) return type;
    const order = isText(type) ? "unsigned" : "signed";
    return { ...type, layout: "fixed", byteWidth, order, utf8: false, children: [] };
}

/** A key of a column that comes out of an operator: text is a number there. */
function passingKey(key: KeySpec, { name }: LogicalColumn): KeySpec {
    if (key.kind === "dictionaryValue") {
        throw new NotOnDevice(
            `key \`${name}\` is a dictionary column whose values are compared after another operator`
        );
    }
    return key.kind === "bytes" ? { ...key, kind: "integer", width: textCodeBytes } : key;
}

/** Nothing is gathered by row number in a tree yet: what cannot travel through its operators stands in the way. */
function requireCarried(node: LogicalNode, columns: readonly SideColumn[], grouped: boolean): Map<number, string> {
    for (const { column, type } of columns) {
        const from = columnOf(node, column);
        if (passingWidth(from, grouped) > 0) continue;
        const why = whyGathered(type) ?? "";
        throw new NotOnDevice(`column \`${from.name}\` (${why}) does not pass more than one operator out of core`);
    }
    return new Map();
}

/** Keys of more bytes are read from sources alone: a pipe makes one word of them. */
function requirePackedKeys(node: JoinNode): void {
    const isOfInputs = node.left.kind === "input" && node.right.kind === "input";
    const { mode, columns, nullsEqual } = keyPlan(node, keyWordsMax);
    if (mode === "packed" && (columns === 0 || isOfInputs)) return;
    const names = node.keys.map(({ left }) => columnOf(node.left, left.column).name).join(", ");
    const why = nullsEqual ? "their NULLs equal each other" : `they have more than ${keyBytesMax} bytes`;
    throw new NotOnDevice(`keys (${names}) of a join do not pass more than one operator out of core: ${why}`);
}

function requireNarrowRows({ join }: OutOfCoreLayout): void {
    for (const widths of [join.buildWidths, join.probeWidths]) {
        const bytes = join.keyBytes + sumOf(widths);
        // Values of 16 bytes count twice.
        const columns = widths.length + widths.filter((width) => width > keyBytesMax).length;
        if (bytes <= rowBytesMax && columns <= rowColumnsMax) continue;
        throw new NotOnDevice(
            `a row of a join of a join has ${bytes} bytes and ${columns} columns, ` +
                `${rowBytesMax} and ${rowColumnsMax} are the most`
        );
    }
}

/** The smaller side is built, unless some of its rows would leave before the join is ready for them. */
function sidesOf(node: JoinNode, needed: readonly number[], { estimator, policy }: TreeRequest): JoinSides {
    const wanted = joinSides(node, needed, estimator, policy);
    if (!givesKeylessBuildRows(node, wanted)) return wanted;
    const others = joinSidesFrom(node, otherSide(wanted.build));
    if (!givesKeylessBuildRows(node, others)) return others;
    throw new NotOnDevice("a full join whose keys may be NULL on both sides is no part of a tree out of core");
}

/** Somebody counts rows, who have to have a column: the narrowest, a key if there is one. */
function anyColumn(node: JoinNode): number {
    const bytes = node.columns.map(({ type }) => {
        const width = chunkWidth(type);
        return width === 0 ? Infinity : width + (type.nullable ? 1 : 0);
    });
    const isKey = node.columns.map((column) =>
        node.keys.some(
            ({ left, right }) =>
                (column.side !== "right" && column.left === left.column) ||
                (column.side !== "left" && column.right === right.column)
        )
    );
    const found = bytes.map((width, at) => ({ width: isKey[at] === true ? width / 2 : width, at }));
    const [best] = found.sort((a, b) => a.width - b.width);
    if (best === undefined || best.width === Infinity) {
        throw new NotOnDevice("a join has no column that could be in GPU memory");
    }
    return best.at;
}

const partOf = ({ value, offset, validity, mask }: OutOfCorePart): OutOfCorePipePart => ({
    ...{ value, offset, validity, mask }
});

function pipeOf(node: LogicalNode, made: Made, side: ReadSide, grouped: boolean): OutOfCorePipe {
    const from = (column: number) => ({
        type: passingType(columnOf(node, column), grouped),
        parts: (made.columns.get(column) ?? []).map(partOf)
    });
    return {
        presence: made.presence,
        nullByte: side.nullByte,
        keys: side.keys.map((key) => ({ key: passingKey(key, columnOf(node, key.column)), ...from(key.column) })),
        columns: side.columns.map(({ column, part, ...what }) => ({
            ...what,
            // It has been cut to 64 bits where it was read.
            part: part === "narrow" ? "whole" : part,
            ...from(column)
        }))
    };
}

/** Columns of a side that are read, each once. */
function readColumns(side: ReadSide): number[] {
    return [...new Set([...side.keys, ...side.columns].map(({ column }) => column))].sort((a, b) => a - b);
}

/** A join's side as group-bys say it: nothing stands for NULL. */
function readSideOf(node: LogicalNode, { keys, columns }: OutOfCoreSide, grouped: boolean): ReadSide {
    const partOf = (column: number): "whole" | "narrow" =>
        grouped && isNarrowDecimal(columnOf(node, column)) ? "narrow" : "whole";
    return {
        keys,
        columns: columns.map((one) => {
            const isPlain = one.validity || one.column === keyWordColumn;
            return { ...one, part: isPlain ? "whole" : partOf(one.column), fill: "none" };
        }),
        nullByte: -1
    };
}

interface OpenFlow {
    readonly input: number;
    readonly side: ReadSide;
    readonly steps: OutOfCoreStep[];
}

class TreeDraft {
    public readonly operators: TreeOperator[] = [];
    public readonly flows: OpenFlow[] = [];

    /** Does a group-by come last? */
    readonly #grouped: boolean;

    public constructor(private readonly request: TreeRequest) {
        this.#grouped = request.root.kind === "group";
    }

    public make(): TreeLayout {
        const { root, counted } = this.request;
        const { operators, flows } = this;
        if (root.kind === "group") {
            const { columns, side } = this.#group(root, counted);
            return { operators, flows, result: { kind: "group", columns, nullByte: side.nullByte } };
        }
        if (root.kind === "input") throw new NotOnDevice("there is nothing to join or to group");
        const needed = counted ? [] : root.columns.map((_, column) => column);
        const { columns, presence } = this.#join(root, needed, counted);
        const last = inputsOf(root)[flows.at(-1)?.input ?? -1];
        const unknown = root.columns.find((column) => !counted && waitsForDictionary(column, last));
        if (unknown !== undefined) throw dictionaryComesLate(unknown);
        return { operators, flows, result: { kind: "join", columns, presence } };
    }

    #group(node: GroupNode, counted: boolean): OutOfCoreGroupLayout {
        if (node.algorithm !== undefined) {
            throw new NotOnDevice(`"${node.algorithm}" was asked for, which groups a table in GPU memory`);
        }
        const layout = outOfCoreGroupLayout(node, counted);
        const operator = this.operators.push({ kind: "group", node, layout }) - 1;
        this.#enter(node.child, layout.side, operator, 0);
        return layout;
    }

    #join(node: JoinNode, needed: readonly number[], counted: boolean): OutOfCoreLayout {
        // Every join of a tree is a staged one.
        if (node.algorithm !== undefined && node.algorithm !== "staged") {
            const what = isOutOfCoreJoin(node.algorithm) ? "joins two relations alone" : "joins tables in GPU memory";
            throw new NotOnDevice(`"${node.algorithm}" was asked for, which ${what}`);
        }
        requirePackedKeys(node);
        const sides = sidesOf(node, needed, this.request);
        const columns = needed.map((column) => node.columns[column] as JoinNode["columns"][number]);
        const rule = {
            gathered: (found: readonly SideColumn[], _: number, side: Side) =>
                requireCarried(node[side], found, this.#grouped),
            width: (column: LogicalColumn) => passingWidth(column, this.#grouped),
            rowNumberBytes
        };
        const layout = outOfCoreLayout({ ...node, columns }, sides, undefined, { counted, rule });
        requireNarrowRows(layout);
        const operator = this.operators.push({ kind: "join", node, sides, layout }) - 1;
        const read = (side: Side, of: OutOfCoreSide) => readSideOf(node[side], of, this.#grouped);
        const probe = otherSide(sides.build);
        this.#enter(node[sides.build], read(sides.build, layout.build), operator, 0);
        this.#enter(node[probe], read(probe, layout.probe), operator, 1);
        return layout;
    }

    /** Rows of the child become an input of the operator: those of a source begin a flow, others go on in theirs. */
    #enter(child: LogicalNode, side: ReadSide, operator: number, input: number): void {
        if (child.kind === "input") {
            this.flows.push({ input: this.#inputOf(child), side, steps: [{ operator, input, pipe: null }] });
            return;
        }
        if (child.kind === "group") {
            throw new NotOnDevice("a group-by whose groups are joined or grouped again does not run out of core yet");
        }
        const read = readColumns(side);
        const needed = read.length > 0 ? read : [anyColumn(child)];
        const { columns, presence } = this.#join(child, needed, false);
        const made = {
            columns: new Map(needed.map((column, at) => [column, columns[at]?.parts ?? []])),
            presence
        };
        this.flows.at(-1)?.steps.push({ operator, input, pipe: pipeOf(child, made, side, this.#grouped) });
    }

    #inputOf({ input }: InputNode): number {
        return inputsOf(this.request.root).indexOf(input);
    }
}

/**
 * How the operators of a tree are laid out and which of them the rows of each input pass. Throws NotOnDevice with what
 * stands in the way.
 */
export function treeLayout(request: TreeRequest): TreeLayout {
    return new TreeDraft(request).make();
}
