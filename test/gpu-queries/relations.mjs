// SPDX-License-Identifier: Apache-2.0
// Seeded relations with columns of every type that the GPU takes, in batches of odd lengths.
import {
    Binary,
    Bool,
    DateDay,
    Decimal,
    Dictionary,
    DurationMicrosecond,
    FixedSizeBinary,
    Float16,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    LargeUtf8,
    Table,
    TimestampMicrosecond,
    Uint16,
    Uint32,
    Uint8,
    Utf8,
    makeData,
    makeVector,
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

/** Each number below `rows` once, in some order, and NULLs in the place of some. */
function uniqueColumn(random, type, rows, value, nullPercent) {
    const numbers = Array.from({ length: rows }, (_, i) => [random(2 ** 30), i]).sort(([a], [b]) => a - b);
    return vectorFromArray(
        numbers.map(([, number]) => (random(100) < nullPercent ? null : value(number))),
        type
    );
}

function cutInTwo(random, table) {
    const rows = table.numRows;
    if (rows < 100) return table;
    const cut = 1 + random(rows - 2);
    return table.slice(0, cut).concat(table.slice(cut));
}

/** `keys`: names of keyKinds; `side`: 0 or 1; `unique`: the first key comes once. Payload names end in `suffix`. */
export function relation(random, { keys, side, rows, domain, nullPercent, suffix, unique = false }) {
    const columns = {};
    keys.forEach((kind, i) => {
        const { [side]: type, 2: value } = keyKinds[kind];
        columns[`k${i}`] =
            unique && i === 0
                ? uniqueColumn(random, type, rows, value, nullPercent)
                : column(random, type, rows, value, i === 0 ? domain : 3, nullPercent);
    });
    for (const [name, [type, value]] of Object.entries(payloads)) {
        columns[name + suffix] = column(random, type, rows, value, 5000, random(3) * 10);
    }
    return cutInTwo(random, new Table(columns));
}

/** What generate() is asked for: rows of 16 bytes, a key that comes once and a number. */
export const keyed = (rows, seed, more = {}) => ({
    ...{ rows, seed, key: { name: "k" }, payload: [{ name: `p${seed}` }] },
    ...more
});

/** The same of any number of rows: one key has so many of them, some are NULL, the others come once or a few times. */
export function hotKeyTable(random, { rows, hotRows, nullPercent, name }) {
    const [keys, values] = [new Uint32Array(2 * rows), new Uint32Array(2 * rows)];
    const known = new Uint8Array(Math.ceil(rows / 8));
    const step = Math.floor(rows / hotRows);
    let nulls = 0;
    for (let row = 0; row < rows; ++row) {
        // Halves of numbers of 64 bits, the lower one first.
        keys[2 * row] = row % step === 0 ? rows : random(rows);
        values[2 * row] = row;
        values[2 * row + 1] = random(2 ** 31);
        if (random(100) < nullPercent) ++nulls;
        else known[row >> 3] |= 1 << (row % 8);
    }
    const type = new Int64();
    const key = makeData({
        ...{ type, length: rows, nullCount: nulls, nullBitmap: known },
        data: new BigInt64Array(keys.buffer)
    });
    const value = makeData({ type, length: rows, data: new BigInt64Array(values.buffer) });
    return cutInTwo(random, new Table({ k: makeVector(key), [name]: makeVector(value) }));
}

/** Likewise one of 256 bits. */
const wideDecimal = (number) =>
    Uint32Array.from({ length: 8 }, (_, word) =>
        Number((BigInt.asUintN(256, number) >> BigInt(32 * word)) & 0xffff_ffffn)
    );

/** Values to aggregate. Sums of floats are exact in any order, and so are quotients of all sums: means are equal. */
const groupValues = {
    int8: [new Int8(), (i) => (i % 256) - 128],
    uint16: [new Uint16(), (i) => i * 13],
    uint32: [new Uint32(), (i) => 4_000_000_000 + i],
    int64: [new Int64(), (i) => BigInt(i - 2500) << 24n],
    float16: [new Float16(), (i) => i % 100],
    float32: [new Float32(), (i) => (i - 2500) / 4],
    float64: [new Float64(), (i) => (i - 2500) / 64],
    special: [new Float64(), (i) => [NaN, Infinity, -Infinity, -0, 0][i % 9] ?? i / 4],
    decimal: [new Decimal(3, 30, 128), (i) => decimal(BigInt(i - 2500) * 100_000_007n)],
    decimal256: [new Decimal(2, 60, 256), (i) => wideDecimal(BigInt(i - 2500) * 10n ** 40n)],
    duration: [new DurationMicrosecond(), (i) => BigInt(i) * 1_000_003n],
    text: [new Utf8(), text],
    binary: [new Binary(), (i) => bytes(i, i % 23)],
    fixed: [new FixedSizeBinary(6), (i) => bytes(i, 6)],
    date: [new DateDay(), (i) => (i - 2500) * 86_400_000],
    bool: [new Bool(), (i) => i % 3 === 0],
    textDictionary: [new Dictionary(new Utf8(), new Int32()), (i) => text(i % 40)],
    numberDictionary: [new Dictionary(new Int32(), new Int16()), (i) => (i % 50) * 1000 - 7]
};

/** Keys `int` and `text`, columns that are the same all over a group, values of every type; NULLs in all of them. */
export function groupTable(random, rows, domain) {
    const numbers = () => Array.from({ length: rows }, () => (random(100) < 8 ? null : random(domain)));
    const [ints, texts] = [numbers(), numbers()];
    const dependent = (keys, type, value) =>
        vectorFromArray(
            keys.map((key) => (random(100) < 30 ? null : value(key ?? domain))),
            type
        );
    const orNull = (value) => (number) => (number === null ? null : value(number));
    const columns = {
        int: vectorFromArray(ints.map(orNull((i) => i * 7 - 20)), new Int32()),
        text: vectorFromArray(texts.map(orNull(text)), new Utf8()),
        ofInt: dependent(ints, new Int64(), (i) => BigInt(i) << 33n),
        ofText: dependent(texts, new Utf8(), (i) => `of ${text(i)}`),
        constant: dependent(ints, new Decimal(2, 20, 128), () => decimal(-7n))
    };
    for (const [name, [type, value]] of Object.entries(groupValues)) {
        columns[name] = column(random, type, rows, value, 5000, 25);
    }
    return cutInTwo(random, new Table(columns));
}
