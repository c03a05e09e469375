// SPDX-License-Identifier: Apache-2.0
import { sumOf } from "../../../model/sizes.js";
import { isNested } from "../../../model/column-type.js";
import { deviceConstants } from "../../../model/device-constants.js";
import type { GroupNode, LogicalAggregate, LogicalColumn } from "../../../plan/logical.js";
import type {
    OutOfCoreAggregate,
    OutOfCoreChunkColumn,
    OutOfCoreGroupColumn,
    OutOfCoreGroupLayout,
    OutOfCoreGroupShape,
    OutOfCoreNumber
} from "../../../plan/out-of-core-group-stage.js";
import { NotOnDevice } from "../../device-support.js";
import { chunkWidth, isNarrowDecimal, isTextKey, keyBytesMax, keyWidth } from "../chunk-rows.js";

/** Rows of a key and so many have any width. No chunk has more columns, each of which is added up in some way. */
const aggregatesMax = deviceConstants.groupAggregatesMax;
const valueBytesMax = deviceConstants.aggregatedBytesMax;
/** Halves of numbers of 64 bits add up exactly; all that is narrower does, as there are less than 2^31 rows of it. */
const halvedBytes = 8;
/** Of a decimal of 128 bits whose values fit 64. */
const narrowBytes = 8;

type ResultDraft = Omit<OutOfCoreGroupColumn, "value" | "high" | "count" | "present"> & {
    /** Numbers of aggregates; the key is -1, its presence -2. */
    readonly value: number;
    readonly high?: number;
    readonly count?: number;
    readonly present?: number;
};

const key = -1;
const keyPresence = -2;

/** Puts the rows of chunks, the GPU's aggregates and the result together; throws NotOnDevice where there is no way. */
class GroupLayoutDraft {
    readonly #columns: OutOfCoreChunkColumn[] = [];
    readonly #widths: number[] = [];
    readonly #aggregates: OutOfCoreAggregate[] = [];
    readonly #keyBytes: 4 | 8;
    readonly #nullGroup: boolean;
    readonly #nullByte: number;

    public constructor(private readonly node: GroupNode) {
        const bytes = this.#checkKeys();
        const nullable = node.keys.some(({ column }) => this.#input(column).type.nullable);
        // NULL of a single key is no key. Several need a flag each: (NULL, 1) and (NULL, 2) are two groups.
        this.#nullGroup = nullable && node.keys.length === 1;
        this.#nullByte = nullable && node.keys.length > 1 ? bytes : -1;
        const all = bytes + (this.#nullByte < 0 ? 0 : 1);
        if (all > keyBytesMax) {
            const flags = this.#nullByte < 0 ? "" : " with a byte for NULLs";
            throw new NotOnDevice(`the key has ${all} bytes${flags}, ${keyBytesMax} are the most`);
        }
        this.#keyBytes = all <= 4 ? 4 : 8;
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
            side: { keys: this.node.keys, columns: this.#columns, nullByte: this.#nullByte },
            columns: drafts.map((draft) => ({
                ...draft,
                value: output(draft.value, 0),
                high: output(draft.high, -1),
                count: output(draft.count, -1),
                present: output(draft.present, -1)
            }))
        };
    }

    #input(column: number): LogicalColumn {
        return this.node.child.columns[column] as LogicalColumn;
    }

    /** Bytes of all keys together. */
    #checkKeys(): number {
        for (const key of this.node.keys) {
            const { kind, column, width } = key;
            const { name, type } = this.#input(column);
            if (isTextKey(key)) continue;
            // Indices of a dictionary are unified: equal ones are equal values.
            if (kind === "dictionaryIndex" && chunkWidth(type) === width) continue;
            if (kind === "dictionaryIndex" || kind === "dictionaryValue") {
                throw new NotOnDevice(`key \`${name}\` is a dictionary column whose values are compared`);
            }
            if (chunkWidth(type) !== width || (kind === "float" && width < 4)) {
                throw new NotOnDevice(`key \`${name}\` has values that are not of 1, 2, 4 or 8 bytes`);
            }
        }
        return sumOf(this.node.keys.map(keyWidth));
    }

