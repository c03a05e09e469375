// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../../../errors.js";
import { isOutOfCoreJoin } from "../../../model/algorithms.js";
import { sumOf } from "../../../model/sizes.js";
import { keyWordColumn, rowNumberColumn, type ColumnType, type KeySpec } from "../../../model/column-type.js";
import type { GroupNode, InputNode, JoinNode, LogicalColumn, LogicalNode } from "../../../plan/logical.js";
import type { OutOfCoreGroupLayout } from "../../../plan/out-of-core-group-stage.js";
import type { OutOfCoreLayout, OutOfCorePart, OutOfCoreSide } from "../../../plan/out-of-core-stage.js";
import type {
    OutOfCoreFlow,
    OutOfCorePipe,
    OutOfCorePipePart,
    OutOfCoreResult,
    OutOfCoreStep,
    OutOfCoreTreeColumn,
    OutOfCoreTreeGathered
} from "../../../plan/out-of-core-tree-stage.js";
import { inputsOf } from "../../../plan/logical.js";
import { attempt, NotOnDevice } from "../../device-support.js";
import type { Estimator } from "../../estimates.js";
import { joinSides, joinSidesFrom, otherSide, type JoinSides, type Side } from "../../join-sides.js";
import type { Policy } from "../../policy.js";
import {
    chunkWidth,
    isText,
    keyBytesMax,
    rowBytesMax,
    rowColumnsMax,
    rowNumberBytes,
    textCodeBytes
} from "../chunk-rows.js";
import { requireKnownRows } from "../coherent/row-layout.js";
import { outOfCoreGroupLayout, type IsShortSum } from "../group/row-layout.js";
import { narrowDecimals } from "../narrow-decimals.js";
import { whyGathered, type SideColumn } from "../join/gather.js";
import { equalsNull, keyPlan } from "../join/keys.js";
import { baselineLimits, keyWordsOf, outOfCoreLayout } from "../join/row-layout.js";
import { dictionaryComesLate, givesKeylessBuildRows, waitsForDictionary } from "../join/stream-sides.js";
import { GatherChoice, isRowNumber, type GatheredColumn, type NumberedTree } from "./row-numbers.js";

/** A join or a group-by of the tree, with how its rows are laid out. */
export type TreeOperator =
    | { readonly kind: "join"; readonly node: JoinNode; readonly sides: JoinSides; readonly layout: OutOfCoreLayout }
    | { readonly kind: "group"; readonly node: GroupNode; readonly layout: OutOfCoreGroupLayout };

export interface TreeLayout {
    /** The last operator comes first, and every one before those that give it rows. */
    readonly operators: readonly TreeOperator[];
    readonly flows: readonly OutOfCoreFlow[];
    readonly result: OutOfCoreResult;
    /** Columns that are gathered by row number from the sources of flows. */
    readonly gathered: readonly OutOfCoreTreeGathered[];
}

