// SPDX-License-Identifier: Apache-2.0
import {
    DataType,
    DateUnit,
    IntervalUnit,
    UnionMode,
    Vector,
    type Data,
    type RecordBatch,
    type Time,
    type Timestamp
} from "apache-arrow";

import { dayText, floorDivide, timestampText, timeText } from "./calendar.js";

// Arrow allows any scale, and a damaged file states one: text of so many zeros would help nobody.
const largestScale = 1000;

/** Decimal text of an unscaled integer: 12345 with scale 2 is 123.45. */
export function scaledText(unscaled: bigint, scale: number): string {
    if (Math.abs(scale) > largestScale) return `${unscaled}e${-scale}`;
    if (scale <= 0) return (unscaled * 10n ** BigInt(-scale)).toString();
    const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, "0");
    const point = digits.length - scale;
    return `${unscaled < 0n ? "-" : ""}${digits.slice(0, point)}.${digits.slice(point)}`;
}

/** Little-endian two's complement words of a decimal as one integer. */
function unscaledDecimal(words: Uint32Array): bigint {
    let value = 0n;
    for (let index = words.length - 1; index >= 0; index--) value = (value << 32n) | BigInt(words[index]!);
    return BigInt.asIntN(words.length * 32, value);
}

function hexText(bytes: Uint8Array): string {
    return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex")}`;
}

/** Items of a list, read one by one: a row of a file may say that it has 10^8 of them. */
export class Items {
    constructor(
        readonly length: number,
        readonly item: (index: number) => LazyValue
    ) {}
}

/** Members of a struct or entries of a map, read one by one, in order; any name may be among them, and twice. */
export class Members {
    constructor(
        readonly kind: "struct" | "map",
        readonly length: number,
        readonly name: (index: number) => LazyValue,
        readonly value: (index: number) => LazyValue
    ) {}
}

// Longer ones are read in pieces of this size: one string of 2 GB is more than V8 can hold.
const pieceBytes = 16 * 1024;

/** A text or binary value that is too long for one string. */
export class LongText {
    constructor(
        readonly bytes: Uint8Array,
        readonly kind: "text" | "hex"
    ) {}

    /** The text in pieces; none ends within a character. */
    *pieces(): Generator<string> {
        const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
        if (this.kind === "hex") yield "0x";
        for (let at = 0; at < this.bytes.length; at += pieceBytes) {
            const piece = this.bytes.subarray(at, at + pieceBytes);
            const last = at + pieceBytes >= this.bytes.length;
            yield this.kind === "hex" ? hexText(piece).slice(2) : decoder.decode(piece, { stream: !last });
        }
    }
}

/** A value as JSON would hold it, long ones unread; 64-bit integers stay bigint so that no digit is lost. */
export type LazyValue = null | boolean | number | bigint | string | Items | Members | LongText;

export type Reader = (row: number) => LazyValue;

const millisecondsPerDay = 86_400_000n;

/**
 * Arrow JS hands times of day out as bare numbers, and dates and timestamps as floating milliseconds, which loses the
 * last digits of nanoseconds and throws for what a float cannot hold, so the integers are read from the data buffer
 * instead, at any depth.
 */
function timeReader(data: Data): Reader | null {
    const { type } = data;
    if (DataType.isTimestamp(type)) {
        const ticks = (data as Data<Timestamp>).values;
        return (row) => timestampText(ticks[row]!, type);
    }
    if (DataType.isTime(type)) {
        const ticks = (data as Data<Time>).values;
        return (row) => timeText(BigInt(ticks[row]!), type);
    }
    if (!DataType.isDate(type)) return null;
    const stored = data.values as Int32Array | BigInt64Array;
    if (type.unit === DateUnit.DAY) return (row) => dayText(BigInt(stored[row]!));
    return (row) => dayText(floorDivide(BigInt(stored[row]!), millisecondsPerDay));
}

/** Intervals by the names of their parts: Arrow JS hands out words, of which two may be one number. */
function intervalReader(data: Data): Reader | null {
    const { type } = data;
    if (!DataType.isInterval(type)) return null;
    const words = data.values as Int32Array;
    const parts = (...named: readonly [name: string, value: number | bigint][]): Members =>
        new Members(
            "struct",
            named.length,
            (index) => named[index]![0],
            (index) => named[index]![1]
        );
    if (type.unit === IntervalUnit.YEAR_MONTH) return (row) => parts(["months", words[row]!]);
    if (type.unit === IntervalUnit.DAY_TIME) {
        return (row) => parts(["days", words[2 * row]!], ["milliseconds", words[2 * row + 1]!]);
    }
    return (row) => {
        const nanoseconds = (BigInt(words[4 * row + 3]!) << 32n) | BigInt(words[4 * row + 2]! >>> 0);
        return parts(["months", words[4 * row]!], ["days", words[4 * row + 1]!], ["nanoseconds", nanoseconds]);
    };
}

function listReader(data: Data): Reader {
    const item = dataReader(data.children[0]);
    const items = (begin: number, end: number): Items => new Items(end - begin, (index) => item(begin + index));
    if (DataType.isFixedSizeList(data.type)) {
        const { listSize } = data.type;
        return (row) => items(row * listSize, (row + 1) * listSize);
    }
    const offsets = data.valueOffsets as Int32Array | BigInt64Array;
    return (row) => items(Number(offsets[row]), Number(offsets[row + 1]));
}

