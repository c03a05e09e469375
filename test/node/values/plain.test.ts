// SPDX-License-Identifier: Apache-2.0
// What plainRows and plainValue make of every column type, and that JSON keeps it.
import * as arrow from "apache-arrow";
import {
    DateUnit,
    Field,
    Int32,
    IntervalUnit,
    List,
    makeData,
    makeVector,
    RecordBatch,
    Schema,
    Struct,
    Table,
    tableFromArrays,
    tableFromIPC,
    TimeUnit,
    tableToIPC,
    Utf8,
    Vector,
    vectorFromArray,
    type DataType
} from "apache-arrow";
import { openRuntime, plainRows, plainValue, type PlainJson, type PlainRow, type PlainValue } from "spillway";
import { describe, expect, expectTypeOf, test } from "vitest";
import { buildData, type PlainValue as Given } from "../../support/arrow-data.js";
import { expectError } from "../../support/errors.js";

function batchOf(type: DataType, values: readonly Given[], name = "c"): RecordBatch {
    const schema = new Schema([new Field(name, type, true)]);
    const children = [buildData(type, values)];
    const data = makeData({ type: new Struct(schema.fields), length: values.length, nullCount: 0, children });
    return new RecordBatch(schema, data);
}

const nullable = (name: string, type: DataType): Field => new Field(name, type, true);
const struct = (...fields: Field[]): Struct => new Struct(fields);
const mapOf = (key: DataType, value: DataType): arrow.Map_ =>
    new arrow.Map_(new Field("entries", struct(new Field("key", key), nullable("value", value)) as never, false));
const unionOf = (mode: arrow.UnionMode): arrow.Union =>
    new arrow.Union(mode, [0, 1], [nullable("i", new arrow.Int64()), nullable("s", new Utf8())]);