    #keyColumns(): ResultDraft[] {
        let offset = 0;
        return this.node.keys.map((one, i): ResultDraft => {
            const width = keyWidth(one);
            offset += width;
            return {
                ...plain,
                type: (this.node.columns[i] as LogicalColumn).type,
                value: key,
                offset: offset - width,
                bytes: width,
                key: this.#nullByte < 0 ? -1 : i,
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
        const isDictionary = input.type.layout === "dictionary" && kind !== "count";
        if (isNested(input.type) || isDictionary || input.type.layout === "null") {
            throw new NotOnDevice(`column \`${input.name}\` is nested, a dictionary column or NULLs only`);
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
                const number = this.#numberOf(kind, input);
                const fill = !input.type.nullable ? "none" : kind === "min" ? "largest" : "least";
                const value = this.#aggregate(kind, number, {
                    ...{ column, validity: false, fill },
                    part: this.#whole(input)
                });
                const found = this.#present(input, this.#counted(column));
                return {
                    value,
                    number,
                    bytes: this.#width(input),
                    ...some({ present: found ?? this.#any(input, column) })
                };
            }
            default:
                throw new NotOnDevice(`\`${kind}\` of column \`${input.name}\` does not run out of core`);
        }
    }

    /** Bytes of a value of the column in chunks. */
    #width(column: LogicalColumn): number {
        return isNarrowDecimal(column) ? narrowBytes : chunkWidth(column.type);
    }

    #whole(column: LogicalColumn): "whole" | "narrow" {
        return isNarrowDecimal(column) ? "narrow" : "whole";
    }

    #numberOf(kind: string, column: LogicalColumn): OutOfCoreNumber {
        const { name, type } = column;
        const width = this.#width(column);
        const cannot = (what: string): NotOnDevice =>
            new NotOnDevice(`\`${kind}\` of column \`${name}\` (${what}) does not run out of core`);
        if (type.layout === "dictionary") throw cannot("a dictionary");
        if (width === 0 || width > valueBytesMax) throw cannot("values that are not of 1, 2, 4 or 8 bytes");
        if (type.layout === "bool") return "unsigned";
        if (type.order === "bytes") throw cannot("bytes");
        if (type.order === "float" && width < 4) throw cannot("short floats");
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
        return this.#find({ kind: "countRows", number: "signed", column: 0 });
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

    #sum(column: number, number: OutOfCoreNumber): { value: number; high?: number } {
        const input = this.#input(column);
        const fill = input.type.nullable ? "zero" : "none";
        const half = (part: OutOfCoreChunkColumn["part"]): OutOfCoreChunkColumn => ({
            ...{ column, validity: false, part, fill }
        });
        if (number === "float" || this.#width(input) < halvedBytes) {
            return { value: this.#aggregate("sum", number, half("whole")) };
        }
        return {
            value: this.#aggregate("sum", "unsigned", half("low")),
            high: this.#aggregate("sum", number, half("high"))
        };
    }

    #aggregate(kind: OutOfCoreAggregate["kind"], number: OutOfCoreNumber, from: OutOfCoreChunkColumn): number {
        let at = this.#columns.findIndex(
            (other) =>
                other.column === from.column &&
                other.validity === from.validity &&
                other.part === from.part &&
                other.fill === from.fill
        );
        if (at < 0) {
            at = this.#columns.push(from) - 1;
            const isHalf = from.part === "low" || from.part === "high";
            this.#widths.push(from.validity ? 1 : isHalf ? halvedBytes / 2 : this.#width(this.#input(from.column)));
        }
        return this.#find({ kind, number, column: at });
    }

    #find(wanted: OutOfCoreAggregate): number {
        const found = this.#aggregates.findIndex(
            ({ kind, number, column }) => kind === wanted.kind && number === wanted.number && column === wanted.column
        );
        return found >= 0 ? found : this.#aggregates.push(wanted) - 1;
    }
}

const plain = { kind: "copy", offset: 0, bytes: 8, key: -1, number: "signed", decimalScale: 0, name: "" } as const;

function validityOf(column: number): OutOfCoreChunkColumn {
    return { column, validity: true, part: "whole", fill: "none" };
}

/** Without what is undefined. */
function some(values: { count?: number | undefined; present?: number | undefined }): {
    count?: number;
    present?: number;
} {
    const { count, present } = values;
    return { ...(count === undefined ? {} : { count }), ...(present === undefined ? {} : { present }) };
}

/** `counted`: nobody wants the groups themselves. Throws NotOnDevice with why it cannot run out of core. */
export function outOfCoreGroupLayout(node: GroupNode, counted: boolean): OutOfCoreGroupLayout {
    return new GroupLayoutDraft(node).make(counted);
}
