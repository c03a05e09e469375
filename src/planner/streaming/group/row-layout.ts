// SPDX-License-Identifier: Apache-2.0
import type { DataType } from "apache-arrow";

import { typeText } from "../../../arrow/type-text.js";
import { isNested, keyWordColumn, rowNumberColumn } from "../../../model/column-type.js";
import { deviceConstants } from "../../../model/device-constants.js";
import { groupKey } from "../../../plan/key-match.js";
import type { GroupNode, LogicalAggregate, LogicalColumn } from "../../../plan/logical.js";
import type {
    OutOfCoreAggregate,
    OutOfCoreChunkColumn,
    OutOfCoreGroupColumn,
    OutOfCoreGroupLayout,
    OutOfCoreGroupShape,
    OutOfCoreNumber,
    OutOfCoreQuarter
} from "../../../plan/out-of-core-group-stage.js";
import { attempt, NotOnDevice } from "../../device-support.js";
import { chunkWidth, isText, keyBytesMax, keyWidth, placesOf, rowNumberBytes, textCodeBytes } from "../chunk-rows.js";
import { narrowDecimals } from "../narrow-decimals.js";
import { checkedKeyBytes, isPackedKey, keyWordsOf } from "./keys.js";

/** Rows of a key and so many have any width. No chunk has more columns, each of which is added up in some way. */
const aggregatesMax = deviceConstants.groupAggregatesMax;
const valueBytesMax = deviceConstants.aggregatedBytesMax;
/**
 * Halves of numbers of 64 bits add up exactly; all that is narrower does, as there are less than 2^31 rows of it. They
 * take two words of a partial row, and whole values one.
 */
const halvedBytes = 8;
/** Of a decimal of 128 bits whose values fit 64. */
const narrowBytes = 8;
const wideBytes = 16;

type ResultDraft = Omit<OutOfCoreGroupColumn, "value" | "high" | "between" | "count" | "present"> & {
    /** Numbers of aggregates; the key is -1, its presence -2. */
    readonly value: number;
    readonly high?: number;
    readonly between?: readonly number[];
    readonly count?: number;
    readonly present?: number;
};

const key = -1;
const keyPresence = -2;

/** Whether 64 bits are expected to hold every sum of values of a column, also of some of a group's rows. */
export type IsShortSum = (column: number) => boolean;

const noShortSums: IsShortSum = () => false;

/** Puts the rows of chunks, the GPU's aggregates and the result together; throws NotOnDevice where there is no way. */
class GroupLayoutDraft {
    readonly #columns: OutOfCoreChunkColumn[] = [];
    readonly #widths: number[] = [];
    readonly #aggregates: OutOfCoreAggregate[] = [];
    readonly #keyBytes: 4 | 8;
    readonly #nullGroup: boolean;
    readonly #nullByte: number;
    readonly #numbered: boolean;
    /** Words of the key behind the first one. */
    readonly #words: number;
    readonly #isNarrow: (column: LogicalColumn) => boolean;

