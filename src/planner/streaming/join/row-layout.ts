// SPDX-License-Identifier: Apache-2.0
import { SpillwayError } from "../../../errors.js";
import { keyWordColumn, rowNumberColumn } from "../../../model/column-type.js";
import { deviceConstants } from "../../../model/device-constants.js";
import type { InputInfo, JoinColumn, JoinNode, LogicalColumn } from "../../../plan/logical.js";
import type {
    OutOfCoreColumn,
    OutOfCoreGathered,
    OutOfCoreLayout,
    OutOfCoreOutput,
    OutOfCorePart,
    OutOfCoreSide
} from "../../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../../device-support.js";
import { otherSide, type JoinSides, type Side } from "../../join-sides.js";
import {
    keyWordsMax,
    baselineRowBytesMax,
    chunkWidth,
    isNumbered,
    isText,
    isTextKey,
    keyBytesMax,
    rowBytesMax,
    rowColumnsMax,
    rowNumberBytes,
    textCodeBytes
} from "../chunk-rows.js";
import {
    carriedColumns,
    chooseGathered,
    whyGathered,
    type GatherCosts,
    type RowRoom,
    type SideColumn
} from "./gather.js";
import { keyPlan, type KeyPlan } from "./keys.js";

/** Bits of the presence byte. */
const present = {
    build: deviceConstants.buildPresent,
    probe: deviceConstants.probePresent,
    key: deviceConstants.keyPresent
};

interface SideDraft {
    columns: { column: number; validity: boolean }[];
    widths: number[];
    /** Output with the row numbers; -1: none. */
    rowNumbers: number;
    /** Columns that do not go to the GPU, and why. */
    gathered: Map<number, string>;
}

const emptySide = (): SideDraft => ({ columns: [], widths: [], rowNumbers: -1, gathered: new Map() });

/** What a path of joins can carry beside a key, where that is not what copy engines can. */
export interface CarryRule {
    /** Columns of a side that stay in host memory, and why. */
    gathered(columns: readonly SideColumn[], keyBytes: number, side: Side): Map<number, string>;
    /** Bytes of a column that travels; left out: those of its values. */
    width?(column: LogicalColumn): number;
    /** Bytes of a row number; throws NotOnDevice where numbers of so many rows do not fit. */
    rowNumberBytes(rows: number, keyBytes: number): number;
}

/** How rows are to be laid out. */
export interface LayoutRequest {
    /** Nobody wants rows. */
    readonly counted: boolean;
    /** Left out where only the size of rows matters. */
    readonly costs?: GatherCosts;
    /** Left out: the path of copy engines, which carry what fits a row. */
    readonly rule?: CarryRule;
    /** Left out: those of joins by copy engines. */
    readonly limits?: RowLimits;
    /** A byte of the key says which of its values are NULL, of one side or of both. */
    readonly flagged?: boolean;
}

/** Words of keys that can be compared, and bytes of a row with its key. */
export interface RowLimits {
    readonly keyWordsMax: number;
    readonly rowBytesMax: number;
}

const stagedLimits: RowLimits = { keyWordsMax, rowBytesMax };

/** Kernels of other joins compare a single word, and keep a row in registers. */
export const baselineLimits: RowLimits = { keyWordsMax: 1, rowBytesMax: baselineRowBytesMax };

/** Words of keys: where rows come out, they have to have room for something to tell them by, a value or a number. */
export function keyWordsOf(counted: boolean, limits = stagedLimits): number {
    const words = limits.rowBytesMax / keyBytesMax;
    return Math.min(limits.keyWordsMax, counted ? words : words - 1);
}

/** Puts the rows of both sides, and of the result, together; throws NotOnDevice where there is no way. */
class LayoutDraft {
    readonly #sides: Record<Side, SideDraft> = { left: emptySide(), right: emptySide() };
    readonly #outputs: OutOfCoreOutput[] = [];
    readonly #keys: KeyPlan;

    public constructor(
        private readonly node: JoinNode,
        private readonly sides: JoinSides,
        private readonly inputs: Readonly<Record<Side, InputInfo>> | undefined,
        private readonly request: LayoutRequest
    ) {
        const wordsMax = keyWordsOf(request.counted, request.limits);
        const { flagged = false } = request;
        const streamed = this.#isStreamed;
        const shortTexts = inputs !== undefined && !streamed;
        this.#keys = keyPlan(node, { wordsMax, flagged, streamed, shortTexts });
        for (const side of ["left", "right"] as const) {
            for (let word = 0; word < this.#keys.columns; ++word) {
                this.#sides[side].columns.push({ column: keyWordColumn, validity: false });
                this.#sides[side].widths.push(keyBytesMax);
            }
        }
    }

