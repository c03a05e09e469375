// SPDX-License-Identifier: Apache-2.0
// Seeded relations with columns of every type that the GPU takes, in batches of odd lengths.
import {
    Binary,
    Bool,
    DateDay,
    Decimal,
    Dictionary,
    FixedSizeBinary,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    LargeUtf8,
    Table,
    TimestampMicrosecond,
    Uint32,
    Uint8,
    Utf8,
    vectorFromArray
} from "apache-arrow";

/** A generator of whole numbers below an end (xorshift); the same on every machine. */
export function randomNumbers(seed) {
    let state = (seed * 2654435761) >>> 0 || 1;
    return (end) => {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        state >>>= 0;
        return state % end;
    };
}

const text = (i) => (i % 11 === 0 ? "" : `value ${i}${"x".repeat(i % 37)}`);
const bytes = (i, length) => Uint8Array.from({ length }, (_, at) => (i * 31 + at * 7) & 255);
/** A decimal of 128 bits as Arrow JS takes it: four words, the lowest first. */
const decimal = (number) => Uint32Array.from([0n, 32n, 64n, 96n], (bit) => Number((number >> bit) & 0xffff_ffffn));
const float = (i) => [NaN, -0, 0, Infinity, -Infinity][i % 100] ?? i / 4;

/** name: [type of the left, type of the right, value of a number]. Both sides hold the same values. */
export const keyKinds = {
    int32: [new Int32(), new Int32(), (i) => i - 5],
    int64: [new Int64(), new Int64(), (i) => BigInt(i) * 1_000_003n - 7n],
    "int16 and int32": [new Int16(), new Int32(), (i) => (i % 30_000) - 100],
    "uint8 and uint32": [new Uint8(), new Uint32(), (i) => i % 251],
    bool: [new Bool(), new Bool(), (i) => i % 2 === 1],
    float64: [new Float64(), new Float64(), float],
    "float32 and float64": [new Float32(), new Float64(), float],
    date: [new DateDay(), new DateDay(), (i) => i * 86_400_000],
    timestamp: [new TimestampMicrosecond(), new TimestampMicrosecond(), (i) => i * 1000],
    decimal: [new Decimal(2, 20, 128), new Decimal(2, 20, 128), (i) => decimal(BigInt(i) * 10_000_000_007n)],
    "binary of 6 bytes": [new FixedSizeBinary(6), new FixedSizeBinary(6), (i) => bytes(i, 6)],
    text: [new Utf8(), new Utf8(), text],
    "text and large text": [new Utf8(), new LargeUtf8(), text],
    "text and dictionary": [new Utf8(), new Dictionary(new Utf8(), new Int32()), text],
    dictionaries: [new Dictionary(new Utf8(), new Int32()), new Dictionary(new Utf8(), new Int16()), text]
};

const payloads = {
    p_bool: [new Bool(), (i) => i % 3 === 0],
    p_int8: [new Int8(), (i) => (i % 256) - 128],
    p_int16: [new Int16(), (i) => i % 30_000],
    p_int32: [new Int32(), (i) => i],
    p_int64: [new Int64(), (i) => BigInt(i) << 20n],
    p_float64: [new Float64(), (i) => i / 8],
    p_decimal: [new Decimal(3, 30, 128), (i) => decimal(BigInt(i) * -1_000_000_000_039n)],
    p_text: [new Utf8(), text],
    p_binary: [new Binary(), (i) => bytes(i, i % 23)],
    p_dictionary: [new Dictionary(new Utf8(), new Int32()), (i) => text(i % 40)]
};

function column(random, type, rows, value, domain, nullPercent) {
    const cells = Array.from({ length: rows }, () => (random(100) < nullPercent ? null : value(random(domain))));
    return vectorFromArray(cells, type);
}

/** `keys`: names of keyKinds; `side`: 0 or 1. Payload names end in `suffix`. */
export function relation(random, { keys, side, rows, domain, nullPercent, suffix }) {
    const columns = {};
    keys.forEach((kind, i) => {
        const value = keyKinds[kind][2];
        columns[`k${i}`] = column(random, keyKinds[kind][side], rows, value, i === 0 ? domain : 3, nullPercent);
    });
    for (const [name, [type, value]] of Object.entries(payloads)) {
        columns[name + suffix] = column(random, type, rows, value, 5000, random(3) * 10);
    }
    const table = new Table(columns);
    if (rows < 100) return table;
    const cut = 1 + random(rows - 2);
    return table.slice(0, cut).concat(table.slice(cut));
}
