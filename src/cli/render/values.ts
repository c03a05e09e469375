// SPDX-License-Identifier: Apache-2.0
import { DataType, DateUnit, UnionMode, Vector, type Data, type RecordBatch, type Timestamp } from "apache-arrow";
import { dayText, floorDivide, timestampText } from "./calendar.js";

/** Decimal text of an unscaled integer: 12345 with scale 2 is 123.45. */
export function scaledText(unscaled: bigint, scale: number): string {
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

/**
 * A value as JSON would hold it; 64-bit integers stay bigint so that no digit is lost. Objects are maps: those keep
 * the order of their names and can hold any name, `__proto__` too.
 */
export type PlainValue = null | boolean | number | bigint | string | PlainValue[] | ReadonlyMap<string, PlainValue>;

type Reader = (row: number) => PlainValue;

const millisecondsPerDay = 86_400_000n;

/**
 * Arrow JS hands dates and timestamps out as floating milliseconds, which loses the last digits of nanoseconds and
 * throws for what a float cannot hold, so the integers are read from the data buffer instead, at any depth.
 */
function timeReader(data: Data): Reader | null {
    const { type } = data;
    if (DataType.isTimestamp(type)) {
        const ticks = (data as Data<Timestamp>).values;
        return (row) => timestampText(ticks[row]!, type);
    }
    if (!DataType.isDate(type)) return null;
    const stored = data.values as Int32Array | BigInt64Array;
    if (type.unit === DateUnit.DAY) return (row) => dayText(BigInt(stored[row]!));
    return (row) => dayText(floorDivide(BigInt(stored[row]!), millisecondsPerDay));
}

function listReader(data: Data): Reader {
    const item = dataReader(data.children[0]!);
    const items = (begin: number, end: number): PlainValue[] =>
        Array.from({ length: end - begin }, (_, index) => item(begin + index));
    if (DataType.isFixedSizeList(data.type)) {
        const { listSize } = data.type;
        return (row) => items(row * listSize, (row + 1) * listSize);
    }
    const offsets = data.valueOffsets as Int32Array | BigInt64Array;
    return (row) => items(Number(offsets[row]), Number(offsets[row + 1]));
}

function mapReader(data: Data): Reader {
    const [key, value] = data.children[0]!.children.map(dataReader) as [Reader, Reader];
    const offsets = data.valueOffsets as Int32Array;
    return (row) => {
        const entries = new Map<string, PlainValue>();
        for (let index = offsets[row]!; index < offsets[row + 1]!; index++)
            entries.set(toCell(key(index)), value(index));
        return entries;
    };
}

function structReader(data: Data): Reader {
    const fields = data.children.map((child, index) => ({
        name: data.type.children[index]!.name,
        read: dataReader(child)
    }));
    return (row) => new Map(fields.map(({ name, read }) => [name, read(row)]));
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

function leafReader(data: Data): Reader {
    const { type } = data;
    const vector = new Vector([data]);
    if (DataType.isDecimal(type)) {
        return (row) => scaledText(unscaledDecimal(vector.get(row) as Uint32Array), type.scale);
    }
    return (row) => {
        const value: unknown = vector.get(row);
        if (value instanceof Uint8Array) return hexText(value);
        if (ArrayBuffer.isView(value)) return Array.from(value as unknown as Iterable<number>);
        return value as PlainValue;
    };
}

function presentReader(data: Data): Reader {
    const { type } = data;
    if (DataType.isDictionary(type)) return dictionaryReader(data);
    if (DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type)) return listReader(data);
    if (DataType.isMap(type)) return mapReader(data);
    if (DataType.isStruct(type)) return structReader(data);
    return timeReader(data) ?? leafReader(data);
}

/** Reads row after row of one array. */
function dataReader(data: Data): Reader {
    if (DataType.isNull(data.type)) return () => null;
    if (DataType.isUnion(data.type)) return unionReader(data); // its members say which values are NULL
    const present = presentReader(data);
    return (row) => (data.getValid(row) ? present(row) : null);
}

/** Reads row after row of one column of a batch. */
export function columnReader(batch: RecordBatch, column: number): Reader {
    return dataReader(batch.data.children[column]!);
}

function nestedText(value: PlainValue, leafText: (leaf: PlainValue) => string): string {
    if (Array.isArray(value)) return `[${value.map((item) => nestedText(item, leafText)).join(",")}]`;
    if (value instanceof Map) {
        const members = Array.from(value as ReadonlyMap<string, PlainValue>);
        return `{${members.map(([name, item]) => `${JSON.stringify(name)}:${nestedText(item, leafText)}`).join(",")}}`;
    }
    return leafText(value);
}

function jsonLeaf(leaf: PlainValue): string {
    return typeof leaf === "bigint" ? leaf.toString() : JSON.stringify(leaf);
}

/** JSON with 64-bit integers as plain digits, which `JSON.stringify` cannot write; NaN and infinities become null. */
export function toJson(value: PlainValue): string {
    return nestedText(value, jsonLeaf);
}

/** Text of a table cell. */
export function toCell(value: PlainValue): string {
    if (value === null) return "NULL";
    if (typeof value !== "object") return String(value);
    // JSON has no NaN and no infinities, a table has: as null they would look like missing values.
    return nestedText(value, (leaf) => (typeof leaf === "number" ? String(leaf) : jsonLeaf(leaf)));
}
