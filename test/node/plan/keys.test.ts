// SPDX-License-Identifier: Apache-2.0
// Which key types compare, how they are normalized, and what a join's columns are.
import {
    Binary,
    Bool,
    DateDay,
    DateMillisecond,
    Decimal,
    Dictionary,
    DurationMillisecond,
    DurationSecond,
    FixedSizeBinary,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Int8,
    LargeUtf8,
    List,
    Field,
    TimeMillisecond,
    TimestampMillisecond,
    TimestampSecond,
    Uint32,
    Uint64,
    Uint8,
    Utf8,
    Utf8View,
    type DataType
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { logicalSchema } from "../../../src/plan/logical.js";
import { group, inputNode, join } from "../../support/planning.js";

const keyOf = (left: DataType, right: DataType) =>
    join(inputNode({ l: left }), inputNode({ r: right }), { on: { l: "r" } }).keys[0]!;

describe("keys that compare", () => {
    test.each([
        ["equal integers", new Int32(), new Int32(), "integer", 4],
        ["integers of two widths", new Int8(), new Int64(), "integer", 8],
        ["signed and unsigned, one size up", new Int8(), new Uint8(), "integer", 2],
        ["signed and unsigned at 32 bits", new Int16(), new Uint32(), "integer", 8],
        ["unsigned 64", new Uint64(), new Uint8(), "integer", 8],
        ["booleans", new Bool(), new Bool(), "integer", 1],
        ["floats of two widths", new Float32(), new Float64(), "float", 8],
        ["text of three kinds", new Utf8View(), new LargeUtf8(), "bytes", 0],
        ["bytes", new Binary(), new Binary(), "bytes", 0],
        ["days", new DateDay(), new DateDay(), "integer", 4],
        ["times of day", new TimeMillisecond(), new TimeMillisecond(), "integer", 4],
        ["instants of two zones", new TimestampSecond("UTC"), new TimestampSecond("Europe/Paris"), "integer", 8],
        ["durations", new DurationSecond(), new DurationSecond(), "integer", 8],
        ["decimals of two precisions", new Decimal(2, 10, 128), new Decimal(2, 38, 128), "fixedBytes", 16],
        ["fixed-size bytes", new FixedSizeBinary(5), new FixedSizeBinary(5), "fixedBytes", 5]
    ])("%s", (_, left, right, kind, width) => {
        const { left: l, right: r } = keyOf(left, right);
        expect([l.kind, l.width, r.kind, r.width]).toEqual([kind, width, kind, width]);
    });

    test("dictionaries by their values, on one or both sides", () => {
        const dictionary = new Dictionary(new Utf8(), new Int32());
        expect(keyOf(dictionary, new Utf8())).toMatchObject({
            left: { kind: "dictionaryValue", kindOfValue: "bytes" },
            right: { kind: "bytes" }
        });
        expect(keyOf(dictionary, new Dictionary(new LargeUtf8(), new Int8()))).toMatchObject({
            left: { kind: "dictionaryValue" },
            right: { kind: "dictionaryValue" }
        });
        expect(group(inputNode({ d: dictionary }), { keys: ["d"] }).keys[0]).toMatchObject({
            kind: "dictionaryIndex",
            width: 4
        });
    });
});

describe("keys that do not", () => {
    test.each([
        ["number and text", new Int32(), new Utf8(), /one type, where the table, file or batches are made$/],
        ["signed and unsigned 64", new Int64(), new Uint64(), /make `r` of the right an Int64, where the table/],
        ["unsigned and signed 64", new Uint64(), new Int64(), /make `l` of the left an Int64, where the table/],
        ["integer and float", new Int32(), new Float64(), /where the table, file or batches are made/],
        ["text and bytes", new Utf8(), new Binary(), /where the table, file or batches are made/],
        ["dates of two units", new DateDay(), new DateMillisecond(), /units differ/],
        ["timestamps of two units", new TimestampSecond(), new TimestampMillisecond(), /units differ/],
        ["a zone and none", new TimestampSecond("UTC"), new TimestampSecond(), /time zone/],
        ["durations of two units", new DurationSecond(), new DurationMillisecond(), /units differ/],
        [
            "decimals of two scales",
            new Decimal(2, 10, 128),
            new Decimal(3, 10, 128),
            /`l` \(Decimal128\(10, 2\)\).*scales differ/
        ],
        ["decimals of two widths", new Decimal(2, 10, 128), new Decimal(2, 10, 256), /widths differ/],
        ["bytes of two widths", new FixedSizeBinary(5), new FixedSizeBinary(6), /widths differ/]
    ])("%s", (_, left, right, advice) => {
        expect(() => keyOf(left, right)).toThrow(
            expect.objectContaining({
                code: "KEY_TYPE_MISMATCH",
                message: expect.stringMatching(advice) as string
            }) as Error
        );
        expect(() => keyOf(left, right)).toThrow(/`l`.*`r`/);
    });

    test("nested ones, in joins and groups", () => {
        const list = new List(new Field("item", new Int32(), true));
        expect(() => keyOf(list, list)).toThrow(/cannot be a key/);
        expect(() => group(inputNode({ l: list }), { keys: ["l"] })).toThrow(/cannot be a key/);
    });
});

describe("columns", () => {
    const left = inputNode({ k: new Int32(), a: new Utf8View(), x: new Int32() });
    const right = inputNode({ k: new Int64(), b: new Dictionary(new Utf8(), new Int8(), 40), x: new Float64() });
    const columnsOf = (options: object) =>
        join(left, right, options).columns.map(({ name, side, field }) => `${name}:${side}:${field.nullable}`);

    test("of the join types", () => {
        expect(columnsOf({ on: "k" })).toEqual([
            "k:left:false",
            "a:left:false",
            "x:left:false",
            "b:right:false",
            "x_right:right:false"
        ]);
        expect(columnsOf({ on: "k", type: "left" }).slice(3)).toEqual(["b:right:true", "x_right:right:true"]);
        expect(columnsOf({ on: "k", type: "right" }).slice(0, 3)).toEqual([
            "k:right:false",
            "a:left:true",
            "x:left:true"
        ]);
        expect(columnsOf({ on: "k", type: "semi" })).toEqual(["k:left:false", "a:left:false", "x:left:false"]);
        expect(columnsOf({ on: { x: "k" }, suffix: "_2" }).map((name) => name.split(":")[0])).toEqual([
            "k",
            "a",
            "x",
            "k_2",
            "b",
            "x_2"
        ]);
    });

    test("a full join's shared key needs one type", () => {
        expect(() => join(left, right, { on: "k", type: "full" })).toThrow(/one column.*Int32.*Int64.*another name/);
        const other = inputNode({ k: new Int32(), z: new Int32() });
        expect(join(left, other, { on: "k", type: "full" }).columns[0]).toMatchObject({ name: "k", side: "either" });
    });

    test.each([
        ["signed and unsigned: 4294967295 would become -1", new Int32(), new Uint32()],
        ["unsigned and signed", new Uint8(), new Int8()],
        ["two widths", new Int32(), new Int64()],
        ["text and large text", new Utf8(), new LargeUtf8()]
    ])("a full join's shared key cannot hold %s", (_, left, right) => {
        const node = () => join(inputNode({ k: left }), inputNode({ k: right }), { on: "k", type: "full" });
        expect(node).toThrow(expect.objectContaining({ code: "KEY_TYPE_MISMATCH" }) as Error);
        for (const type of ["inner", "left", "right", "semi", "anti"]) {
            expect(() => join(inputNode({ k: left }), inputNode({ k: right }), { on: "k", type })).not.toThrow();
        }
    });

    test("a full join's shared key holds dictionaries of one layout that are there to be linked", () => {
        const full = (left: DataType, right: DataType, streamed = false) =>
            join(inputNode({ k: left }), inputNode({ k: right }, { streamed }), { on: "k", type: "full" });
        const dictionary = (type: Utf8 | LargeUtf8 | Binary) => new Dictionary(type, new Int32());
        expect(full(dictionary(new Utf8()), dictionary(new Utf8())).columns[0]).toMatchObject({ side: "either" });
        const refused = expect.objectContaining({ code: "KEY_TYPE_MISMATCH" }) as Error;
        expect(() => full(dictionary(new Utf8()), dictionary(new LargeUtf8()))).toThrow(refused);
        expect(() => full(dictionary(new Utf8()), new Utf8())).toThrow(refused);
        expect(() => full(dictionary(new Utf8()), dictionary(new Utf8()), true)).toThrow(refused);
    });

    test("a full join's shared key of a stream's dictionary names the stream as the reason", () => {
        const words = new Dictionary(new Utf8(), new Int8());
        const full = (left: boolean, right: boolean, type: DataType = words) => {
            const sides = [left, right].map((streamed) => inputNode({ k: type }, { streamed }));
            return () => join(sides[0]!, sides[1]!, { on: "k", type: "full" });
        };
        expect(full(true, true)).toThrow(/one dictionary for both, but both sides are streams .*another name/);
        expect(full(true, false)).toThrow(/but the left is a stream .* collect the batches in a table or file/);
        expect(full(false, true)).toThrow(/but the right is a stream/);
        expect(full(true, true, new Utf8())).not.toThrow();
    });

    test("a full join's shared key of decimals has the larger precision", () => {
        const typeOf = (type: string, left: DataType, right: DataType) =>
            String(join(inputNode({ k: left }), inputNode({ k: right }), { on: "k", type }).columns[0]!.field.type);
        const [narrow, wide] = [new Decimal(2, 10, 128), new Decimal(2, 30, 128)];
        expect(typeOf("full", narrow, wide)).toBe("Decimal[30e+2]");
        expect(typeOf("full", wide, narrow)).toBe("Decimal[30e+2]");
        expect(typeOf("left", narrow, wide)).toBe("Decimal[10e+2]");
        expect(typeOf("right", narrow, wide)).toBe("Decimal[30e+2]");
        const words = (type: DataType) => new Dictionary(type, new Int8());
        expect(typeOf("full", words(narrow), words(wide))).toContain("Decimal[30e+2]");
    });

    test("come out as plain text and Int32 codes, each dictionary with an id of its own", () => {
        const twice = join(join(left, right, { on: "k" }), right, { on: "k", suffix: "_3" });
        const types = logicalSchema(twice).fields.map(({ name, type }) => `${name} ${String(type)}`);
        expect(types).toContain("a Utf8");
        expect(types).toContain("b Dictionary<Int32, Utf8>");
        const ids = [...logicalSchema(twice).dictionaries.keys()];
        expect(ids).toEqual([0, 1]);
    });

    test("select picks and orders; clashes that stay are refused", () => {
        expect(columnsOf({ on: "k", select: ["x_right", "a"] }).map((name) => name.split(":")[0])).toEqual([
            "x_right",
            "a"
        ]);
        expect(() => columnsOf({ on: "k", suffix: "" })).toThrow(/two columns `x`.*suffix/);
        expect(() => columnsOf({ on: "k", select: ["x_rigth"] })).toThrow(/did you mean `x_right`/);
    });
});

describe("aggregates", () => {
    const rows = inputNode({
        i: new Int8(),
        u: new Uint32(),
        f: new Float32(),
        d: new Decimal(2, 10, 128),
        d32: new Decimal(2, 9, 32),
        d64: new Decimal(2, 18, 64),
        d256: new Decimal(2, 40, 256),
        t: new Utf8(),
        s: new DurationSecond(),
        c: new Dictionary(new Int64(), new Int8())
    });
    const typeOf = (aggregate: object): string =>
        String(group(rows, { aggregates: { x: aggregate } }).columns[0]!.field.type);

    test.each([
        [{ sum: "i" }, "Int64"],
        [{ sum: "u" }, "Uint64"],
        [{ sum: "f" }, "Float64"],
        [{ sum: "d" }, "Decimal[38e+2]"],
        [{ sum: "d32" }, "Decimal[38e+2]"],
        [{ sum: "d64" }, "Decimal[38e+2]"],
        [{ sum: "d256" }, "Decimal[76e+2]"],
        [{ sum: "s" }, "Duration<SECOND>"],
        [{ sum: "c" }, "Int64"],
        [{ mean: "i" }, "Float64"],
        [{ mean: "d" }, "Float64"],
        [{ min: "t" }, "Utf8"],
        [{ max: "c" }, "Dictionary<Int32, Int64>"],
        [{ first: "t" }, "Utf8"],
        [{ count: "*" }, "Int64"],
        [{ countDistinct: "t" }, "Int64"]
    ])("%j is %s", (aggregate, type) => {
        expect(logicalSchema(group(rows, { aggregates: { x: aggregate } })).fields).toHaveLength(1);
        expect(type.startsWith("Dictionary") ? typeOf(aggregate).replace("Int8", "Int32") : typeOf(aggregate)).toBe(
            type
        );
    });

    test.each([[{ sum: "t" }], [{ mean: "t" }], [{ mean: "s" }]])("%j is refused", (aggregate) => {
        expect(() => typeOf(aggregate)).toThrow(expect.objectContaining({ code: "UNSUPPORTED_TYPE" }) as Error);
    });
});
