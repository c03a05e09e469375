// SPDX-License-Identifier: Apache-2.0
// What the engine is told of each type of Arrow: widths, order, nesting; and which types it is never told of.
import {
    Binary,
    BinaryView,
    Bool,
    DataType,
    DateDay,
    DateMillisecond,
    Decimal,
    DenseUnion,
    Dictionary,
    DurationSecond,
    Field,
    FixedSizeBinary,
    FixedSizeList,
    Float16,
    Float32,
    Float64,
    Int,
    Int16,
    Int32,
    Int64,
    Int8,
    IntervalDayTime,
    IntervalMonthDayNano,
    IntervalYearMonth,
    LargeBinary,
    LargeList,
    LargeUtf8,
    List,
    Map_,
    Null,
    SparseUnion,
    Struct,
    TimeMicrosecond,
    TimeSecond,
    TimestampNanosecond,
    Uint16,
    Uint32,
    Uint64,
    Uint8,
    Utf8,
    Utf8View
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { bufferCount, columnTypeOf, resultColumnType, visitNodes } from "../../../src/arrow/column-type-of.js";
import { SpillwayError } from "../../../src/errors.js";
import type { ColumnType, Layout, ValueOrder } from "../../../src/model/column-type.js";

const typeOf = (type: DataType): ColumnType => columnTypeOf(new Field("c", type, true));

/** A column type with what most have not left out. */
const columnType = (layout: Layout, byteWidth: number, more: Partial<ColumnType> = {}): ColumnType => ({
    ...{ name: "c", layout, order: "bytes", byteWidth, nullable: true, utf8: false },
    ...{ listSize: 0, typeIds: [], children: [] },
    ...more
});

const fixed = (order: ValueOrder, byteWidth: number): ColumnType => columnType("fixed", byteWidth, { order });
const item = (type: DataType): Field => new Field("item", type, true);
const itemType = { ...fixed("signed", 4), name: "item" };
const keyed = new Struct([new Field("key", new Utf8(), false), new Field("value", new Int32(), true)]);

const scalars: [string, DataType, ColumnType][] = [
    ["nothing", new Null(), columnType("null", 0)],
    ["bool", new Bool(), columnType("bool", 1, { order: "unsigned" })],
    ["int8", new Int8(), fixed("signed", 1)],
    ["int16", new Int16(), fixed("signed", 2)],
    ["int32", new Int32(), fixed("signed", 4)],
    ["int64", new Int64(), fixed("signed", 8)],
    ["uint8", new Uint8(), fixed("unsigned", 1)],
    ["uint16", new Uint16(), fixed("unsigned", 2)],
    ["uint32", new Uint32(), fixed("unsigned", 4)],
    ["uint64", new Uint64(), fixed("unsigned", 8)],
    ["float16", new Float16(), fixed("float", 2)],
    ["float32", new Float32(), fixed("float", 4)],
    ["float64", new Float64(), fixed("float", 8)],
    ["days", new DateDay(), fixed("signed", 4)],
    ["days in milliseconds", new DateMillisecond(), fixed("signed", 8)],
    ["time of 32 bits", new TimeSecond(), fixed("signed", 4)],
    ["time of 64 bits", new TimeMicrosecond(), fixed("signed", 8)],
    ["timestamp", new TimestampNanosecond(), fixed("signed", 8)],
    ["duration", new DurationSecond(), fixed("signed", 8)],
    ["decimal of 32 bits", new Decimal(2, 9, 32), fixed("signed", 4)],
    ["decimal of 64 bits", new Decimal(2, 18, 64), fixed("signed", 8)],
    ["decimal of 128 bits", new Decimal(2, 38, 128), fixed("decimal", 16)],
    ["decimal of 256 bits", new Decimal(2, 76, 256), fixed("decimal", 32)],
    ["months", new IntervalYearMonth(), fixed("bytes", 4)],
    ["days and milliseconds", new IntervalDayTime(), fixed("bytes", 8)],
    ["months, days and nanoseconds", new IntervalMonthDayNano(), fixed("bytes", 16)],
    ["one byte", new FixedSizeBinary(1), fixed("bytes", 1)],
    ["as many bytes as a row may take", new FixedSizeBinary(2 ** 30), fixed("bytes", 2 ** 30)],
    ["text", new Utf8(), columnType("binary", 4, { utf8: true })],
    ["large text", new LargeUtf8(), columnType("binary", 8, { utf8: true })],
    ["bytes", new Binary(), columnType("binary", 4)],
    ["large bytes", new LargeBinary(), columnType("binary", 8)],
    ["views of text", new Utf8View(), columnType("view", 4, { utf8: true })],
    ["views of bytes", new BinaryView(), columnType("view", 4)]
];

const nested: [string, DataType, ColumnType][] = [
    ["list", new List(item(new Int32())), columnType("list", 4, { children: [itemType] })],
    ["large list", new LargeList(item(new Int32())), columnType("list", 8, { children: [itemType] })],
    [
        "fixed list",
        new FixedSizeList(3, item(new Int32())),
        columnType("fixedList", 0, { listSize: 3, children: [itemType] })
    ],
    [
        "fixed list of nothing",
        new FixedSizeList(0, item(new Int32())),
        columnType("fixedList", 0, { children: [itemType] })
    ],
    ["struct", new Struct([item(new Int32())]), columnType("struct", 0, { children: [itemType] })],
    [
        "map",
        new Map_(new Field("entries", keyed) as never),
        columnType("list", 4, {
            children: [
                columnType("struct", 0, {
                    name: "entries",
                    children: [
                        columnType("binary", 4, { name: "key", utf8: true }),
                        { ...fixed("signed", 4), name: "value" }
                    ]
                })
            ]
        })
    ],
    [
        "sparse union",
        new SparseUnion([127], [item(new Int32())]),
        columnType("unionSparse", 1, { typeIds: [127], children: [itemType] })
    ],
    [
        "dense union",
        new DenseUnion([0], [item(new Int32())]),
        columnType("unionDense", 1, { typeIds: [0], children: [itemType] })
    ],
    [
        "dictionary of text",
        new Dictionary(new Utf8(), new Uint16()),
        columnType("dictionary", 2, {
            indexSigned: false,
            children: [columnType("binary", 4, { name: "values", utf8: true })]
        })
    ],
    [
        "dictionary of numbers",
        new Dictionary(new Uint8(), new Int64() as never),
        columnType("dictionary", 8, {
            ...{ order: "unsigned", indexSigned: true },
            children: [{ ...fixed("unsigned", 1), name: "values" }]
        })
    ]
];

test.each([...scalars, ...nested])("a column of %s", (_, type, expected) => {
    expect(typeOf(type)).toEqual(expected);
    expect("indexSigned" in typeOf(type)).toBe(expected.layout === "dictionary");
});

const lists = (levels: number): DataType => (levels === 0 ? new Int32() : new List(item(lists(levels - 1))));

describe("a refused type", () => {
    class Later extends DataType {
        public override toString(): string {
            return "Later<Int32>";
        }
    }
    const member = [item(new Int32())];
    const pairs = new Map_(new Field("entries", keyed) as never);
    pairs.children.push(new Field("more", new Int32()) as never);
    const endless = new FixedSizeList(
        2 ** 31 - 1,
        item(new FixedSizeList(2 ** 31 - 1, item(new FixedSizeBinary(2 ** 20))))
    );

    test.each<[string, DataType, Record<string, unknown>]>([
        ["bytes of no width", new FixedSizeBinary(0), { type: "FixedSizeBinary[0]" }],
        ["integers of 24 bits", new Int(true, 24 as never), { type: "Int24" }],
        ["a dictionary with codes of 24 bits", new Dictionary(new Utf8(), new Int(true, 24 as never) as never), {}],
        ["65 levels of lists", lists(65), { type: "List" }],
        ["64 levels of lists in a dictionary", new Dictionary(lists(64), new Int32()), { type: "List" }],
        ["a map with more than its entries", pairs, { type: "Map" }],
        ["lists of fewer than no items", new FixedSizeList(-1, item(new Int32())), {}],
        ["a union with an id too many", new SparseUnion([0, 1], member), { type: "Union<Int32>" }],
        ["a union of which one id is no byte", new SparseUnion([0, 128], [...member, ...member]), {}],
        ["a union of nobody", new SparseUnion([], []), { type: "Union<>" }],
        ["a list of unions of nobody", new List(item(new DenseUnion([], []))), { type: "List<Union<>>" }],
        [
            "a dictionary of a dictionary",
            new Dictionary(new Dictionary(new Utf8(), new Int8()), new Int32()),
            { type: "Dictionary<Int32, Dictionary<Int8, Utf8>>" }
        ],
        [
            "a row larger than a row may be",
            new Struct([item(new FixedSizeBinary(2 ** 30)), new Field("x", new Int32())]),
            {
                type: `Struct<{item:FixedSizeBinary[${2 ** 30}], x:Int32}>`,
                ...{ rowBytes: 2 ** 30 + 4, largestRowBytes: 2 ** 30 }
            }
        ],
        ["a row without end", endless, { rowBytes: "more than 2^53" }],
        ["a type that Arrow JS has no name for", new Later(99 as never), { type: "Later<Int32>" }]
    ])("is %s", (_, type, details) => {
        let error: unknown;
        try {
            typeOf(type);
        } catch (thrown) {
            error = thrown;
        }
        expect(error).toBeInstanceOf(SpillwayError);
        expect(error).toMatchObject({ code: "UNSUPPORTED_TYPE", details: { column: "c", ...details } });
        expect((error as SpillwayError).message).toContain("`c`");
        for (const text of [details["type"] ?? "", details["rowBytes"] ?? ""]) {
            expect((error as SpillwayError).message).toContain(String(text));
        }
    });

    test("is none of 63 levels of lists in a dictionary", () => {
        expect(typeOf(new Dictionary(lists(63), new Int32())).layout).toBe("dictionary");
    });
});

test("field nodes come in pre-order, and a dictionary's values have none", () => {
    const dictionary = new Dictionary(lists(1), new Int8());
    const struct = new Struct([new Field("d", dictionary), new Field("l", lists(1))]);
    const seen: string[] = [];
    visitNodes([typeOf(struct), typeOf(new Int32())], ({ name, layout }) => seen.push(`${name}:${layout}`));
    expect(seen).toEqual(["c:struct", "d:dictionary", "l:list", "item:fixed", "c:fixed"]);
});

test.each<[number, Layout[]]>([
    [0, ["null"]],
    [1, ["struct", "fixedList", "unionSparse"]],
    [2, ["bool", "fixed", "view", "list", "unionDense", "dictionary"]],
    [3, ["binary"]]
])("columns with %i buffers", (count, layouts) => {
    expect(layouts.map(bufferCount)).toEqual(layouts.map(() => count));
});

test("results have bytes for views and Int32 codes, also inside of other types", () => {
    const views = new List(item(new Utf8View()));
    const codes = new Struct([item(new Dictionary(new BinaryView(), new Uint8()))]);
    const values = columnType("binary", 4, { name: "values" });
    expect(resultColumnType(typeOf(views)).children).toEqual([columnType("binary", 4, { name: "item", utf8: true })]);
    expect(resultColumnType(typeOf(codes)).children).toEqual([
        columnType("dictionary", 4, { name: "item", indexSigned: true, children: [values] })
    ]);
    for (const type of [new Uint8(), new LargeUtf8(), lists(2)]) {
        expect(resultColumnType(typeOf(type))).toEqual(typeOf(type));
    }
});