    public constructor(
        private readonly node: GroupNode,
        inWords: boolean,
        private readonly isShortSum: IsShortSum
    ) {
        const bytes = checkedKeyBytes(node);
        this.#isNarrow = narrowDecimals(node);
        const nullable = node.keys.some(({ column }) => this.#input(column).type.nullable);
        // NULL of a single key is no key. Several need a flag each: (NULL, 1) and (NULL, 2) are two groups.
        this.#nullGroup = nullable && node.keys.length === 1;
        this.#nullByte = nullable && node.keys.length > 1 ? bytes : -1;
        const all = bytes + (this.#nullByte < 0 ? 0 : 1);
        const inOne = all <= keyBytesMax && node.keys.every((key) => isPackedKey(key, this.#input(key.column)));
        this.#words = inWords && !inOne ? keyWordsOf(node, nullable) - 1 : 0;
        if (this.#words > 0) {
            const { end } = placesOf(node.keys.map(keyWidth));
            [this.#keyBytes, this.#nullGroup, this.#nullByte, this.#numbered] = [8, false, nullable ? end : -1, false];
            this.#addWords();
            return;
        }
        this.#numbered =
            this.#isInput && (all > keyBytesMax || node.keys.some((key) => !isPackedKey(key, this.#input(key.column))));
        if (this.#numbered) {
            [this.#keyBytes, this.#nullGroup, this.#nullByte] = [4, false, -1];
            return;
        }
        if (all > keyBytesMax) {
            const flags = this.#nullByte < 0 ? "" : " with a byte for NULLs";
            throw new NotOnDevice(
                `the key (${this.#keysText()}) has ${all} bytes${flags}, ${keyBytesMax} are the most`
            );
        }
        this.#keyBytes = all <= 4 ? 4 : 8;
    }

    /**
     * The key is a hash: the first word, mixed with the others. Groups keep the least and the greatest of each of the
     * others, which differ where keys share a hash; whoever delivers the groups finds that, and asks for another plan.
     */
    #addWords(): void {
        for (let word = 0; word < this.#words; ++word) {
            const from = {
                column: keyWordColumn,
                validity: false,
                part: "whole",
                fill: "none",
                distinct: null
            } as const;
            const column = this.#columns.push(from) - 1;
            this.#widths.push(keyBytesMax);
            for (const kind of ["min", "max"] as const) {
                this.#aggregates.push({ kind, number: "unsigned", column, decidedBy: null });
            }
        }
    }

    public make(counted: boolean): OutOfCoreGroupLayout {
        const drafts = counted ? [] : [...this.#keyColumns(), ...this.#aggregateColumns()];
        // An operation that makes nothing but keys is asked for a count beside them.
        if (this.#aggregates.length === 0) this.#count();
        const group: OutOfCoreGroupShape = {
            keyBytes: this.#keyBytes,
            widths: this.#widths,
            aggregates: this.#aggregates,
            nullGroup: this.#nullGroup
        };
        const numbers = this.#aggregates.length;
        if (numbers > aggregatesMax) {
            throw new NotOnDevice(`${numbers} numbers are added up for a key, ${aggregatesMax} are the most`);
        }
        const first = this.#nullGroup ? 2 : 1;
        const output = (number: number | undefined, none: number): number =>
            number === undefined ? none : number === key ? 0 : number === keyPresence ? 1 : first + number;
        return {
            group,
            side: {
                ...{ keys: this.node.keys, columns: this.#columns },
                ...{ nullByte: this.#nullByte, numbered: this.#numbered }
            },
            columns: drafts.map((draft) => ({
                ...draft,
                value: output(draft.value, 0),
                high: output(draft.high, -1),
                between: (draft.between ?? []).map((part) => output(part, 0)),
                count: output(draft.count, -1),
                present: output(draft.present, -1)
            }))
        };
    }

    #input(column: number): LogicalColumn {
        return this.node.child.columns[column] as LogicalColumn;
    }

    #keysText(): string {
        const columns = this.node.keys.map(({ column }) => this.#input(column));
        return columns.map(({ name, field }) => `\`${name}\`: ${typeText(field.type as DataType)}`).join(", ");
    }

    /** Workers read the rows of an input, and can do with them what the GPU does not. */
    get #isInput(): boolean {
        return this.node.child.kind === "input";
    }

    #keyColumns(): ResultDraft[] {
        const { places } = placesOf(this.node.keys.map(keyWidth));
        // Keys that are numbered lie behind a bit for each.
        let offset = this.#numbered ? Math.ceil(this.node.keys.length / 8) : 0;
        return this.node.keys.map((one, i): ResultDraft => {
            const width = keyWidth(one);
            offset += width;
            const { word, offset: inWord } = places[i] ?? { word: 0, offset: 0 };
            return {
                ...plain,
                type: (this.node.columns[i] as LogicalColumn).type,
                value: key,
                offset: this.#words > 0 ? word * keyBytesMax + inWord : offset - width,
                bytes: width,
                key: this.#numbered || this.#words > 0 || this.#nullByte >= 0 ? i : -1,
                ...(this.#nullGroup ? { present: keyPresence } : {})
            };
        });
    }

    #aggregateColumns(): ResultDraft[] {
        return this.node.aggregates.map((aggregate, i) => {
            const { type } = this.node.columns[this.node.keys.length + i] as LogicalColumn;
            return { ...plain, type, ...this.#aggregateColumn(aggregate) };
        });
    }

    #aggregateColumn(aggregate: LogicalAggregate): Partial<ResultDraft> & { value: number } {
        const { kind, column, decimalScale } = aggregate;
        if (kind === "countRows" || column < 0) return { value: this.#count() };
        const input = this.#input(column);
        // A count needs no more of a value than whether it is there.
        if (kind !== "count" && (isNested(input.type) || input.type.layout === "null")) {
            throw cannot(kind, input, "nested values and NULLs alone are not in GPU memory");
        }
        switch (kind) {
            case "count":
                return { value: this.#values(column) };
            case "sum":
            case "mean": {
                const number = this.#numberOf(kind, input);
                const count = kind === "mean" || input.type.nullable ? this.#values(column) : undefined;
                const present = this.#present(input, count);
                return {
                    kind,
                    number,
                    decimalScale,
                    name: input.name,
                    ...this.#sum(column, number),
                    ...some({ count, present })
                };
            }
            case "min":
            case "max": {
                if (isText(input.type)) return this.#extremeText(kind, input, column);
                const number = this.#numberOf(kind, input);
                const fill = kind === "min" ? "largest" : "least";
                return { number, ...this.#extreme(kind, number, column, fill), ...this.#found(input, column) };
            }
            case "any":
                return this.#anyValue(input, column);
            case "countDistinct":
                return { value: this.#distinct(input, column) };
            case "first":
                // The rows of a join are in no order.
                return this.#isInput ? this.#firstValue(input, column) : this.#anyValue(input, column);
        }
    }

    /** Workers tell which rows have a value that the group has had in none before. */
    #distinct(input: LogicalColumn, column: number): number {
        if (!this.#isInput) throw cannot("countDistinct", input, "it is of rows of a join");
        return this.#aggregate("sum", "unsigned", {
            ...{ column, validity: false, part: "whole", fill: "none" },
            distinct: groupKey(input, column)
        });
    }

    /** Of the values that are not NULL. `number`: as what they are compared; `fill` stands for NULL. */
    #extreme(
        kind: "min" | "max",
        number: OutOfCoreNumber,
        column: number,
        fill: OutOfCoreChunkColumn["fill"]
    ): { value: number; high?: number; bytes: number } {
        const input = this.#input(column);
        const of = (part: OutOfCoreChunkColumn["part"]): OutOfCoreChunkColumn => ({
            ...{ column, validity: false, part, distinct: null },
            fill: input.type.nullable ? fill : "none"
        });
        const bytes = this.#width(input);
        if (bytes < wideBytes) {
            return { value: this.#aggregate(kind, number, of(this.#whole(input))), bytes };
        }
        const high = this.#aggregate(kind, number, of("half1"));
        return { value: this.#aggregate(kind, "unsigned", of("half0"), of("half1")), high, bytes: wideBytes / 2 };
    }

    /** Workers tell which texts take the place of those before them in their groups. */
    #extremeText(kind: "min" | "max", input: LogicalColumn, column: number): Partial<ResultDraft> & { value: number } {
        if (!this.#isInput) throw cannot(kind, input, "it is of rows of a join");
        const value = this.#aggregate("max", "unsigned", {
            ...{ column, validity: false, part: kind === "min" ? "leastText" : "largestText", fill: "none" },
            distinct: null
        });
        return { value, bytes: textCodeBytes, present: value };
    }

    /** Any value is as good as that with the greatest bits. */
    #anyValue(input: LogicalColumn, column: number): Partial<ResultDraft> & { value: number } {
        this.#requireCarried("any", input);
        return { ...this.#extreme("max", "unsigned", column, "zero"), ...this.#found(input, column) };
    }

    /** The value, or NULL, of the row with the least number. */
    #firstValue(input: LogicalColumn, column: number): Partial<ResultDraft> & { value: number } {
        this.#requireCarried("first", input);
        const numbers: OutOfCoreChunkColumn = {
            ...{ column: rowNumberColumn, validity: false, part: "whole", fill: "none", distinct: null }
        };
        this.#aggregate("min", "unsigned", numbers);
        const first = (of: OutOfCoreChunkColumn): number => this.#aggregate("first", "unsigned", of, numbers);
        const part = (of: OutOfCoreChunkColumn["part"]): number =>
            first({ column, validity: false, part: of, fill: "none", distinct: null });
        const bytes = this.#width(input);
        const value =
            bytes < wideBytes
                ? { value: part(this.#whole(input)), bytes }
                : { value: part("half0"), high: part("half1"), bytes: wideBytes / 2 };
        const present = input.type.nullable ? first(validityOf(column)) : this.#present(input, undefined);
        return { ...value, ...some({ present }) };
    }

    #requireCarried(kind: string, input: LogicalColumn): void {
        if (this.#width(input) === 0) throw cannot(kind, input, "its values are not of 1, 2, 4, 8 or 16 bytes");
    }

    /** What says whether a group has a value; nothing where each has. */
    #found(input: LogicalColumn, column: number): { present?: number } {
        return some({ present: this.#present(input, this.#counted(column)) ?? this.#any(input, column) });
    }

    /** Bytes of a value of the column in chunks. */
    #width(column: LogicalColumn): number {
        if (this.#isNarrow(column)) return narrowBytes;
        return isText(column.type) ? textCodeBytes : chunkWidth(column.type);
    }

    #partWidth({ column, validity, part, distinct }: OutOfCoreChunkColumn): number {
        if (column === rowNumberColumn) return this.#rowNumberBytes();
        if (validity || distinct !== null) return 1;
        switch (part) {
            case "low":
            case "high":
                return halvedBytes / 2;
            case "whole":
            case "narrow":
                return this.#width(this.#input(column));
            case "half0":
            case "half1":
                return wideBytes / 2;
            case "leastText":
            case "largestText":
                return 2 * textCodeBytes;
            default:
                return wideBytes / 4;
        }
    }

    /** Nobody knows how many rows a stream has. */
    #rowNumberBytes(): number {
        const { child } = this.node;
        return child.kind === "input" && !child.input.streamed ? rowNumberBytes(child.input.rows) : 8;
    }

    #whole(column: LogicalColumn): "whole" | "narrow" {
        return this.#isNarrow(column) ? "narrow" : "whole";
    }

    #numberOf(kind: string, column: LogicalColumn): OutOfCoreNumber {
        const { type } = column;
        const width = this.#width(column);
        if (type.layout === "dictionary") throw cannot(kind, column, "indices are sent, not their values");
        if (isText(type) || type.order === "bytes") throw cannot(kind, column, "no numbers");
        if (type.layout === "bool") return "unsigned";
        if (type.order === "decimal" && width === wideBytes) return "signed";
        if (width === 0 || width > valueBytesMax)
            throw cannot(kind, column, "its values are not of 1, 2, 4 or 8 bytes");
        if (type.order === "float" && width < 4) throw cannot(kind, column, "short floats");
        return type.order === "decimal" ? "signed" : type.order;
    }

    /** What is 0 in a group without a value; undefined: there is no such group. Without keys one has no rows. */
    #present({ type }: LogicalColumn, count: number | undefined): number | undefined {
        if (type.nullable) return count;
        return this.node.keys.length === 0 ? this.#count() : undefined;
    }

    #any({ type }: LogicalColumn, column: number): number | undefined {
        return type.nullable ? this.#aggregate("max", "unsigned", validityOf(column)) : undefined;
    }

    #count(): number {
        return this.#find({ kind: "countRows", number: "signed", column: 0, decidedBy: null });
    }

    /** Rows whose value is not NULL. */
    #values(column: number): number {
        if (!this.#input(column).type.nullable) return this.#count();
        return this.#aggregate("sum", "unsigned", validityOf(column));
    }

    /** The same where another result has it already; one that comes later makes this one a few bytes wider. */
    #counted(column: number): number | undefined {
        const wanted = this.#columns.findIndex((other) => other.column === column && other.validity);
        const found = this.#aggregates.findIndex(({ kind, column: of }) => kind === "sum" && of === wanted);
        return found < 0 ? undefined : found;
    }

    #sum(column: number, number: OutOfCoreNumber): { value: number; high?: number; between?: readonly number[] } {
        const input = this.#input(column);
        const fill = input.type.nullable ? "zero" : "none";
        const half = (part: OutOfCoreChunkColumn["part"]): OutOfCoreChunkColumn => ({
            ...{ column, validity: false, part, fill, distinct: null }
        });
        if (number === "float" || this.#width(input) < halvedBytes) {
            return { value: this.#aggregate("sum", number, half("whole")) };
        }
        if (this.#width(input) === halvedBytes && this.isShortSum(column)) {
            return { value: this.#aggregate("sum", number, half(this.#whole(input))) };
        }
        if (this.#width(input) === wideBytes) {
            const quarter = (part: OutOfCoreQuarter): number => this.#aggregate("sum", "unsigned", half(part));
            return {
                value: quarter("quarter0"),
                between: [quarter("quarter1"), quarter("quarter2")],
                high: this.#aggregate("sum", number, half("quarter3"))
            };
        }
        return {
            value: this.#aggregate("sum", "unsigned", half("low")),
            high: this.#aggregate("sum", number, half("high"))
        };
    }

    /** `decidedBy`: the column whose extreme decides which rows count. */
    #aggregate(
        kind: OutOfCoreAggregate["kind"],
        number: OutOfCoreNumber,
        from: OutOfCoreChunkColumn,
        decidedBy?: OutOfCoreChunkColumn
    ): number {
        const by = decidedBy === undefined ? null : this.#column(decidedBy);
        return this.#find({ kind, number, column: this.#column(from), decidedBy: by });
    }

    /** Where the column is in chunks, which have each once. */
    #column(from: OutOfCoreChunkColumn): number {
        const at = this.#columns.findIndex(
            (other) =>
                other.column === from.column &&
                other.validity === from.validity &&
                other.part === from.part &&
                other.fill === from.fill &&
                (other.distinct === null) === (from.distinct === null)
        );
        if (at >= 0) return at;
        this.#widths.push(this.#partWidth(from));
        return this.#columns.push(from) - 1;
    }

    #find(wanted: OutOfCoreAggregate): number {
        const found = this.#aggregates.findIndex(
            ({ kind, number, column, decidedBy }) =>
                kind === wanted.kind &&
                number === wanted.number &&
                column === wanted.column &&
                decidedBy === wanted.decidedBy
        );
        return found >= 0 ? found : this.#aggregates.push(wanted) - 1;
    }
}