    public make(): OutOfCoreLayout {
        const { node, sides } = this;
        const { counted } = this.request;
        const { emit, anti, keepUnmatchedBuild, keepUnmatchedProbe } = sides;
        const { mode, bytes, nullsEqual } = this.#keys;
        if (!counted && node.columns.length === 0) {
            throw new NotOnDevice("a result without columns is nothing that a GPU could hold");
        }
        for (const side of ["left", "right"] as const) {
            if (!counted) this.#chooseGathered(side);
        }
        const drafts = counted ? [] : node.columns.map((column) => this.#column(column));
        const masked = drafts.some(({ parts }) => parts.some(({ mask }) => mask !== 0));
        const presence = masked ? this.#output({ side: "presence", column: 0 }) : -1;
        const [build, probe] = [sides.build, otherSide(sides.build)];
        // Whoever counts pairs has to compare their keys.
        if (mode === "hashed") for (const side of [build, probe]) this.#rowNumbers(side);
        return {
            keys: mode,
            nullsEqual,
            join: {
                keyBytes: bytes,
                keyColumns: this.#keys.columns,
                buildWidths: this.#sides[build].widths,
                probeWidths: this.#sides[probe].widths,
                ...{ emit, anti, keepUnmatchedBuild, keepUnmatchedProbe },
                result: counted && mode !== "hashed" ? "count" : "rows",
                outputs: this.#outputs
            },
            build: this.#side(build),
            probe: this.#side(probe),
            columns: drafts,
            presence,
            rowNumbers: { build: this.#sides[build].rowNumbers, probe: this.#sides[probe].rowNumbers },
            gathered: [...this.#gathered(build), ...this.#gathered(probe)]
        };
    }

    #input(side: Side): InputInfo {
        if (this.inputs !== undefined) return this.inputs[side];
        throw new SpillwayError("INTERNAL", "Columns are gathered from rows that are no input's");
    }

    #columnOf(side: Side, column: number): LogicalColumn {
        return this.node[side].columns[column] as LogicalColumn;
    }

    /**
     * Nothing is left on the GPU of a key that is hashed, and pairs that have only the hash in common must bring no
     * column that was carried with it: all are gathered then. A column of both sides takes keys, which are narrow but
     * for those that are numbered.
     */
    #chooseGathered(side: Side): void {
        const draft = this.#sides[side];
        let takenBytes = this.#keys.bytes + keyBytesMax * this.#keys.columns;
        let takenColumns = this.#keys.columns;
        const columns = new Map<number, SideColumn>();
        const shared: number[] = [];
        for (const column of this.node.columns) {
            if (column.side !== side && column.side !== "either") continue;
            const index = column[side];
            const { type } = this.#columnOf(side, index);
            if (this.#keyPart(side, index) !== undefined) continue;
            // A column of both sides is carried with all its parts or with none.
            if (column.side === "either" && this.#gathersShared) shared.push(index);
            if (column.side === "either" && this.#width(side, index) > 0 && !this.#gathersShared) {
                takenBytes += this.#carriedBytes(side, index);
                takenColumns += carriedColumns({ type });
            } else columns.set(index, { column: index, type });
        }
        const { costs, rule } = this.request;
        if (this.#keys.mode === "hashed") {
            for (const index of columns.keys()) draft.gathered.set(index, "beside a key that is hashed");
        } else if (this.inputs?.[side].streamed === true) {
            this.#requireCarried(side, columns, { takenBytes, takenColumns });
        } else if (rule !== undefined) {
            draft.gathered = rule.gathered([...columns.values()], this.#keys.bytes, side);
            if (shared.length === 0) return;
            for (const index of columns.keys()) {
                if (!draft.gathered.has(index)) draft.gathered.set(index, "one of both sides, or beside one");
            }
        } else {
            const number = shared.length === 0 ? 0 : rowNumberBytes(this.#input(side).rows);
            const room = {
                takenBytes: takenBytes + number,
                takenColumns: takenColumns + (number > 0 ? 1 : 0),
                bytesMax: this.#limits.rowBytesMax
            };
            for (const index of shared) columns.delete(index);
            draft.gathered = chooseGathered(side, [...columns.values()], room, this.#input(side), costs);
            for (const index of shared) draft.gathered.set(index, "a key of both sides that is numbered");
        }
    }

    /** Bytes of a value that travels, and of whether there is one. */
    #carriedBytes(side: Side, column: number): number {
        return this.#width(side, column) + (this.#columnOf(side, column).type.nullable ? 1 : 0);
    }

    /** Rows of a stream are gone when the result is made: all of their columns have to travel. */
    #requireCarried(side: Side, columns: ReadonlyMap<number, SideColumn>, taken: RowRoom): void {
        const { name: stream } = this.#input(side);
        let { takenBytes: bytes, takenColumns: fields } = taken;
        if (bytes > rowBytesMax || fields > rowColumnsMax) {
            throw new NotOnDevice(
                `keys that the result has of both sides take ${bytes} bytes and ${fields} columns of a row of the ` +
                    `stream \`${stream}\`, ${rowBytesMax} and ${rowColumnsMax} are the most`
            );
        }
        for (const [index, column] of columns) {
            const { type } = column;
            const { name } = this.#columnOf(side, index);
            const cannot = (why: string): NotOnDevice =>
                new NotOnDevice(`column \`${name}\` (${why}) of the stream \`${stream}\` cannot be in GPU memory`);
            if (this.#width(side, index) === 0) throw cannot(whyGathered(type) ?? type.layout);
            bytes += this.#carriedBytes(side, index);
            fields += carriedColumns(column);
            if (bytes > rowBytesMax) throw cannot(`in a row of more than ${rowBytesMax} bytes`);
            if (fields > rowColumnsMax) throw cannot(`in a row of more than ${rowColumnsMax} columns`);
        }
    }

    #gathered(side: Side): OutOfCoreGathered[] {
        return [...this.#sides[side].gathered].map(([column, reason]) => ({
            side: this.#role(side),
            column,
            name: this.#columnOf(side, column).name,
            reason
        }));
    }

    /** The output with the numbers of the side's rows. */
    #rowNumbers(side: Side): number {
        const draft = this.#sides[side];
        if (draft.rowNumbers < 0) {
            const { rows } = this.#input(side);
            const width = this.request.rule?.rowNumberBytes(rows, this.#keys.bytes) ?? rowNumberBytes(rows);
            draft.rowNumbers = this.#carried(side, rowNumberColumn, false, width);
        }
        return draft.rowNumbers;
    }

    #side(side: Side): OutOfCoreSide {
        const keys = this.#keys.order.flatMap((at) => this.#keys.keys.slice(at, at + 1));
        return { keys: keys.map((key) => ({ ...key[side] })), columns: this.#sides[side].columns };
    }

    get #limits(): RowLimits {
        return this.request.limits ?? stagedLimits;
    }

