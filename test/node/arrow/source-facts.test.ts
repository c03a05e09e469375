// SPDX-License-Identifier: Apache-2.0
// Rows, bytes and NULLs of a relation in memory, counted by hand.
import {
    Binary,
    BinaryView,
    Bool,
    Dictionary,
    Field,
    Int32,
    Int8,
    List,
    makeData,
    Null,
    RecordBatch,
    Schema,
    Struct,
    Utf8,
    Vector,
    type Data
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { memoryLayout } from "../../../src/arrow/memory-layout.js";
import { narrowNullability, sourceFacts } from "../../../src/arrow/source-facts.js";
import type { SourceLayout } from "../../../src/model/column-type.js";

/** Batches whose columns are these data, with the types of the first batch. */
function layoutOf(batches: readonly Data[][], types = batches[0]!.map(({ type }) => type)): SourceLayout {
    const schema = new Schema(types.map((type, i) => new Field(`c${i}`, type, true)));
    const columns = schema.fields.map((field) => columnTypeOf(field));
    const records = batches.map((children) => {
        const { length } = children[0]!;
        const struct = makeData({ type: new Struct(schema.fields), length, nullCount: 0, children });
        return new RecordBatch(schema, struct);
    });
    return memoryLayout(columns, records, "always");
}

/** Int32 values, 4 bytes each; with NULLs a bitmap of one byte more. */
function numbers(length: number, nullCount = 0): Data {
    const nullBitmap = nullCount > 0 ? Uint8Array.of((0xff << nullCount) & 0xff) : undefined;
    return makeData({ type: new Int32(), length, nullCount, nullBitmap, data: new Int32Array(length) });
}

/** Texts of one byte each: 4 bytes of offsets more than 5 bytes a row. */
function texts(length: number, nullCount = 0): Data {
    const valueOffsets = Int32Array.from({ length: length + 1 }, (_, row) => row);
    const nullBitmap = nullCount > 0 ? Uint8Array.of((0xff << nullCount) & 0xff) : undefined;
    return makeData({ type: new Utf8(), length, nullCount, nullBitmap, valueOffsets, data: Buffer.alloc(length, 97) });
}

const wordType = new Dictionary(new Utf8(), new Int8(), 1);
const wordsOf = (...chunks: Data[]): Vector => new Vector(chunks);

/** Codes of one byte each. */
function coded(length: number, dictionary: Vector): Data {
    return makeData({ type: wordType, length, nullCount: 0, data: new Int8Array(length), dictionary });
}

function views(length: number, ...variadic: number[]): Data {
    const variadicBuffers = variadic.map((bytes) => new Uint8Array(bytes));
    const data = new Uint8Array(16 * length);
    return makeData({ type: new BinaryView(), length, nullCount: 0, data, variadicBuffers } as never) as Data;
}

const nothing = (length: number): Data => makeData({ type: new Null(), length });

function pairs(length: number, first: Data, second: Data): Data {
    const type = new Struct([new Field("x", first.type, true), new Field("y", second.type, true)]);
    return makeData({ type, length, nullCount: 0, children: [first, second] });
}

describe("the sizes of a relation in memory", () => {
    test("without batches are 0 in every column", () => {
        expect(sourceFacts(layoutOf([], [new Int32(), new Utf8(), wordType]))).toEqual({
            ...{ rows: 0, largestBatchRows: 0 },
            ...{ columnBytes: [0, 0, 0], dictionaryBytes: [0, 0, 0], dictionaryRows: [0, 0, 0] }
        });
    });

    test("are those of all buffers of all batches, by column", () => {
        const layout = layoutOf([
            [numbers(3), nothing(3), texts(3), numbers(3, 1)],
            [numbers(5), nothing(5), texts(5, 2), numbers(5)],
            [numbers(1), nothing(1), texts(1), numbers(1)]
        ]);
        expect(sourceFacts(layout)).toEqual({
            ...{ rows: 9, largestBatchRows: 5 },
            columnBytes: [36, 0, 57 + 1, 36 + 1],
            ...{ dictionaryBytes: [0, 0, 0, 0], dictionaryRows: [0, 0, 0, 0] }
        });
    });

    test("of nested columns are those of all of their parts", () => {
        const list = makeData({
            type: new List(new Field("item", new Int32(), true)),
            ...{ length: 2, nullCount: 0, valueOffsets: Int32Array.of(0, 1, 4), child: numbers(4) as never }
        }) as Data;
        const bools = makeData({ type: new Bool(), length: 2, nullCount: 0, data: Uint8Array.of(3) });
        const layout = layoutOf([[list, bools, pairs(2, numbers(2, 1), texts(2)), numbers(2)]]);
        expect(sourceFacts(layout).columnBytes).toEqual([12 + 16, 1, 8 + 1 + 14, 8]);
    });

    test("of views are those of their data buffers, too, as many as each column has", () => {
        const layout = layoutOf([
            [numbers(2), views(2, 100, 20), views(2), views(2, 3), numbers(2)],
            [numbers(1), views(1), views(1, 1000), views(1, 5, 6, 7), numbers(1)]
        ]);
        expect(sourceFacts(layout).columnBytes).toEqual([12, 48 + 120, 48 + 1000, 48 + 3 + 18, 12]);
    });

    test("of dictionaries are counted once, in the column that has them first", () => {
        const shared = wordsOf(texts(10));
        const grown = wordsOf(texts(10), texts(2));
        const layout = layoutOf([
            [coded(4, shared), numbers(4), coded(4, wordsOf(texts(3))), coded(4, shared)],
            [coded(6, shared), numbers(6), coded(6, wordsOf(texts(5))), coded(6, grown)]
        ]);
        expect(sourceFacts(layout)).toEqual({
            ...{ rows: 10, largestBatchRows: 6 },
            columnBytes: [10, 40, 10, 10],
            dictionaryBytes: [54, 0, 19 + 29, 54 + 14],
            dictionaryRows: [10, 0, 3 + 5, 12]
        });
    });

    test("of dictionaries in nested columns are found", () => {
        const inner = pairs(2, numbers(2), coded(2, wordsOf(texts(4))));
        const facts = sourceFacts(layoutOf([[coded(2, wordsOf(texts(1))), inner, coded(2, wordsOf(texts(2)))]]));
        expect(facts.columnBytes).toEqual([2, 10, 2]);
        expect(facts.dictionaryBytes).toEqual([9, 24, 14]);
        expect(facts.dictionaryRows).toEqual([1, 4, 2]);
    });
});

describe("a column in memory may be NULL", () => {
    const nullable = (...batches: Data[][]): boolean[] =>
        narrowNullability(layoutOf(batches)).map((column) => column.nullable);

    test("where some batch has a NULL in it, or it is of nothing else", () => {
        expect(nullable([numbers(3), numbers(3), nothing(3), texts(3)])).toEqual([false, false, true, false]);
        expect(nullable([numbers(0), nothing(0)])).toEqual([false, true]);
        expect(nullable([numbers(3), numbers(3, 2)], [numbers(2), numbers(2)])).toEqual([false, true]);
        expect(nullable([texts(3), numbers(3)], [texts(2, 1), numbers(2)])).toEqual([true, false]);
    });

    test("where some value of its own dictionary is NULL", () => {
        const [plain, some, late] = [[texts(3)], [texts(3, 1)], [texts(3), texts(2, 1)]].map((of) => wordsOf(...of));
        for (const [dictionaries, expected] of [
            [
                [plain, plain, plain],
                [false, false, false]
            ],
            [
                [some, plain, plain],
                [true, false, false]
            ],
            [
                [plain, some, plain],
                [false, true, false]
            ],
            [
                [plain, plain, late],
                [false, false, true]
            ]
        ] as const) {
            const [first, second, third] = dictionaries.map((words) => coded(2, words!));
            const columns = [numbers(2), first!, numbers(2), second!, third!];
            expect(nullable(columns)).toEqual([false, expected[0], false, expected[1], expected[2]]);
            // In the second batch alone.
            const before = columns.map((data) => (data.dictionary ? coded(2, plain!) : numbers(2)));
            expect(nullable(before, columns)).toEqual([false, expected[0], false, expected[1], expected[2]]);
        }
    });

    test("in parts of it alone", () => {
        const some = coded(2, wordsOf(texts(1, 1)));
        const layout = layoutOf([[pairs(2, numbers(2), some), pairs(2, numbers(2, 1), numbers(2)), numbers(2)]]);
        const [first, second, third] = narrowNullability(layout);
        const parts = (column = first): (boolean | undefined)[] => [
            column?.nullable,
            ...(column?.children ?? []).map((child) => child.nullable)
        ];
        expect(parts(first)).toEqual([false, false, true]);
        expect(parts(second)).toEqual([false, true, false]);
        expect(parts(third)).toEqual([false]);
        // The type of a dictionary's values is no node of the batch.
        expect(first!.children[1]!.children).toEqual(layout.columns[0]!.children[1]!.children);
    });

    test("nowhere in a relation without batches", () => {
        const columns = narrowNullability(layoutOf([], [new Binary(), new Null(), wordType]));
        expect(columns.map((column) => column.nullable)).toEqual([false, false, false]);
    });
});