const plain = { kind: "copy", offset: 0, bytes: 8, key: -1, number: "signed", decimalScale: 0, name: "" } as const;

function cannot(kind: string, { name, field }: LogicalColumn, why?: string): NotOnDevice {
    const type = typeText(field.type as DataType);
    const reason = why === undefined ? "" : `: ${why}`;
    return new NotOnDevice(`\`${kind}\` of column \`${name}\` (${type}) does not run out of core${reason}`);
}

function validityOf(column: number): OutOfCoreChunkColumn {
    return { column, validity: true, part: "whole", fill: "none", distinct: null };
}

/** Without what is undefined. */
function some(values: { count?: number | undefined; present?: number | undefined }): {
    count?: number;
    present?: number;
} {
    const { count, present } = values;
    return { ...(count === undefined ? {} : { count }), ...(present === undefined ? {} : { present }) };
}

/**
 * `counted`: nobody wants the groups themselves. `inWords`: a key of more than 8 bytes may be compared by its words;
 * else, and where these make a row too wide, it is numbered. Throws NotOnDevice with why it cannot run out of core.
 */
export function outOfCoreGroupLayout(
    node: GroupNode,
    counted: boolean,
    { inWords = false, isShortSum = noShortSums }: { inWords?: boolean; isShortSum?: IsShortSum } = {}
): OutOfCoreGroupLayout {
    const made = attempt(() => new GroupLayoutDraft(node, inWords, isShortSum).make(counted));
    if (!(made instanceof NotOnDevice)) return made;
    if (!inWords) throw made;
    return new GroupLayoutDraft(node, false, isShortSum).make(counted);
}

/**
 * Numbers that one operator adds up for a key, with words of the key where it has some; Infinity: it cannot. Sums are
 * exact here: parts that are cut by these numbers are still parts when the query is planned again.
 */
export function addedNumbers(node: GroupNode): number {
    const made = attempt(() => new GroupLayoutDraft(node, true, noShortSums).make(false));
    return made instanceof NotOnDevice ? Infinity : made.group.aggregates.length;
}
