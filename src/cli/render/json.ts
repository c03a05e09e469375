// SPDX-License-Identifier: Apache-2.0
import { DataType, Precision, type Data } from "apache-arrow";
import { SpillwayError } from "../../index.js";
import { cellText } from "./cells.js";
import type { JsonBlock } from "./json-block.js";
import {
    dataReader,
    Items,
    LongText,
    textBytes,
    validity,
    type Members,
    type LazyValue,
    type Reader
} from "../../values/readers.js";

// A name of JSON is one string. Keys of maps may be lists, which is no use but possible.
const nameCharsMax = 1024 * 1024;

type Leaf = null | boolean | number | bigint | string;
type Nested = Items | Members | LongText;

function isNested(value: LazyValue): value is Nested {
    return typeof value === "object" && value !== null;
}

/** -0 keeps its sign, which JSON has and `JSON.stringify` drops; NaN and infinities become null. */
function numberJson(value: number): string {
    if (value === 0) return Object.is(value, -0) ? "-0" : "0";
    return Number.isFinite(value) ? String(value) : "null";
}

/** JSON with 64-bit integers as plain digits, which `JSON.stringify` cannot write. */
function leafJson(leaf: Leaf): string {
    if (typeof leaf === "number") return numberJson(leaf);
    return typeof leaf === "bigint" ? leaf.toString() : JSON.stringify(leaf);
}

/** The key of a map as the name that JSON asks for. */
function nameJson(name: LazyValue): string {
    if (typeof name === "string") return JSON.stringify(name);
    const long = name instanceof LongText && name.bytes.length <= nameCharsMax;
    const { text, whole } = long ? { text: [...name.pieces()].join(""), whole: true } : cellText(name, nameCharsMax);
    if (whole) return JSON.stringify(text);
    throw new SpillwayError(
        "UNSUPPORTED_TYPE",
        `A key of a map has more than ${nameCharsMax} characters, which is too much for a name in JSON; ` +
            "write the result to an Arrow file with --output, or leave the column out with --select"
    );
}

/** Writes a value of any length; yields whenever the block is full. */
function* writeNested(value: Nested, out: JsonBlock): Generator<void> {
    if (value instanceof LongText) {
        out.raw('"');
        for (const piece of value.pieces()) {
            out.raw(JSON.stringify(piece).slice(1, -1));
            if (out.full) yield;
        }
        out.raw('"');
        return;
    }
    const isList = value instanceof Items;
    out.raw(isList ? "[" : "{");
    for (let index = 0; index < value.length; index++) {
        if (index > 0) out.raw(",");
        if (!isList) out.raw(`${nameJson(value.name(index))}:`);
        const item = isList ? value.item(index) : value.value(index);
        if (isNested(item)) yield* writeNested(item, out);
        else out.raw(leafJson(item));
        if (out.full) yield;
    }
    out.raw(isList ? "]" : "}");
}

const twoTo32 = 2 ** 32;
const safeHighWords = 2 ** 21;

type WriteRow = (row: number) => void;

/** Most 64-bit integers are safe ones, whose digits take a fraction of the time that those of a BigInt take. */
function wideIntegers(values: BigInt64Array | BigUint64Array, out: JsonBlock): WriteRow {
    const words = new Int32Array(values.buffer, values.byteOffset, values.length * 2);
    const isSigned = values instanceof BigInt64Array;
    return (row) => {
        const low = words[row * 2]!;
        const high = words[row * 2 + 1]!;
        if (isSigned && high === low >> 31) out.integer(low);
        else if (high >= 0 && high < safeHighWords) out.integer(high * twoTo32 + (low >>> 0));
        else out.raw(values[row]!.toString());
    };
}

/** Writes values straight from the buffers, without an object for each; null for types that need one. */
function plainWriter(data: Data, out: JsonBlock): WriteRow | null {
    const { type } = data;
    if (DataType.isInt(type)) {
        const { values } = data as Data<typeof type>;
        if (values instanceof BigInt64Array || values instanceof BigUint64Array) return wideIntegers(values, out);
        return (row) => out.integer(values[row]!);
    }
    if (DataType.isFloat(type) && type.precision !== Precision.HALF) {
        const values = data.values as Float32Array | Float64Array;
        return (row) => out.raw(numberJson(values[row]!));
    }
    return null;
}

/** Values of one array as JSON. */
export interface JsonColumn {
    /** False, with nothing written, where a value may have any length: then it is written by `pieces`. */
    readonly write: (row: number) => boolean;
    /** Yields whenever the block is full. */
    readonly pieces: (row: number) => Generator<void>;
}

export function jsonColumn(data: Data, out: JsonBlock): JsonColumn {
    let reader: Reader | undefined; // most columns are written without one
    const read = (row: number): LazyValue => (reader ??= dataReader(data))(row);
    const pieces = (row: number): Generator<void> => writeNested(read(row) as Nested, out);
    const valid = validity(data) ?? (() => true);
    const plain = plainWriter(data, out);
    if (plain !== null) {
        const write = (row: number): boolean => {
            if (valid(row)) plain(row);
            else out.raw("null");
            return true;
        };
        return { write, pieces };
    }
    const text = textBytes(data);
    if (text !== null) {
        const write = (row: number): boolean => {
            if (!valid(row)) return (out.raw("null"), true);
            const [begin, end] = [text.begin(row), text.begin(row + 1)];
            if (end - begin > text.wholeMax) return false;
            out.utf8(text.bytes, begin, end);
            return true;
        };
        return { write, pieces };
    }
    const write = (row: number): boolean => {
        const value = read(row);
        if (isNested(value)) return false;
        out.raw(leafJson(value));
        return true;
    };
    return { write, pieces };
}