    #role(side: Side): "build" | "probe" {
        return side === this.sides.build ? "build" : "probe";
    }

    #output(wanted: OutOfCoreOutput): number {
        const found = this.#outputs.findIndex(({ side, column }) => side === wanted.side && column === wanted.column);
        return found >= 0 ? found : this.#outputs.push(wanted) - 1;
    }

    /** The output with a column of a side, or with whether it has a value. */
    #carried(side: Side, column: number, validity: boolean, width: number): number {
        const { columns, widths } = this.#sides[side];
        let at = columns.findIndex((other) => other.column === column && other.validity === validity);
        if (at < 0) {
            at = columns.push({ column, validity }) - 1;
            widths.push(width);
        }
        return this.#output({ side: this.#role(side), column: at });
    }

    /** Do rows of the side come out that found no partner? */
    #keepsLone(side: Side): boolean {
        const { emit, anti, keepUnmatchedBuild, keepUnmatchedProbe } = this.sides;
        if (emit !== "pairs") return anti;
        return this.#role(side) === "build" ? keepUnmatchedBuild : keepUnmatchedProbe;
    }

    /** Do rows of the side come out that have no key, and so no partner? Text that no build row has is none either. */
    #keepsKeyless(side: Side): boolean {
        if (this.#keys.nullsEqual || this.#keys.nullByte >= 0) return false;
        const isProbe = this.#role(side) === "probe";
        const lacks = this.#keys.keys.some(({ [side]: key }) => {
            const isUnknown = isProbe && isTextKey(key) && key.width === 0;
            return this.#columnOf(side, key.column).type.nullable || isUnknown;
        });
        return lacks && this.#keepsLone(side);
    }

    get #isStreamed(): boolean {
        return this.inputs !== undefined && (this.inputs.left.streamed || this.inputs.right.streamed);
    }

    /**
     * Kernels that move one value beside a key leave keys of both sides behind that cannot be read from it. From its
     * number none can, and there may be as many as no row has room for; only rows of a stream have to bring them.
     */
    get #gathersShared(): boolean {
        if (this.#keys.mode === "numbered") return !this.#isStreamed;
        if (this.request.rule === undefined || this.inputs === undefined || this.node.keys.length === 1) return false;
        return this.#keepsKeyless("left") || this.#keepsKeyless("right");
    }

    #presenceOf(side: Side): number {
        const missing = this.sides.emit === "pairs" && this.#keepsLone(otherSide(side));
        return missing ? present[this.#role(side)] : 0;
    }

    #part(side: Side, column: number): OutOfCorePart {
        const mask = this.#presenceOf(side);
        const key = this.#keyPart(side, column);
        if (key !== undefined) {
            const { word, ...place } = key;
            const value =
                this.#keys.columns === 0
                    ? this.#output({ side: "key", column: 0 })
                    : this.#output({ side: this.#role(side), column: word - 1 });
            return { from: "gpu", value, ...place, mask: mask | (this.#keepsKeyless(side) ? present.key : 0) };
        }
        if (this.#sides[side].gathered.has(column)) {
            this.#rowNumbers(side);
            return { from: this.#role(side), value: column, offset: 0, validity: -1, mask };
        }
        const { type } = this.#columnOf(side, column);
        return {
            from: "gpu",
            value: this.#carried(side, column, false, this.#width(side, column)),
            offset: 0,
            validity: type.nullable ? this.#carried(side, column, true, 1) : -1,
            mask
        };
    }

    /**
     * Keys that can be read from their normalized values are not carried. Of several keys one may be NULL and the
     * others not, in rows without a partner: there the key as a whole is missing.
     */
    #keyPart(
        side: Side,
        column: number
    ): (Pick<OutOfCorePart, "offset" | "validity"> & { readonly word: number }) | undefined {
        const { keys } = this.node;
        // What is NULL among them is told by a bit that no part of the result looks at.
        if (this.#keys.mode !== "packed" || this.#keys.nullByte >= 0) return undefined;
        const at = keys.findIndex((key) => key[side].column === column);
        const key = keys[at]?.[side];
        if (key === undefined || (key.kind !== "integer" && key.kind !== "fixedBytes")) return undefined;
        if (chunkWidth(this.#columnOf(side, column).type) === 0) return undefined;
        if (keys.length > 1 && this.#keepsKeyless(side)) return undefined;
        const isShared = this.node.columns.some((other) => other.side === "either" && other[side] === column);
        if (isShared && this.#gathersShared) return undefined;
        const place = this.#keys.places[this.#keys.order.indexOf(at)];
        // The first of several words is no value but mixed with the others, and of a value in two words neither is one.
        const isWhole = this.#keys.columns === 0 || (place?.word !== 0 && key.width <= keyBytesMax);
        return place !== undefined && isWhole ? { ...place, validity: -1 } : undefined;
    }

    #width(side: Side, column: number): number {
        const from = this.#columnOf(side, column);
        const width = this.request.rule?.width?.(from);
        if (width !== undefined) return width;
        return this.#isNumbered(side, column) ? textCodeBytes : chunkWidth(from.type);
    }

    /** Does the number of a text travel, of this side or of the other one that has a part of the result column? */
    #isNumbered(side: Side, column: number): boolean {
        const from = this.#columnOf(side, column);
        if (!isText(from.type) || isNumbered(from)) return isNumbered(from);
        const other = otherSide(side);
        return this.node.columns.some(
            (result) =>
                result.side === "either" && result[side] === column && isNumbered(this.#columnOf(other, result[other]))
        );
    }

    #column(column: JoinColumn): OutOfCoreColumn {
        const { side, type } = column;
        const parts =
            side === "either"
                ? [this.#part("left", column.left), this.#part("right", column.right)]
                : [this.#part(side, column[side])];
        return { type, parts };
    }
}

/**
 * Throws NotOnDevice with why such a join cannot run out of core that way. inputs: left out where a side is no input,
 * so that the rule gathers nothing.
 */
export function outOfCoreLayout(
    node: JoinNode,
    sides: JoinSides,
    inputs: Readonly<Record<Side, InputInfo>> | undefined,
    request: LayoutRequest
): OutOfCoreLayout {
    return new LayoutDraft(node, sides, inputs, request).make();
}