const wide = 2n ** 63n - 1n;
const digits = "9".repeat(76);
const bytes = Uint8Array.of(0, 171, 255);
const day = 86_400n;
const cases: [string, DataType, readonly Given[], readonly PlainJson[]][] = [
    ["nothing", new arrow.Null(), [null, null], [null, null]],
    ["bool", new arrow.Bool(), [true, false, null], [true, false, null]],
    ["int8", new arrow.Int8(), [-128, 127, null], [-128, 127, null]],
    ["uint8", new arrow.Uint8(), [255, 0], [255, 0]],
    ["uint16", new arrow.Uint16(), [65535, null], [65535, null]],
    ["int32", new Int32(), [-2147483648, 0, null], [-2147483648, 0, null]],
    ["uint32", new arrow.Uint32(), [4294967295, 1], [4294967295, 1]],
    ["int64", new arrow.Int64(), [wide, -wide - 1n, 0n, null], [`${wide}`, `${-wide - 1n}`, "0", null]],
    ["uint64", new arrow.Uint64(), [2n ** 64n - 1n, 9007199254740993n], ["18446744073709551615", "9007199254740993"]],
    ["float16", new arrow.Float16(), [1.5, Infinity, null], [1.5, "Infinity", null]],
    ["float32", new arrow.Float32(), [0.5, NaN, null], [0.5, "NaN", null]],
    [
        "float64",
        new arrow.Float64(),
        [0.1, NaN, Infinity, -Infinity, null],
        [0.1, "NaN", "Infinity", "-Infinity", null]
    ],
    [
        "decimal of 128 bits",
        new arrow.Decimal(2, 15, 128),
        [212230977n, -5n, 0n, null],
        ["2122309.77", "-0.05", "0.00", null]
    ],
    ["decimal of 32 bits", new arrow.Decimal(3, 9, 32), [-1n, 999999999n, null], ["-0.001", "999999.999", null]],
    ["decimal of 64 bits", new arrow.Decimal(0, 18, 64), [-7n, 10n ** 18n - 1n], ["-7", "9".repeat(18)]],
    [
        "decimal of 256 bits",
        new arrow.Decimal(38, 76, 256),
        [-(10n ** 76n) + 1n, 1n],
        [`-${digits.slice(38)}.${digits.slice(38)}`, `0.${"1".padStart(38, "0")}`]
    ],
    ["decimal without scale", new arrow.Decimal(0, 38, 128), [-(2n ** 100n), 5n], [`-${2n ** 100n}`, "5"]],
    ["decimal of a scale below zero", new arrow.Decimal(-3, 10, 128), [12n, -1n, 0n], ["12000", "-1000", "0"]],
    [
        "decimal of a scale that no one means",
        new arrow.Decimal(2 ** 30, 10, 128),
        [12n, -1n],
        ["12e-1073741824", "-1e-1073741824"]
    ],
    ["text", new Utf8(), ["", "a\u0000é😀", null], ["", "a\u0000é😀", null]],
    ["large text", new arrow.LargeUtf8(), ["x".repeat(40_000), null], ["x".repeat(40_000), null]],
    [
        "text views",
        new arrow.Utf8View(),
        ["short", "longer than twelve bytes", null],
        ["short", "longer than twelve bytes", null]
    ],
    ["bytes", new arrow.Binary(), [bytes, new Uint8Array(), null], ["0x00abff", "0x", null]],
    ["large bytes", new arrow.LargeBinary(), [new Uint8Array(20_000).fill(1)], [`0x${"01".repeat(20_000)}`]],
    [
        "byte views",
        new arrow.BinaryView(),
        [bytes, new Uint8Array(20).fill(2), null],
        ["0x00abff", `0x${"02".repeat(20)}`, null]
    ],
    ["fixed bytes", new arrow.FixedSizeBinary(3), [bytes, null], ["0x00abff", null]],
    ["days", new arrow.Date_(DateUnit.DAY), [0, -1, 19_000, null], ["1970-01-01", "1969-12-31", "2022-01-08", null]],
    ["days in milliseconds", new arrow.Date_(DateUnit.MILLISECOND), [0n, -86_400_000n], ["1970-01-01", "1969-12-31"]],
    ["time in seconds", new arrow.Time(TimeUnit.SECOND, 32), [0, 86_399, null], ["00:00:00", "23:59:59", null]],
    [
        "time in milliseconds",
        new arrow.Time(TimeUnit.MILLISECOND, 32),
        [47_109_250, -1],
        ["13:05:09.250", "-00:00:00.001"]
    ],
    [
        "time in microseconds",
        new arrow.Time(TimeUnit.MICROSECOND, 64),
        [1n, 86_400_000_000n],
        ["00:00:00.000001", "24:00:00.000000"]
    ],
    ["time in nanoseconds", new arrow.Time(TimeUnit.NANOSECOND, 64), [1n, null], ["00:00:00.000000001", null]],
    [
        "timestamp in seconds",
        new arrow.Timestamp(TimeUnit.SECOND, null),
        [-1n, day * 365n],
        ["1969-12-31T23:59:59", "1971-01-01T00:00:00"]
    ],
    [
        "timestamp in milliseconds",
        new arrow.Timestamp(TimeUnit.MILLISECOND, "UTC"),
        [1n, null],
        ["1970-01-01T00:00:00.001Z", null]
    ],
    [
        "timestamp in microseconds",
        new arrow.Timestamp(TimeUnit.MICROSECOND, null),
        [-1n],
        ["1969-12-31T23:59:59.999999"]
    ],
    [
        "timestamp in nanoseconds",
        new arrow.Timestamp(TimeUnit.NANOSECOND, "Asia/Tokyo"),
        [wide],
        ["2262-04-11T23:47:16.854775807Z"]
    ],
    ["duration", new arrow.Duration(TimeUnit.NANOSECOND), [wide, -1n, null], [`${wide}`, "-1", null]],
    ["interval of months", new arrow.Interval(IntervalUnit.YEAR_MONTH), [-14n, null], [{ months: -14 }, null]],
    ["interval of days", new arrow.Interval(IntervalUnit.DAY_TIME), [3n | (7n << 32n)], [{ days: 3, milliseconds: 7 }]],
    [
        "interval of all",
        new arrow.Interval(IntervalUnit.MONTH_DAY_NANO),
        [BigInt.asUintN(128, (-5n << 64n) | (2n << 32n) | 1n), null],
        [{ months: 1, days: 2, nanoseconds: "-5" }, null]
    ],
    [
        "dictionary",
        new arrow.Dictionary(new arrow.Decimal(1, 9, 128), new arrow.Int8()),
        [15n, null, 15n],
        ["1.5", null, "1.5"]
    ],
    ["list", new List(nullable("item", new arrow.Int64())), [[1n, null], [], null], [["1", null], [], null]],
    ["large list", new arrow.LargeList(nullable("item", new Utf8())), [["a"], [null]], [["a"], [null]]],
    ["fixed list", new arrow.FixedSizeList(2, nullable("item", new Int32())), [[1, 2], null], [[1, 2], null]],
    [
        "struct",
        struct(nullable("__proto__", new Int32()), nullable("at", new arrow.Timestamp(TimeUnit.SECOND, "UTC"))),
        [[1, 0n], [null, null], null],
        [
            JSON.parse('{"__proto__":1,"at":"1970-01-01T00:00:00Z"}') as PlainJson,
            JSON.parse('{"__proto__":null,"at":null}') as PlainJson,
            null
        ]
    ],
    [
        "map",
        mapOf(new arrow.Int64(), new Utf8()),
        [
            [
                [2n, "b"],
                [1n, null]
            ],
            [],
            null
        ],
        [
            [
                ["2", "b"],
                ["1", null]
            ],
            [],
            null
        ]
    ],
    [
        "sparse union",
        unionOf(arrow.UnionMode.Sparse),
        [
            [0, wide],
            [1, "x"],
            [1, null]
        ],
        [`${wide}`, "x", null]
    ],
    [
        "dense union",
        unionOf(arrow.UnionMode.Dense),
        [
            [1, "x"],
            [0, 5n],
            [0, null]
        ],
        ["x", "5", null]
    ]
];

