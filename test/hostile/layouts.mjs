// SPDX-License-Identifier: Apache-2.0
// One column of every layout that is read, filled with the same plain pattern each time: what the attacks start from.
import {
    Binary,
    BinaryView,
    Bool,
    DataType,
    DateDay,
    Decimal,
    DenseUnion,
    Dictionary,
    DurationNanosecond,
    Field,
    FixedSizeBinary,
    FixedSizeList,
    Float16,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    IntervalDayTime,
    IntervalMonthDayNano,
    LargeBinary,
    LargeList,
    LargeUtf8,
    List,
    makeData,
    Map_,
    Null,
    RecordBatch,
    Schema,
    SparseUnion,
    Struct,
    TimeMillisecond,
    TimestampNanosecond,
    Uint16,
    Uint64,
    Uint8,
    Utf8,
    Utf8View,
    Vector
} from "apache-arrow";

export const rowsOfBatch = 20;
const batches = 2;

export const field = (name, type) => new Field(name, type, true);
const list = (type) => new List(field("item", type));
const fixedList = (size, type) => new FixedSizeList(size, field("item", type));
const pair = (first, second) => [field("a", first), field("b", second)];
const entries = (key, value) =>
    new Field("entries", new Struct([new Field("key", key, false), field("value", value)]), false);
const coded = (values, indices, id) => new Dictionary(values, indices, id);

/** Type of the column `p` by the name of its layout. */
export const layouts = {
    null: () => new Null(),
    bool: () => new Bool(),
    int8: () => new Int8(),
    int32: () => new Int32(),
    uint64: () => new Uint64(),
    float16: () => new Float16(),
    float64: () => new Float64(),
    decimal64: () => new Decimal(2, 12, 64),
    decimal128: () => new Decimal(2, 30, 128),
    decimal256: () => new Decimal(2, 60, 256),
    date: () => new DateDay(),
    time: () => new TimeMillisecond(),
    timestamp: () => new TimestampNanosecond(),
    duration: () => new DurationNanosecond(),
    dayTime: () => new IntervalDayTime(),
    monthDayNano: () => new IntervalMonthDayNano(),
    bytes1: () => new FixedSizeBinary(1),
    bytes9: () => new FixedSizeBinary(9),
    bytes300: () => new FixedSizeBinary(300),
    utf8: () => new Utf8(),
    binary: () => new Binary(),
    largeUtf8: () => new LargeUtf8(),
    largeBinary: () => new LargeBinary(),
    utf8View: () => new Utf8View(),
    binaryView: () => new BinaryView(),
    list: () => list(new Int32()),
    listOfBool: () => list(new Bool()),
    listOfUtf8: () => list(new Utf8()),
    listOfView: () => list(new Utf8View()),
    listOfList: () => list(list(new LargeUtf8())),
    listOfFixedList: () => list(fixedList(2, new Int16())),
    listOfNull: () => list(new Null()),
    largeList: () => new LargeList(field("item", new Utf8())),
    fixedList: () => fixedList(3, new Int64()),
    fixedListOfUtf8: () => fixedList(3, new Utf8()),
    fixedListOfBool: () => fixedList(3, new Bool()),
    fixedListOfNothing: () => fixedList(0, new Utf8()),
    fixedListOfList: () => fixedList(2, list(new Utf8())),
    fixedLists: () => fixedList(2, fixedList(3, new Utf8())),
    fixedListsOfBytes: () => fixedList(2, fixedList(2, fixedList(2, new FixedSizeBinary(3)))),
    struct: () => new Struct(pair(new Utf8(), new Int32())),
    structOfNothing: () => new Struct([]),
    structOfNested: () =>
        new Struct(pair(list(new Utf8View()), new Struct(pair(new Bool(), fixedList(2, new Utf8()))))),
    map: () => new Map_(entries(new Utf8(), new Int32())),
    mapOfLists: () => new Map_(entries(new Int16(), list(new Utf8()))),
    dense: () => new DenseUnion([0, 1], pair(new Utf8(), new Int32())),
    denseFarIds: () => new DenseUnion([5, 127], pair(list(new Utf8()), new Utf8View())),
    sparse: () => new SparseUnion([0, 1], pair(new Utf8(), new Int32())),
    sparseOfNested: () =>
        new SparseUnion([3, 1], pair(fixedList(2, new Utf8()), new Struct(pair(new Int8(), new Utf8())))),
    dictionary8: () => coded(new Utf8(), new Int8(), 1),
    dictionaryU8: () => coded(new FixedSizeBinary(7), new Uint8(), 1),
    dictionaryU16: () => coded(new LargeUtf8(), new Uint16(), 1),
    dictionary32: () => coded(new Int64(), new Int32(), 1),
    dictionary64: () => coded(new Utf8(), new Int64(), 1),
    dictionaryU64: () => coded(new Utf8View(), new Uint64(), 1),
    dictionaryOfList: () => coded(list(new Utf8()), new Int32(), 1),
    dictionaryOfStruct: () => coded(new Struct(pair(new Utf8(), new Bool())), new Int8(), 1),
    listOfDictionary: () => list(coded(new Utf8(), new Int8(), 1)),
    structOfDictionaries: () => new Struct(pair(coded(new Utf8(), new Int8(), 1), coded(new Utf8(), new Uint64(), 2))),
    nestedDictionary: () => coded(list(coded(new Utf8(), new Int8(), 2)), new Int16(), 1),
    unionOfDictionary: () => new DenseUnion([0, 1], pair(coded(new Utf8(), new Int32(), 1), new Int32()))
};

