// SPDX-License-Identifier: Apache-2.0
import type { ColumnType } from "../../model/column-type.js";
import type { JoinColumn, JoinNode, LogicalColumn } from "../../plan/logical.js";
import type {
    OutOfCoreColumn,
    OutOfCoreLayout,
    OutOfCoreOutput,
    OutOfCorePart,
    OutOfCoreSide
} from "../../plan/out-of-core-stage.js";
import { NotOnDevice } from "../device-support.js";
import { otherSide, type JoinSides, type Side } from "../join-sides.js";

/** Of a row on the GPU, with its key (kRowWordsMax in cuda/radix_partition/row_layout.hpp). */
const rowBytesMax = 32;
const rowColumnsMax = 28;
const valueBytesMax = 16;
const keyBytesMax = 8;

/** Bits of the presence byte (PresenceBits in cuda/materialize/join_output.hpp). */
const present = { build: 1, probe: 2, key: 4 } as const;

/** Bytes of a value on the GPU; 0: it cannot be there. */
export function chunkWidth(type: ColumnType): number {
    if (type.layout === "bool") return 1;
    if (type.layout !== "fixed" || type.byteWidth > valueBytesMax) return 0;
    return Number.isInteger(Math.log2(type.byteWidth)) ? type.byteWidth : 0;
}

interface SideDraft {
    columns: { column: number; validity: boolean }[];
    widths: number[];
}

/** Puts the rows of both sides, and of the result, together; throws NotOnDevice where there is no way. */
class LayoutDraft {
    readonly #sides: Record<Side, SideDraft> = {
        left: { columns: [], widths: [] },
        right: { columns: [], widths: [] }
    };
    readonly #outputs: OutOfCoreOutput[] = [];
    readonly #keyBytes: 4 | 8;

    public constructor(
        private readonly node: JoinNode,
        private readonly sides: JoinSides
    ) {
        this.#keyBytes = this.#checkKeys() <= 4 ? 4 : 8;
    }

    public make(counted: boolean): OutOfCoreLayout {
        const { node, sides } = this;
        const { emit, anti, keepUnmatchedBuild, keepUnmatchedProbe } = sides;
        const drafts = counted ? [] : node.columns.map((column) => this.#column(column));
        const masked = drafts.some(({ parts }) => parts.some(({ mask }) => mask !== 0));
        const presence = masked ? this.#output({ side: "presence", column: 0 }) : -1;
        const [build, probe] = [sides.build, otherSide(sides.build)];
        for (const side of [build, probe]) this.#checkRow(side);
        return {
            join: {
                keyBytes: this.#keyBytes,
                buildWidths: this.#sides[build].widths,
                probeWidths: this.#sides[probe].widths,
                ...{ emit, anti, keepUnmatchedBuild, keepUnmatchedProbe },
                result: counted ? "count" : "rows",
                outputs: this.#outputs
            },
            build: this.#side(build),
            probe: this.#side(probe),
            columns: drafts,
            presence
        };
    }

    #columnOf(side: Side, column: number): LogicalColumn {
        return this.node[side].columns[column] as LogicalColumn;
    }

    /** Bytes of all keys together. */
    #checkKeys(): number {
        const { keys, nullEquality } = this.node;
        for (const key of keys) {
            for (const side of ["left", "right"] as const) {
                const { kind, column } = key[side];
                const { name } = this.#columnOf(side, column);
                if (kind === "bytes") throw new NotOnDevice(`key \`${name}\` is text or bytes`);
                if (kind === "dictionaryValue" || kind === "dictionaryIndex") {
                    throw new NotOnDevice(`key \`${name}\` is a dictionary column`);
                }
            }
            if (!nullEquality) continue;
            const nullable = (["left", "right"] as const).every(
                (side) => this.#columnOf(side, key[side].column).type.nullable
            );
            if (nullable) throw new NotOnDevice("NULL keys would have to equal each other");
        }
        const bytes = keys.reduce((sum, { left }) => sum + left.width, 0);
        if (bytes > keyBytesMax) throw new NotOnDevice(`the key has ${bytes} bytes, ${keyBytesMax} are the most`);
        return bytes;
    }

    #checkRow(side: Side): void {
        const { widths } = this.#sides[side];
        const bytes = widths.reduce((sum, width) => sum + width, this.#keyBytes);
        if (bytes > rowBytesMax || widths.length > rowColumnsMax) {
            throw new NotOnDevice(
                `rows of the ${side} relation have ${bytes} bytes in ${widths.length} columns, ` +
                    `${rowBytesMax} in ${rowColumnsMax} are the most`
            );
        }
    }

    #side(side: Side): OutOfCoreSide {
        return { keys: this.node.keys.map((key) => ({ ...key[side] })), columns: this.#sides[side].columns };
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

    /** ... and without a key? */
    #keepsKeyless(side: Side): boolean {
        const nullable = this.node.keys.some((key) => this.#columnOf(side, key[side].column).type.nullable);
        return nullable && this.#keepsLone(side);
    }

    #presenceOf(side: Side): number {
        const missing = this.sides.emit === "pairs" && this.#keepsLone(otherSide(side));
        return missing ? present[this.#role(side)] : 0;
    }

    #part(side: Side, column: number): OutOfCorePart {
        const mask = this.#presenceOf(side);
        const key = this.#keyPart(side, column);
        if (key !== undefined) return { ...key, mask: mask | (this.#keepsKeyless(side) ? present.key : 0) };
        const { name, type } = this.#columnOf(side, column);
        const width = chunkWidth(type);
        if (width === 0) throw new NotOnDevice(`values of column \`${name}\` are not of 1, 2, 4, 8 or 16 bytes`);
        return {
            value: this.#carried(side, column, false, width),
            offset: 0,
            validity: type.nullable ? this.#carried(side, column, true, 1) : -1,
            mask
        };
    }

    /**
     * Keys that can be read from their normalized values are not carried. Of several keys one may be NULL and the
     * others not, in rows without a partner: there the key as a whole is missing.
     */
    #keyPart(side: Side, column: number): Omit<OutOfCorePart, "mask"> | undefined {
        const { keys } = this.node;
        const at = keys.findIndex((key) => key[side].column === column);
        const key = keys[at]?.[side];
        if (key === undefined || (key.kind !== "integer" && key.kind !== "fixedBytes")) return undefined;
        if (chunkWidth(this.#columnOf(side, column).type) === 0) return undefined;
        if (keys.length > 1 && this.#keepsKeyless(side)) return undefined;
        const offset = keys.slice(0, at).reduce((sum, { [side]: before }) => sum + before.width, 0);
        return { value: this.#output({ side: "key", column: 0 }), offset, validity: -1 };
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

/** `counted`: nobody wants rows. Throws NotOnDevice with why such a join cannot run out of core. */
export function outOfCoreLayout(node: JoinNode, sides: JoinSides, counted: boolean): OutOfCoreLayout {
    return new LayoutDraft(node, sides).make(counted);
}
