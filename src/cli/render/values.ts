// SPDX-License-Identifier: Apache-2.0
import { DataType, TimeUnit, Vector, type Data, type RecordBatch, type Timestamp } from "apache-arrow";

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

const unitsPerSecond: Record<number, bigint> = {
    [TimeUnit.SECOND]: 1n,
    [TimeUnit.MILLISECOND]: 1_000n,
    [TimeUnit.MICROSECOND]: 1_000_000n,
    [TimeUnit.NANOSECOND]: 1_000_000_000n
};

/**
 * ISO text of the exact stored integer. Arrow JS hands timestamps out as floating milliseconds, which loses the last
 * digits of nanoseconds, so the integer is read from the data buffer instead.
 */
function timestampText(ticks: bigint, type: Timestamp): string {
    const perSecond = unitsPerSecond[type.unit]!;
    const fraction = ((ticks % perSecond) + perSecond) % perSecond;
    const milliseconds = Number((ticks - fraction) / perSecond) * 1000;
    // Outside years 0 .. 9999 (and Date's own range) a calendar text would mislead; the stored number does not.
    if (!(milliseconds >= -62167219200000 && milliseconds <= 253402300799000)) return ticks.toString();
    const seconds = new Date(milliseconds).toISOString().slice(0, 19);
    const digits = perSecond === 1n ? "" : `.${fraction.toString().padStart(perSecond.toString().length - 1, "0")}`;
    return `${seconds}${digits}${type.timezone ? "Z" : ""}`;
}

function hexText(bytes: Uint8Array): string {
    return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex")}`;
}

/** A value as JSON would hold it; 64-bit integers stay bigint so that no digit is lost. */
export type PlainValue = null | boolean | number | bigint | string | PlainValue[] | { [name: string]: PlainValue };

/** Plain value of anything `Vector.get` returns for `type`. Timestamps need the buffer: see `columnReader`. */
export function plainValue(value: unknown, type: DataType): PlainValue {
    if (value == null) return null;
    if (DataType.isDictionary(type)) return plainValue(value, type.dictionary as DataType);
    if (DataType.isDecimal(type)) return scaledText(unscaledDecimal(value as Uint32Array), type.scale);
    if (DataType.isDate(type)) return new Date(value as number).toISOString().slice(0, 10);
    if (DataType.isTimestamp(type)) return new Date(value as number).toISOString();
    return untypedValue(value, type);
}

function untypedValue(value: unknown, type: DataType): PlainValue {
    if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") return value;
    if (typeof value === "string") return value;
    if (value instanceof Uint8Array) return hexText(value);
    if (value instanceof Vector) {
        const child = (type.children?.[0]?.type ?? value.type) as DataType;
        return Array.from({ length: value.length }, (_, index) => plainValue(value.get(index), child));
    }
    if (ArrayBuffer.isView(value)) return Array.from(value as unknown as Iterable<number>);
    return objectValue(value as object, type);
}

function objectValue(value: object, type: DataType): PlainValue {
    const plain: Record<string, PlainValue> = {};
    if (DataType.isMap(type)) {
        const valueType = type.children[0]!.type.children[1]!.type as DataType;
        for (const [key, item] of value as Iterable<[unknown, unknown]>)
            plain[String(key)] = plainValue(item, valueType);
        return plain;
    }
    for (const field of type.children ?? []) {
        plain[field.name] = plainValue((value as Record<string, unknown>)[field.name], field.type as DataType);
    }
    return plain;
}

/** Reads row after row of one column of a batch. */
export function columnReader(batch: RecordBatch, column: number): (row: number) => PlainValue {
    const vector = batch.getChildAt(column)!;
    const type = vector.type as DataType;
    if (DataType.isTimestamp(type)) {
        const data = vector.data[0] as Data<Timestamp>;
        const ticks = data.values; // already shifted by the batch's offset
        return (row) => (vector.isValid(row) ? timestampText(ticks[row]!, type) : null);
    }
    return (row) => plainValue(vector.get(row), type);
}

/** JSON with 64-bit integers as plain digits, which `JSON.stringify` cannot write; NaN and infinities become null. */
export function toJson(value: PlainValue): string {
    if (typeof value === "bigint") return value.toString();
    if (Array.isArray(value)) return `[${value.map(toJson).join(",")}]`;
    if (value !== null && typeof value === "object") {
        return `{${Object.entries(value)
            .map(([name, item]) => `${JSON.stringify(name)}:${toJson(item)}`)
            .join(",")}}`;
    }
    return JSON.stringify(value);
}

/** Text of a table cell. */
export function toCell(value: PlainValue): string {
    if (value === null) return "NULL";
    return typeof value === "object" ? toJson(value) : String(value);
}