function mapReader(data: Data): Reader {
    const [key, value] = [0, 1].map((child) => dataReader(data.children[0]?.children[child])) as [Reader, Reader];
    const offsets = data.valueOffsets as Int32Array;
    return (row) => {
        const begin = offsets[row]!;
        const length = offsets[row + 1]! - begin;
        return new Members(
            "map",
            length,
            (index) => key(begin + index),
            (index) => value(begin + index)
        );
    };
}

function structReader(data: Data): Reader {
    // Made when they are first needed: of 100,000 members a table shows three.
    const readers: Reader[] = [];
    const read = (member: number): Reader => (readers[member] ??= dataReader(data.children[member]));
    const { children } = data.type;
    return (row) =>
        new Members(
            "struct",
            children.length,
            (index) => children[index]!.name,
            (index) => read(index)(row)
        );
}

function unionReader(data: Data): Reader {
    const { type } = data;
    if (!DataType.isUnion(type)) throw new TypeError(`${String(type)} is no union`);
    const children = data.children.map(dataReader);
    const typeIds = data.typeIds as Int8Array;
    const offsets = type.mode === UnionMode.Dense ? (data.valueOffsets as Int32Array) : null;
    return (row) => children[type.typeIdToChildIndex[typeIds[row]!]!]!(offsets === null ? row : offsets[row]!);
}

function dictionaryReader(data: Data): Reader {
    const chunks = data.dictionary!.data.map((chunk: Data) => ({ length: chunk.length, read: dataReader(chunk) }));
    const codes = data.values as Int32Array;
    return (row) => {
        let code = Number(codes[row]);
        for (const { length, read } of chunks) {
            if (code < length) return read(code);
            code -= length;
        }
        return null;
    };
}

/** Where the bytes of texts or binary values are. */
export interface ByteRanges {
    readonly bytes: Buffer;
    readonly begin: (row: number) => number;
    /** Longer ones are no string but a LongText. */
    readonly wholeMax: number;
}

function byteRanges(data: Data): ByteRanges {
    const { buffer, byteOffset, byteLength } = data.values as Uint8Array;
    const offsets = data.valueOffsets as Int32Array | BigInt64Array;
    const begin =
        offsets instanceof Int32Array ? (row: number) => offsets[row]! : (row: number) => Number(offsets[row]);
    return { bytes: Buffer.from(buffer, byteOffset, byteLength), begin, wholeMax: pieceBytes };
}

/** The same of a column of texts; null for others. */
export function textBytes(data: Data): ByteRanges | null {
    return DataType.isUtf8(data.type) || DataType.isLargeUtf8(data.type) ? byteRanges(data) : null;
}

function bytesReader(data: Data, kind: "text" | "hex"): Reader {
    const { bytes, begin, wholeMax } = byteRanges(data);
    return (row) => {
        const [from, to] = [begin(row), begin(row + 1)];
        if (to - from > wholeMax) return new LongText(bytes.subarray(from, to), kind);
        return kind === "text" ? bytes.toString("utf8", from, to) : `0x${bytes.toString("hex", from, to)}`;
    };
}

function leafReader(data: Data): Reader {
    const { type } = data;
    if (DataType.isUtf8(type) || DataType.isLargeUtf8(type)) return bytesReader(data, "text");
    if (DataType.isBinary(type) || DataType.isLargeBinary(type)) return bytesReader(data, "hex");
    const vector = new Vector([data]);
    if (DataType.isDecimal(type)) {
        return (row) => scaledText(unscaledDecimal(vector.get(row) as Uint32Array), type.scale);
    }
    return (row) => {
        const value: unknown = vector.get(row);
        if (value instanceof Uint8Array) return value.length > pieceBytes ? new LongText(value, "hex") : hexText(value);
        return value as LazyValue;
    };
}

function presentReader(data: Data): Reader {
    const { type } = data;
    if (DataType.isDictionary(type)) return dictionaryReader(data);
    if (DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type)) return listReader(data);
    if (DataType.isMap(type)) return mapReader(data);
    if (DataType.isStruct(type)) return structReader(data);
    return timeReader(data) ?? intervalReader(data) ?? leafReader(data);
}

/** Is the value of a row there? Null where all are. */
export function validity(data: Data): ((row: number) => boolean) | null {
    // A union has no bitmap: its members say which values are NULL.
    if (DataType.isUnion(data.type) || data.nullCount === 0) return null;
    const { nullBitmap, offset } = data;
    return nullBitmap == null ? null : (row) => (nullBitmap[(offset + row) >> 3]! & (1 << ((offset + row) & 7))) !== 0;
}

/** Reads row after row of one array; undefined: one without rows, of which Arrow JS makes up no children. */
export function dataReader(data: Data | undefined): Reader {
    if (data === undefined || DataType.isNull(data.type)) return () => null;
    if (DataType.isUnion(data.type)) return unionReader(data);
    const present = presentReader(data);
    const valid = validity(data);
    return valid === null ? present : (row) => (valid(row) ? present(row) : null);
}

/** Reads row after row of one column of a batch. */
export function columnReader(batch: RecordBatch, column: number): Reader {
    return dataReader(batch.data.children[column]);
}
