// SPDX-License-Identifier: Apache-2.0
// What --json and the printed table show for values that JavaScript's own types cannot hold.
import {
    DateDay,
    DateMillisecond,
    Dictionary,
    Field,
    Float16,
    Float64,
    Int32,
    IntervalDayTime,
    IntervalMonthDayNano,
    List,
    makeData,
    Map_,
    RecordBatch,
    Schema,
    Struct,
    TimeMillisecond,
    Timestamp,
    TimeUnit,
    Utf8,
    type DataType
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { dayText } from "../../../src/values/calendar.js";
import { cellText } from "../../../src/cli/render/cells.js";
import { columnReader } from "../../../src/values/readers.js";
import { buildData, type PlainValue } from "../../support/arrow-data.js";
import { jsonLines } from "./in-process.js";

function batchOf(type: DataType, values: readonly PlainValue[], name = "c"): RecordBatch {
    const schema = new Schema([new Field(name, type, true)]);
    const children = [buildData(type, values)];
    const data = makeData({ type: new Struct(schema.fields), length: values.length, nullCount: 0, children });
    return new RecordBatch(schema, data);
}

function cells(type: DataType, values: readonly PlainValue[]): string[] {
    const read = columnReader(batchOf(type, values), 0);
    return values.map((_, row) => cellText(read(row), 100).text);
}

const nanoseconds = new Timestamp(TimeUnit.NANOSECOND, null);
const zoned = new Timestamp(TimeUnit.MICROSECOND, "UTC");

describe("dates", () => {
    test("of all stored numbers are whole", () => {
        expect(cells(new DateDay(), [0, -1, 2147483647, -2147483648, 2932897, -800000, null])).toEqual([
            "1970-01-01",
            "1969-12-31",
            "+5881580-07-11",
            "-5877641-06-23",
            "+010000-01-01",
            "-000221-09-04",
            "NULL"
        ]);
        expect(cells(new DateMillisecond(), [9007199254740992000n, -1n, 86_399_999n])).toEqual([
            "+285428751-11-12",
            "1969-12-31",
            "1970-01-01"
        ]);
    });

    test("beyond JavaScript's range continue its calendar", () => {
        // The calendar repeats after 400 years, so a day far away is one that Date knows, with another year.
        const cycle = 146_097n;
        for (let day = -1000n; day < cycle; day += 97n) {
            const [year, month, date] = new Date(Number(day) * 86_400_000).toISOString().slice(0, 10).split("-");
            const far = (BigInt(year!) + 400_000n).toString();
            expect(dayText(day + cycle * 1000n)).toBe(`+${far}-${month}-${date}`);
        }
    });
});

describe("timestamps", () => {
    test("far away are dates too", () => {
        const seconds = new Timestamp(TimeUnit.SECOND, "UTC");
        expect(cells(seconds, [9223372036854775807n, -62167219201n, -9223372036854775808n])).toEqual([
            "+292277026596-12-04T15:30:07Z",
            "-000001-12-31T23:59:59Z",
            "-292277022657-01-27T08:29:52Z"
        ]);
    });

    test("inside of others keep their digits and say no zone they have not", () => {
        const at = 1700000000123456789n;
        const text = "2023-11-14T22:13:20.123456789";
        const struct = new Struct([new Field("at", nanoseconds, true), new Field("on", new DateDay(), true)]);
        expect(cells(struct, [[at, 2147483647], [null, 0], null])).toEqual([
            `{"at":"${text}","on":"+5881580-07-11"}`,
            '{"at":null,"on":"1970-01-01"}',
            "NULL"
        ]);
        const list = new List(new Field("item", nanoseconds, true));
        expect(cells(list, [[], [at, null], [at - 1n]])).toEqual([
            "[]",
            `["${text}",null]`,
            `["${text.slice(0, -1)}8"]`
        ]);
        expect(cells(new Dictionary(zoned, new Int32()), [1n, null, -1n, 1n])).toEqual([
            "1970-01-01T00:00:00.000001Z",
            "NULL",
            "1969-12-31T23:59:59.999999Z",
            "1970-01-01T00:00:00.000001Z"
        ]);
    });

    test("are keys of maps", () => {
        const entry = new Struct([new Field("key", nanoseconds, false), new Field("value", new Int32(), true)]);
        const map = new Map_(new Field("entries", entry as never, false));
        expect(cells(map, [[[1n, 7]], [], [[-1n, null]]])).toEqual([
            '{"1970-01-01T00:00:00.000000001":7}',
            "{}",
            '{"1969-12-31T23:59:59.999999999":null}'
        ]);
    });
});

test("-0 keeps its sign, wherever it is", () => {
    const list = new List(new Field("item", new Float64(), true));
    expect(cells(new Float64(), [-0, 0])).toEqual(["-0", "0"]);
    expect(cells(list, [[-0, 0]])).toEqual(["[-0,0]"]);
    expect(jsonLines(batchOf(new Float64(), [-0, 0, -1.5, 1e300]))).toBe(
        '{"c":-0}\n{"c":0}\n{"c":-1.5}\n{"c":1e+300}\n'
    );
    expect(jsonLines(batchOf(list, [[-0, 0, 1e-7]]))).toBe('{"c":[-0,0,1e-7]}\n');
    expect(jsonLines(batchOf(new Float16(), [-0, 0, NaN]))).toBe('{"c":-0}\n{"c":0}\n{"c":null}\n');
});

test("NaN and infinities are no missing values, wherever they are", () => {
    const list = new List(new Field("item", new Float64(), true));
    const struct = new Struct([new Field("x", new Float64(), true)]);
    expect(cells(list, [[NaN, 1.5, null, -Infinity]])).toEqual(["[NaN,1.5,null,-Infinity]"]);
    expect(cells(struct, [[Infinity], [null]])).toEqual(['{"x":Infinity}', '{"x":null}']);
    expect(jsonLines(batchOf(list, [[NaN, 1.5]]))).toBe('{"c":[null,1.5]}\n');
});

test("lists of structs show the items of their own row", () => {
    const item = new Struct([new Field("a", new Int32(), true), new Field("b", new Utf8(), true)]);
    const list = new List(new Field("item", item, true));
    expect(cells(list, [[[1, "x"]], [[2, "y"], null], [[3, null]]])).toEqual([
        '[{"a":1,"b":"x"}]',
        '[{"a":2,"b":"y"},null]',
        '[{"a":3,"b":null}]'
    ]);
});

test("every name of a column or field comes out, in order", () => {
    const struct = new Struct(["__proto__", "2", "1"].map((name) => new Field(name, new Int32(), true)));
    const batch = batchOf(struct, [[1, 2, 3]], "__proto__");
    expect(jsonLines(batch)).toBe('{"__proto__":{"__proto__":1,"2":2,"1":3}}\n');
});

test("times of day and intervals are no bare numbers", () => {
    expect(cells(new TimeMillisecond(), [47_109_250, null])).toEqual(["13:05:09.250", "NULL"]);
    expect(cells(new IntervalDayTime(), [3n | (7n << 32n)])).toEqual(['{"days":3,"milliseconds":7}']);
    const batch = batchOf(new IntervalMonthDayNano(), [BigInt.asUintN(128, (-5n << 64n) | (2n << 32n) | 1n)]);
    expect(jsonLines(batch)).toBe('{"c":{"months":1,"days":2,"nanoseconds":-5}}\n');
});