export interface TreeRequest {
    readonly root: LogicalNode;
    /** Nobody wants rows. */
    readonly counted: boolean;
    /** Nobody reads rows before all are there. */
    readonly held: boolean;
    readonly estimator: Estimator;
    readonly policy: Policy;
    readonly shortSumsOf: (node: GroupNode) => IsShortSum;
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

/** Decimals that pass operators in 64 bits. */
type IsNarrow = (column: LogicalColumn) => boolean;

/** Bytes of a column that passes operators: text goes by its number. */
function passingWidth(column: LogicalColumn, isNarrow: IsNarrow): number {
    if (isNarrow(column)) return 8;
    return isText(column.type) ? textCodeBytes : chunkWidth(column.type);
}

/** Such a column as it comes out of an operator. */
function passingType(column: LogicalColumn, isNarrow: IsNarrow): ColumnType {
    const { type } = column;
    const byteWidth = passingWidth(column, isNarrow);
    if (byteWidth === chunkWidth(type)) return type;
    const order = isText(type) ? "unsigned" : "signed";
    return { ...type, layout: "fixed", byteWidth, order, utf8: false, children: [] };
}

/** A key of a column that comes out of an operator: text is a number there. */
function passingKey(key: KeySpec, { name, type }: LogicalColumn): KeySpec {
    if (key.kind === "float" && type.byteWidth < 4) {
        throw new NotOnDevice(`key \`${name}\` has floats of 16 bits, which are compared after no other operator`);
    }
    if (key.kind === "dictionaryValue") {
        throw new NotOnDevice(
            `key \`${name}\` is a dictionary column whose values are compared after another operator`
        );
    }
    return key.kind === "bytes" ? { ...key, kind: "integer", width: textCodeBytes } : key;
}

/** What can neither be gathered nor travel stands in the way: columns of streams, and what operators compute. */
function requireCarried(node: LogicalNode, columns: readonly SideColumn[], isNarrow: IsNarrow): Map<number, string> {
    for (const { column, type } of columns) {
        const from = columnOf(node, column);
        if (passingWidth(from, isNarrow) > 0) continue;
        const why = whyGathered(type) ?? "";
        const stream = from.origin?.input.streamed === true ? ` of the stream \`${from.origin.input.name}\`` : "";
        throw new NotOnDevice(
            `column \`${from.name}\`${stream} (${why}) does not pass more than one operator out of core`
        );
    }
    return new Map();
}

/** Which sides of a join say with a byte of the key which of its values are NULL. */
type FlaggedSides = "both" | "build" | "none";

/** The byte of the key that does, of either side; -1: there is none. Pairs of equal hashes are compared in no tree. */
function nullByteOf(node: JoinNode, flagged: FlaggedSides, counted: boolean): number {
    const { mode, nullByte } = keyPlan(node, { wordsMax: keyWordsOf(counted), flagged: flagged !== "none" });
    if (mode === "packed") return nullByte;
    const names = node.keys.map(({ left }) => columnOf(node.left, left.column));
    const keys = names.map(({ name, field }) => `\`${name}\` (${String(field.type)})`).join(", ");
    throw new NotOnDevice(
        `keys ${keys} of a join do not pass more than one operator out of core: they have more than ` +
            `${keyWordsOf(counted) * keyBytesMax} bytes`
    );
}

/**
 * Do kernels alone run the join, as "triton" wants it? Where no join was named, copy engines do. Throws NotOnDevice for
 * other names, and where kernels would have to know how many rows come before they come.
 */
export function isByKernels({ algorithm, left, right }: JoinNode): boolean {
    if (algorithm === undefined || algorithm === "staged") return false;
    const isTriton = algorithm === "triton" || algorithm === "triton-uncached";
    if (!isTriton || left.kind !== "input" || right.kind !== "input") {
        const what = isOutOfCoreJoin(algorithm) ? "joins two relations alone" : "joins tables in GPU memory";
        throw new NotOnDevice(`"${algorithm}" was asked for, which ${what}`);
    }
    requireKnownRows({ left, right });
    return true;
}

/** Rows of an operator's input have more, or wider, columns than it can move; row numbers may take their place. */
class RowTooWide extends NotOnDevice {
    /** `isByKernels`: they move one value beside the key, so that numbers help even where they have as many bytes. */
    public constructor(
        public readonly side: LogicalNode,
        public readonly isByKernels: boolean,
        reason: string
    ) {
        super(reason);
    }
}

/** Throws RowTooWide where kernels would have to move more of a row than a key and a value of its width. */
function requireAlone(node: LogicalNode, columns: readonly SideColumn[], keyBytes: number, isNarrow: IsNarrow): void {
    for (const { column } of columns) {
        const from = columnOf(node, column);
        const width = passingWidth(from, isNarrow);
        const why =
            columns.length > 1
                ? `one of ${columns.length} columns`
                : width !== keyBytes
                  ? `of ${width} bytes`
                  : from.type.nullable
                    ? "which may be NULL"
                    : undefined;
        if (why === undefined) continue;
        throw new RowTooWide(
            node,
            true,
            `kernels move a key of ${keyBytes} bytes and one value as wide, never NULL, to the next operator, ` +
                `and not column \`${from.name}\`, ${why}`
        );
    }
}

/** Kernels compare a word of each side as it is, and have none beside it. */
function requireOneWord(node: JoinNode, flagged: FlaggedSides): void {
    const { mode, columns } = keyPlan(node, { wordsMax: 1 });
    if (mode === "packed" && columns === 0 && flagged === "none") return;
    const names = node.keys.map(({ left }) => `\`${columnOf(node.left, left.column).name}\``).join(", ");
    const why = flagged === "none" ? `they have more than ${keyBytesMax} bytes` : "their NULLs count";
    throw new NotOnDevice(`kernels compare no keys ${names} below another operator: ${why}`);
}

function requireNarrowRows({ join, ...layout }: OutOfCoreLayout, node: JoinNode, { build }: JoinSides): void {
    for (const role of ["build", "probe"] as const) {
        const side = role === "build" ? node[build] : node[otherSide(build)];
        const widths = role === "build" ? join.buildWidths : join.probeWidths;
        const bytes = join.keyBytes + sumOf(widths);
        // Values of 16 bytes count twice.
        const fields = widths.length + widths.filter((width) => width > keyBytesMax).length;
        if (bytes <= rowBytesMax && fields <= rowColumnsMax) continue;
        const columns = layout[role].columns.filter(({ column, validity }) => column >= 0 && !validity);
        const named = columns.map(({ column }) => columnOf(side, column));
        const names = named.map(({ name, field }) => `\`${name}\` (${String(field.type)})`).join(", ");
        throw new RowTooWide(
            side,
            false,
            `a row of ${bytes} bytes, of which ${rowBytesMax} are the most (and ${rowColumnsMax} columns), would ` +
                `pass from operator to operator out of core, with ${names}`
        );
    }
}

/**
 * The smaller side is built, unless some of its rows would leave before the join is ready for them: those that have no
 * key, and come out all the same. Where the other side has such rows, too, build rows have keys that say what is NULL,
 * which no probe row has.
 */
function sidesOf(
    node: JoinNode,
    needed: readonly number[],
    { estimator, policy }: TreeRequest
): { sides: JoinSides; flagged: FlaggedSides } {
    const wanted = joinSides(node, needed, estimator, policy);
    if (equalsNull(node)) return { sides: wanted, flagged: "both" };
    if (!givesKeylessBuildRows(node, wanted)) return { sides: wanted, flagged: "none" };
    const others = joinSidesFrom(node, otherSide(wanted.build));
    return givesKeylessBuildRows(node, others)
        ? { sides: wanted, flagged: "build" }
        : { sides: others, flagged: "none" };
}

/** Somebody counts rows, who have to have a column: the narrowest, a key if there is one. */
function anyColumn(node: JoinNode, isNarrow: IsNarrow): number {
    const bytes = node.columns.map((column) => {
        const width = passingWidth(column, isNarrow);
        return width === 0 ? Infinity : width + (column.type.nullable ? 1 : 0);
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

function pipeOf(node: LogicalNode, made: Made, side: ReadSide, isNarrow: IsNarrow): OutOfCorePipe {
    const from = (column: number) => ({
        type: passingType(columnOf(node, column), isNarrow),
        parts: (made.columns.get(column) ?? []).map(partOf)
    });
    return {
        presence: made.presence,
        nullByte: side.nullByte,
        keys: side.keys.map((key) => ({ key: passingKey(key, columnOf(node, key.column)), ...from(key.column) })),
        columns: side.columns.flatMap(({ column, part, validity, fill }) =>
            // Words of the key are made of its values. What is narrow was cut to 64 bits where it was read.
            column === keyWordColumn
                ? []
                : [{ validity, fill, part: part === "narrow" ? "whole" : part, ...from(column) }]
        )
    };
}

/** Columns of a side that are read, each once. */
function readColumns(side: ReadSide): number[] {
    const columns = [...side.keys, ...side.columns].map(({ column }) => column);
    return [...new Set(columns)].filter((column) => column !== keyWordColumn).sort((a, b) => a - b);
}

/** A join's side as group-bys say it: nothing stands for NULL. */
function readSideOf(
    node: LogicalNode,
    { keys, columns }: OutOfCoreSide,
    { isNarrow, nullByte }: { isNarrow: IsNarrow; nullByte: number }
): ReadSide {
    const partOf = (column: number): "whole" | "narrow" => (isNarrow(columnOf(node, column)) ? "narrow" : "whole");
    return {
        keys,
        columns: columns.map((one) => {
            const isPlain = one.validity || one.column === keyWordColumn;
            const fill = !isPlain && isRowNumber(columnOf(node, one.column)) ? "largest" : "none";
            return { ...one, part: isPlain ? "whole" : partOf(one.column), fill, distinct: null };
        }),
        ...{ nullByte, numbered: false }
    };
}

/** As a source is read: it has no column of row numbers. */
function numbered({ columns }: InputNode, side: ReadSide): ReadSide {
    return {
        ...side,
        columns: side.columns.map((one) => {
            const from = columns[one.column];
            if (from === undefined || !isRowNumber(from)) return one;
            return { ...one, column: rowNumberColumn, fill: "none" };
        })
    };
}

/** Columns are gathered, of one source after the other, until rows are narrow enough. */
function joinLayout(root: JoinNode, request: TreeRequest): TreeLayout {
    const choice = new GatherChoice(root);
    for (;;) {
        const tree = choice.tree();
        const made = attempt(() => new TreeDraft(request).rows(root, tree, choice.gathered));
        if (!(made instanceof NotOnDevice)) return made;
        if (!(made instanceof RowTooWide)) throw made;
        const among = new Set([...tree.sources].flatMap(([node, source]) => (isIn(made.side, node) ? [source] : [])));
        const why = made.isByKernels ? "kernels move one value beside a key" : "rows too wide to travel";
        if (!choice.gatherMore(among, why, made.isByKernels)) throw made;
    }
}

/** Is a node part of a tree? */
function isIn(tree: LogicalNode, node: LogicalNode): boolean {
    if (tree === node) return true;
    if (tree.kind === "input") return false;
    return tree.kind === "group" ? isIn(tree.child, node) : isIn(tree.left, node) || isIn(tree.right, node);
}

interface OpenFlow {
    readonly input: number;
    readonly side: ReadSide;
    readonly steps: OutOfCoreStep[];
}

class TreeDraft {
    public readonly operators: TreeOperator[] = [];
    public readonly flows: OpenFlow[] = [];

    /** Group-bys take decimals in 64 bits where no join below them compares all bytes. */
    readonly #isNarrow: IsNarrow;
    /** The flow of each source. */
    readonly #flowOf = new Map<LogicalNode, number>();

    public constructor(private readonly request: TreeRequest) {
        const { root } = request;
        this.#isNarrow = root.kind === "group" ? narrowDecimals(root) : () => false;
    }

    public groups(root: GroupNode): TreeLayout {
        const { operators, flows } = this;
        const { columns, side } = this.#group(root, this.request.counted);
        return { operators, flows, result: { kind: "group", columns, nullByte: side.nullByte }, gathered: [] };
    }

    public counts(root: JoinNode): TreeLayout {
        const { operators, flows } = this;
        const { presence } = this.#join(root, [], true);
        const rowNumbers = flows.map(() => -1);
        return { operators, flows, result: { kind: "join", columns: [], presence, rowNumbers }, gathered: [] };
    }

    /** wanted: the join as the query has it, with those of its columns that are gathered. */
    public rows(wanted: JoinNode, tree: NumberedTree, gathered: ReadonlyMap<number, GatheredColumn>): TreeLayout {
        const { operators, flows } = this;
        const { root, numbers } = tree;
        const all = root.columns.map((_, column) => column);
        const layout = this.#join(root, all, false);
        const last = this.request.held ? undefined : inputsOf(root)[flows.at(-1)?.input ?? -1];
        const unknown = wanted.columns.find((column) => waitsForDictionary(column, last));
        if (unknown !== undefined) throw dictionaryComesLate(unknown);
        const flowOf = new Map([...tree.sources].map(([node, source]) => [source, this.#flowOf.get(node) ?? -1]));
        const partOfNumber = (source: number): OutOfCorePart | undefined =>
            layout.columns[numbers.get(source) ?? -1]?.parts[0];
        const rowNumbers = flows.map(() => -1);
        for (const source of numbers.keys()) rowNumbers[flowOf.get(source) ?? -1] = partOfNumber(source)?.value ?? -1;
        const columns = wanted.columns.map(({ type }, at): OutOfCoreTreeColumn => {
            const sources = gathered.get(at)?.sources;
            if (sources === undefined) {
                const parts = layout.columns[tree.columns.get(at) ?? -1]?.parts ?? [];
                return { type, parts: parts.map((part) => ({ ...part, from: "gpu", flow: -1 })) };
            }
            const parts = sources.map(({ source, column }) => ({
                ...{ from: "flow", flow: flowOf.get(source) ?? -1, value: column, offset: 0, validity: -1 },
                mask: partOfNumber(source)?.mask ?? 0
            }));
            return { type, parts: parts as OutOfCoreTreeColumn["parts"] };
        });
        const why = [...gathered].flatMap(([at, { sources, reason }]) =>
            sources.map(({ source, column }) => ({
                ...{ flow: flowOf.get(source) ?? -1, column, reason },
                name: columnOf(wanted, at).name
            }))
        );
        return {
            ...{ operators, flows, gathered: why },
            result: { kind: "join", columns, presence: layout.presence, rowNumbers }
        };
    }

    #group(node: GroupNode, counted: boolean): OutOfCoreGroupLayout {
        if (node.algorithm !== undefined) {
            throw new NotOnDevice(`"${node.algorithm}" was asked for, which groups a table in GPU memory`);
        }
        const layout = outOfCoreGroupLayout(node, counted, { isShortSum: this.request.shortSumsOf(node) });
        const operator = this.operators.push({ kind: "group", node, layout }) - 1;
        this.#enter(node.child, layout.side, operator, 0);
        return layout;
    }

    #join(node: JoinNode, needed: readonly number[], counted: boolean): OutOfCoreLayout {
        const byKernels = isByKernels(node);
        const { sides, flagged } = sidesOf(node, needed, this.request);
        if (byKernels) requireOneWord(node, flagged);
        const columns = needed.map((column) => node.columns[column] as JoinNode["columns"][number]);
        // Where keys lie among the words depends on which of them the result has.
        const nullByte = nullByteOf({ ...node, columns }, flagged, counted);
        const rule = {
            gathered: (found: readonly SideColumn[], keyBytes: number, side: Side) => {
                const none = requireCarried(node[side], found, this.#isNarrow);
                if (byKernels) requireAlone(node[side], found, keyBytes, this.#isNarrow);
                return none;
            },
            width: (column: LogicalColumn) => passingWidth(column, this.#isNarrow),
            rowNumberBytes
        };
        const layout = outOfCoreLayout({ ...node, columns }, sides, undefined, {
            ...{ counted, rule, flagged: flagged !== "none" },
            ...(byKernels ? { limits: baselineLimits } : {})
        });
        requireNarrowRows(layout, node, sides);
        const operator = this.operators.push({ kind: "join", node, sides, layout }) - 1;
        const read = (side: Side, of: OutOfCoreSide, has: boolean) =>
            readSideOf(node[side], of, { isNarrow: this.#isNarrow, nullByte: has ? nullByte : -1 });
        const probe = otherSide(sides.build);
        this.#enter(node[sides.build], read(sides.build, layout.build, flagged !== "none"), operator, 0);
        this.#enter(node[probe], read(probe, layout.probe, flagged === "both"), operator, 1);
        return layout;
    }

    /** Rows of the child become an input of the operator: those of a source begin a flow, others go on in theirs. */
    #enter(child: LogicalNode, side: ReadSide, operator: number, input: number): void {
        if (child.kind === "input") {
            const steps = [{ operator, input, pipe: null }];
            this.#flowOf.set(
                child,
                this.flows.push({ input: this.#inputOf(child), side: numbered(child, side), steps }) - 1
            );
            return;
        }
        if (child.kind === "group") {
            throw new SpillwayError(
                "INTERNAL",
                "A group-by whose groups are joined or grouped again is a stage of its own"
            );
        }
        const read = readColumns(side);
        const needed = read.length > 0 ? read : [anyColumn(child, this.#isNarrow)];
        const { columns, presence } = this.#join(child, needed, false);
        const made = {
            columns: new Map(needed.map((column, at) => [column, columns[at]?.parts ?? []])),
            presence
        };
        this.flows.at(-1)?.steps.push({ operator, input, pipe: pipeOf(child, made, side, this.#isNarrow) });
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
    const { root, counted } = request;
    if (root.kind === "group") return new TreeDraft(request).groups(root);
    if (root.kind === "input") throw new NotOnDevice("there is nothing to join or to group");
    return counted ? new TreeDraft(request).counts(root) : joinLayout(root, request);
}
