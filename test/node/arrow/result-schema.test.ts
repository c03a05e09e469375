// SPDX-License-Identifier: Apache-2.0
// The types of results: which become others, and that the rest stay the very types that came in.
import {
    BinaryView,
    DataType,
    DateDay,
    DenseUnion,
    Dictionary,
    Field,
    FixedSizeList,
    Int32,
    Int8,
    LargeList,
    List,
    Map_,
    SparseUnion,
    Struct,
    TimestampNanosecond,
    Utf8,
    Utf8View
} from "apache-arrow";
import { expect, test } from "vitest";
import { resultSchema } from "../../../src/arrow/result-type.js";

const field = (name: string, type: DataType): Field => new Field(name, type, true);
const resultOf = (type: DataType): DataType => resultSchema([field("c", type)]).fields[0]!.type as DataType;
const view = [field("item", new Utf8View())];
const entries = new Struct([new Field("key", new Utf8View(), false), field("value", new BinaryView())]);

test.each<[string, DataType, string]>([
    ["a view of text", new Utf8View(), "Utf8"],
    ["a view of bytes", new BinaryView(), "Binary"],
    ["a list", new List(view[0]!), "List<Utf8>"],
    ["a large list", new LargeList(view[0]!), "LargeList<Utf8>"],
    ["a fixed list", new FixedSizeList(3, view[0]!), "FixedSizeList[3]<Utf8>"],
    ["a struct", new Struct(view), "Struct<{item:Utf8}>"],
    ["a map", new Map_(field("entries", entries) as never, true), "Map<{key:Utf8, value:Binary}>"],
    ["a sparse union", new SparseUnion([5], view), "Union<Utf8>"],
    ["a dense union", new DenseUnion([5], view), "Union<Utf8>"],
    ["a dictionary", new Dictionary(new Utf8View(), new Int8(), 9, true), "Dictionary<Int32, Utf8>"]
])("%s has no views in results", (_, type, expected) => {
    const result = resultOf(type);
    expect(String(result)).toBe(expected);
    if (DataType.isUnion(type)) expect(result).toMatchObject({ mode: type.mode, typeIds: Int32Array.of(5) });
    if (DataType.isMap(type)) expect(result).toMatchObject({ keysSorted: true });
    // Values come in the order in which they were met.
    if (DataType.isDictionary(type)) expect(result).toMatchObject({ isOrdered: false });
});

test("a type without children is the very type that came in", () => {
    for (const type of [new DateDay(), new TimestampNanosecond("Europe/Berlin"), new Int8(), new Utf8()]) {
        expect(resultOf(type)).toBe(type);
    }
});

test("fields keep their names, metadata and whether they may be NULL", () => {
    const metadata = new Map([["unit", "metres"]]);
    const inner = new Field("inner", new Utf8View(), false, metadata);
    const [outer] = resultSchema([new Field("outer", new Struct([inner]), true, new Map([["a", "b"]]))]).fields;
    expect(outer).toMatchObject({ name: "outer", nullable: true, metadata: new Map([["a", "b"]]) });
    expect((outer!.type as Struct).children[0]).toMatchObject({ name: "inner", nullable: false, metadata });
});

test("dictionaries are numbered from 0, each before those inside of it", () => {
    const text = (id: number): Dictionary => new Dictionary(new Utf8(), new Int8(), id);
    const lists = new Dictionary(new List(field("item", text(7))), new Int32(), 7);
    const types = [
        text(7),
        new Struct([field("x", text(7)), field("y", lists)]),
        new SparseUnion([0, 1], [field("p", new Int32()), field("q", text(3))]),
        text(3)
    ];
    const ids: number[] = [];
    const visit = (type: DataType): void => {
        if (DataType.isDictionary(type)) {
            ids.push(type.id);
            visit(type.dictionary as DataType);
        } else {
            (type.children as Field[] | undefined)?.forEach((child) => visit(child.type as DataType));
        }
    };
    resultSchema(types.map((type, i) => field(`c${i}`, type))).fields.forEach((one) => visit(one.type as DataType));
    expect(ids).toEqual([0, 1, 2, 3, 4, 5]);
});