describe("plainRows and plainValue", () => {
    test.each(cases)("%s", (_, type, values, expected) => {
        const batch = batchOf(type, values);
        const rows = plainRows(batch);
        expect(rows).toEqual(expected.map((c) => ({ c })));
        expect(JSON.parse(JSON.stringify(rows))).toEqual(rows);
        const vector = batch.getChildAt(0)!;
        expect(values.map((_, row) => plainValue(vector, row))).toEqual(expected);
        // A slice begins in the middle of bitmaps, offsets and children.
        for (let begin = 0; begin <= values.length; begin++) {
            expect(plainRows(batch.slice(begin))).toEqual(expected.slice(begin).map((c) => ({ c })));
        }
    });

    test.each(cases)("%s without rows, as Arrow JS reads it from a file", (_, type) => {
        const { schema } = batchOf(type, []);
        for (const format of ["file", "stream"] as const) {
            const table = arrow.tableFromIPC(arrow.tableToIPC(new arrow.Table(schema), format));
            expect(plainRows(table)).toEqual([]);
            expect(plainRows(new arrow.Table(schema))).toEqual([]);
        }
    });

    test("every column type of Arrow JS is among them", () => {
        const names = Object.keys(arrow.Type).filter((name) => /^[A-Z][a-z]/.test(name) && Number.isNaN(Number(name)));
        const own = new Set(cases.map(([, type]) => arrow.Type[type.typeId]));
        const general = names.filter((name) => (arrow.Type[name as "Int"] as number) > 0);
        expect(general.filter((name) => !own.has(name))).toEqual([]);
    });

    test("minus zero stays one, which JSON does not write", () => {
        const [row] = plainRows(tableFromArrays({ x: Float64Array.of(-0) }));
        expect(row!.x).toBe(-0);
        expect(JSON.stringify(row)).toBe('{"x":0}');
    });

    test("take tables of several batches, and rows of a query", async () => {
        await using runtime = await openRuntime({ threads: 1, memory: { host: "16MiB" } });
        const price = makeVector(
            buildData(new arrow.Decimal(2, 15, 128), [212230977n, 1n, -1n])
        ) as Vector<arrow.Decimal>;
        const table = new Table({ id: vectorFromArray([1, 1, 2], new Int32()), price });
        const query = runtime
            .fromTable(table)
            .groupBy({ keys: ["id"], aggregates: { sum: { sum: "price" }, n: { count: "*" } } });
        const rows = plainRows(await query.toTable()).sort((a, b) => a.id! - b.id!);
        expectTypeOf(rows).toEqualTypeOf<{ id: number | null; sum: string | null; n: string | null }[]>();
        expect(JSON.stringify(rows)).toBe('[{"id":1,"sum":"2122309.78","n":"2"},{"id":2,"sum":"-0.01","n":"1"}]');
        const both = new Table([...table.batches, ...table.slice(1).batches]);
        expect(plainRows(both).map(({ price }) => price)).toEqual(["2122309.77", "0.01", "-0.01", "0.01", "-0.01"]);
        const column = both.getChild("price")!;
        expect([0, 3, 4].map((row) => plainValue(column, row))).toEqual(["2122309.77", "0.01", "-0.01"]);
        expect(plainRows(tableFromIPC(tableToIPC(table)))).toEqual(plainRows(table));
    });

    test("columns that Arrow JS makes up are NULL", () => {
        const table = new Table({ a: vectorFromArray([1, 2], new Int32()), b: vectorFromArray(["x"], new Utf8()) });
        expect(plainRows(table)).toEqual([
            { a: 1, b: "x" },
            { a: 2, b: null }
        ]);
    });

    test("values of arrays that are frozen are the same", () => {
        const vector = vectorFromArray([1n, null, -3n]);
        vector.data.forEach(Object.freeze);
        expect([0, 1, 2, 0].map((index) => plainValue(vector, index))).toEqual(["1", null, "-3", "1"]);
    });

    test("names like numbers come first, as JavaScript has it; names twice are told", async () => {
        const [row] = plainRows(new Table({ b: vectorFromArray([1]), "1": vectorFromArray([2]) }));
        expect(Object.keys(row!)).toEqual(["1", "b"]);
        const schema = new Schema([nullable("a", new Int32()), nullable("a", new Int32())]);
        const children = [buildData(new Int32(), [1]), buildData(new Int32(), [2])];
        const data = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children });
        await expectError(() => plainRows(new RecordBatch(schema, data)), "DUPLICATE_COLUMN", "`a`", "plainValue");
    });

    test("what is no table, no vector or no row is refused", async () => {
        const vector = vectorFromArray([1, 2], new Int32());
        const table = new Table({ a: vector });
        for (const wrong of [undefined, null, 1, [], [table], vector, table.get(0)]) {
            await expectError(() => plainRows(wrong as never), "INVALID_ARGUMENT", "`rows`", "an Arrow table");
        }
        for (const wrong of [undefined, null, "a", [1], table, table.batches[0]]) {
            await expectError(() => plainValue(wrong as never, 0), "INVALID_ARGUMENT", "`vector`", "getChild");
        }
        for (const wrong of [-1, 2, 0.5, NaN, undefined]) {
            await expectError(() => plainValue(vector, wrong as number), "INVALID_ARGUMENT", "`index`", "from 0 to 1");
        }
        await expectError(() => plainValue(vectorFromArray([], new Int32()), 0), "INVALID_ARGUMENT", "`index`", "rows");
        expect(plainRows(table.slice(0, 0))).toEqual([]);
        expect(plainValue(new Vector([buildData(new Int32(), []), buildData(new Int32(), [7])]), 0)).toBe(7);
    });

    test("types say what comes", () => {
        type Row = PlainRow<{
            i: arrow.Int16;
            l: arrow.Int64;
            f: arrow.Float64;
            d: arrow.Decimal;
            at: arrow.TimestampNanosecond;
            of: arrow.Dictionary<Utf8>;
            list: List<arrow.Uint64>;
            inner: Struct<{ x: arrow.Bool }>;
            map: arrow.Map_<Utf8, arrow.Int8>;
            span: arrow.IntervalMonthDayNano;
            nothing: arrow.Null;
        }>;
        expectTypeOf<Row>().toEqualTypeOf<{
            i: number | null;
            l: string | null;
            f: number | "NaN" | "Infinity" | "-Infinity" | null;
            d: string | null;
            at: string | null;
            of: string | null;
            list: (string | null)[] | null;
            inner: { x: boolean | null } | null;
            map: [key: string | null, value: number | null][] | null;
            span: { months: number; days: number; nanoseconds: string } | null;
            nothing: null;
        }>();
        expectTypeOf<PlainValue>().toEqualTypeOf<PlainJson>();
        expectTypeOf<PlainRow>().toEqualTypeOf<{ [name: string]: PlainJson }>();
    });
});