function validity(rows) {
    const nullBitmap = new Uint8Array(((rows + 63) >> 6) << 3);
    let nullCount = 0;
    for (let row = 0; row < rows; ++row) {
        if (row % 5 === 3) nullCount += 1;
        else nullBitmap[row >> 3] |= 1 << (row & 7);
    }
    return { nullBitmap, nullCount };
}

/** Lengths 0, 1, 2, 3, 0, ... as offsets. */
function offsets(rows, ArrayType) {
    const ends = new ArrayType(rows + 1);
    let end = 0;
    for (let row = 0; row < rows; ++row) {
        end += row % 4;
        ends[row + 1] = ArrayType === BigInt64Array ? BigInt(end) : end;
    }
    return { valueOffsets: ends, end };
}

const letters = (count) => Uint8Array.from({ length: count }, (_, i) => 97 + (i % 26));

function views(rows) {
    const data = letters(rows * 20);
    const bytes = new Uint8Array(rows * 16);
    const fields = new DataView(bytes.buffer);
    for (let row = 0; row < rows; ++row) {
        const length = row % 2 === 0 ? 5 : 20;
        fields.setInt32(row * 16, length, true);
        const value = data.subarray(row * 20, row * 20 + length);
        bytes.set(value.subarray(0, length > 12 ? 4 : length), row * 16 + 4);
        if (length > 12) fields.setInt32(row * 16 + 12, row * 20, true);
    }
    return { views: bytes, variadicBuffers: [data] };
}

function union(type, rows, dictionaries) {
    const ids = Array.from(type.typeIds);
    const dense = type.mode === 1;
    const typeIds = Int8Array.from({ length: rows }, (_, row) => ids[row % ids.length]);
    const valueOffsets = Int32Array.from({ length: rows }, (_, row) => Math.floor(row / ids.length));
    const children = type.children.map((child) => dataOf(child.type, rows, dictionaries));
    return { typeIds, children, ...(dense ? { valueOffsets } : {}) };
}

const wordsOfDictionary = 8;

function dictionary(type, rows, dictionaries) {
    const known = dictionaries.get(type.id) ?? new Vector([dataOf(type.dictionary, wordsOfDictionary, dictionaries)]);
    dictionaries.set(type.id, known);
    const data = new type.indices.ArrayType(rows);
    for (let row = 0; row < rows; ++row) data[row] = typeof data[0] === "bigint" ? BigInt(row % 8) : row % 8;
    return { data, dictionary: known, ...validity(rows) };
}

/** Children of lists have as many items as the pattern of their offsets asks for. */
function nested(type, rows, dictionaries) {
    const child = (length) => dataOf(type.children[0].type, length, dictionaries);
    if (DataType.isFixedSizeList(type)) return { child: child(rows * type.listSize) };
    if (DataType.isStruct(type)) {
        return { children: type.children.map((each) => dataOf(each.type, rows, dictionaries)) };
    }
    const { valueOffsets, end } = offsets(rows, DataType.isLargeList(type) ? BigInt64Array : Int32Array);
    return { valueOffsets, child: child(end) };
}

function buffersOf(type, rows, dictionaries) {
    if (DataType.isNull(type)) return {};
    if (DataType.isUnion(type)) return union(type, rows, dictionaries);
    if (DataType.isDictionary(type)) return dictionary(type, rows, dictionaries);
    if (DataType.isUtf8View(type) || DataType.isBinaryView(type)) return views(rows);
    if (DataType.isBool(type)) return { data: letters((rows + 7) >> 3) };
    if (type.children?.length > 0 || DataType.isStruct(type)) return nested(type, rows, dictionaries);
    if (
        DataType.isUtf8(type) ||
        DataType.isBinary(type) ||
        DataType.isLargeUtf8(type) ||
        DataType.isLargeBinary(type)
    ) {
        const large = DataType.isLargeUtf8(type) || DataType.isLargeBinary(type);
        const { valueOffsets, end } = offsets(rows, large ? BigInt64Array : Int32Array);
        return { valueOffsets, data: letters(end) };
    }
    const { ArrayType } = type;
    const values = new Uint8Array(Math.ceil((rows * widthOf(type)) / 8) * 8);
    values.set(values.map((_, i) => (i % 8 === 0 ? (i >> 3) % 7 : 0)));
    return { data: new ArrayType(values.buffer) };
}

/** Bytes of one value. */
export function widthOf(type) {
    if (DataType.isFixedSizeBinary(type)) return type.byteWidth;
    if (DataType.isDecimal(type)) return type.bitWidth / 8;
    if (DataType.isInterval(type)) return [4, 8, 16][type.unit];
    return type.ArrayType.BYTES_PER_ELEMENT * (type.stride ?? 1);
}

/** `rows` values of a type; `dictionaries`: those made so far, by id, which all batches share. */
export function dataOf(type, rows, dictionaries = new Map()) {
    const own = DataType.isNull(type) || DataType.isUnion(type) ? {} : validity(rows);
    return makeData({ type, length: rows, ...own, ...buffersOf(type, rows, dictionaries) });
}

/** Schema and two record batches: an integer key `k` that repeats, and the column `p`. */
export function batchesOf(name) {
    const type = layouts[name]();
    const schema = new Schema([field("k", new Int32()), field("p", type)]);
    const dictionaries = new Map();
    const whole = Array.from({ length: batches }, () => {
        const data = Int32Array.from({ length: rowsOfBatch }, (_, row) => row % 7);
        const key = makeData({ type: new Int32(), length: rowsOfBatch, nullCount: 0, data });
        const children = [key, dataOf(type, rowsOfBatch, dictionaries)];
        const rows = makeData({ type: new Struct(schema.fields), length: rowsOfBatch, nullCount: 0, children });
        return new RecordBatch(schema, rows);
    });
    return { schema, batches: whole };
}
