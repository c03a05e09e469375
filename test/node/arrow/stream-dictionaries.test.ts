// SPDX-License-Identifier: Apache-2.0
// Which values of a stream's dictionaries are equal, when the one dictionary of the stream grows, and its codes.
import {
    Dictionary,
    Field,
    Int32,
    Int64,
    Int8,
    makeData,
    RecordBatch,
    Schema,
    Struct,
    Table,
    Uint8,
    Utf8,
    Vector,
    vectorFromArray,
    type Data,
    type DataType
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { StreamDictionaries, streamColumnTypes } from "../../../src/arrow/stream-dictionaries.js";
import { readCell } from "../../support/cells.js";

/** A stream of one dictionary column of these values. */
class Stream {
    readonly #type: Dictionary;
    readonly #schema: Schema;
    readonly #stream: StreamDictionaries;

    constructor(private readonly values: DataType) {
        this.#type = new Dictionary(values, new Int8(), 1);
        this.#schema = new Schema([new Field("d", this.#type, true)]);
        this.#stream = new StreamDictionaries(this.#schema);
    }

    words(values: readonly unknown[]): Vector {
        return vectorFromArray(values as never, this.values as never);
    }

    /** The column of a batch with these codes, as it comes out; by default each value once. */
    column(dictionary: Vector, codes: readonly number[] = Array.from(dictionary, (_, i) => i), nullRows = 0): Data {
        const [length, nullBitmap] = [codes.length, nullRows > 0 ? Uint8Array.of(~nullRows & 0xff) : undefined];
        const nullCount = nullRows > 0 ? 1 : 0;
        const data = makeData({
            type: this.#type,
            length,
            nullCount,
            nullBitmap,
            data: Int8Array.from(codes),
            dictionary
        });
        const struct = makeData({ type: new Struct(this.#schema.fields), length, nullCount: 0, children: [data] });
        const batch = this.#stream.unify(new RecordBatch(this.#schema, struct));
        expect(batch.numRows).toBe(length);
        expect(String(batch.schema)).toContain(String(new Dictionary(this.values, new Int32())));
        return batch.data.children[0]!;
    }
}

const codesOf = (column: Data): number[] => Array.from(column.values as Int32Array);
const cellsOf = (column: Data): string[] => Array.from({ length: column.length }, (_, row) => readCell(column, row));
const sizeOf = (column: Data): number => column.dictionary!.length;

describe("values of a stream's dictionaries", () => {
    test("are told from NULL, also where they have no bytes or bytes of 0", () => {
        for (const [type, empty] of [
            [new Utf8(), ""],
            [new Int32(), 0]
        ] as const) {
            const stream = new Stream(type);
            const cells = [JSON.stringify(empty), "NULL"];
            expect(cellsOf(stream.column(stream.words([empty, null])))).toEqual(cells);
            const turned = stream.column(stream.words([null, empty]));
            expect(codesOf(turned)).toEqual([1, 0]);
            expect([sizeOf(turned), cellsOf(turned)]).toEqual([2, cells.reverse()]);
        }
    });

    test.each<[string, DataType, unknown[]]>([
        ["of one byte", new Int8(), [1, 2, 3, 4]],
        ["of four bytes", new Int32(), [1, 256, 65536, -1]],
        ["of eight bytes", new Int64(), [1n, 2n ** 32n, 2n ** 62n, -1n]],
        ["of text", new Utf8(), ["a", "ab", "b", ""]]
    ])("%s are found again at any place", (_, type, values) => {
        const stream = new Stream(type);
        expect(codesOf(stream.column(stream.words(values)))).toEqual([0, 1, 2, 3]);
        const again = stream.column(stream.words([...values].reverse()));
        expect([codesOf(again), sizeOf(again)]).toEqual([[3, 2, 1, 0], 4]);
        const one = stream.column(stream.words(values.slice(2, 3)));
        expect([codesOf(one), sizeOf(one)]).toEqual([[2], 4]);
    });

    test("that only the engine can compare are all kept, those of one dictionary object once", () => {
        const stream = new Stream(new Struct([new Field("x", new Int32(), true)]));
        const [first, second] = [
            [{ x: 1 }, { x: 2 }],
            [{ x: 2 }, { x: 3 }]
        ].map((values) => stream.words(values));
        const cells = [cellsOf(stream.column(first!)), cellsOf(stream.column(second!))];
        expect(cells[0]).toHaveLength(2);
        expect(cells[0]![1]).toBe(cells[1]![0]);
        expect(new Set(cells.flat()).size).toBe(3);
        for (let i = 0; i < 3; i++) {
            for (const [words, codes] of [
                [first!, [0, 1]],
                [second!, [2, 3]]
            ] as const) {
                const column = stream.column(words);
                expect([codesOf(column), sizeOf(column)]).toEqual([codes, 4]);
            }
        }
        expect(sizeOf(stream.column(stream.words([{ x: 1 }])))).toBe(5);
    });

    test("come from a dictionary in several parts, by which it is known", () => {
        const stream = new Stream(new Struct([new Field("x", new Int32(), true)]));
        const [a, b, c] = [1, 2, 3].map((x) => stream.words([{ x }]).data[0]!);
        // Each begins or ends like one before it, and is another one.
        for (const [parts, codes] of [
            [
                [a, b],
                [0, 1]
            ],
            [[a], [2]],
            [
                [a, c],
                [3, 4]
            ],
            [
                [a, b, c],
                [5, 6, 7]
            ],
            [
                [c, b],
                [8, 9]
            ],
            [
                [a, b],
                [0, 1]
            ],
            [
                [a, c],
                [3, 4]
            ]
        ] as const) {
            expect(codesOf(stream.column(new Vector([...parts] as Data[])))).toEqual(codes);
        }
    });
});

describe("codes of a stream's dictionaries", () => {
    test("that no dictionary has are left for the engine to refuse, but for NULL rows", () => {
        const stream = new Stream(new Utf8());
        expect(codesOf(stream.column(stream.words(["a", "b"]), [0, 7]))).toEqual([0, 7]);
        // Row 1 is NULL.
        expect(codesOf(stream.column(stream.words(["b", "a"]), [0, 7, 7, 1], 0b10))).toEqual([1, 0, -1, 0]);
    });

    test("are of four bytes with a sign, in columns and parts of them; all else is as it was", () => {
        const type = new Dictionary(new Utf8(), new Uint8(), 1);
        const within = new Struct([new Field("d", type, true), new Field("x", new Int8(), true)]);
        const schema = new Schema([new Field("d", type, true), new Field("s", within, true)]);
        const [first, second] = streamColumnTypes(schema);
        const signed = { layout: "dictionary", byteWidth: 4, indexSigned: true };
        expect(first).toMatchObject(signed);
        expect(second!.children).toMatchObject([signed, { layout: "fixed", byteWidth: 1 }]);
        const words = vectorFromArray(["a", "b"], new Utf8());
        const coded = makeData({ type, length: 1, nullCount: 0, data: Uint8Array.of(1), dictionary: words });
        const bytes = makeData({ type: new Int8(), length: 1, nullCount: 0, data: Int8Array.of(5) });
        const pair = makeData({ type: within, length: 1, nullCount: 0, children: [coded, bytes] });
        const struct = makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children: [coded, pair] });
        const [top, nested] = new StreamDictionaries(schema).unify(new RecordBatch(schema, struct)).data.children;
        for (const data of [top!, nested!.children[0]!]) {
            expect(data.values).toEqual(Int32Array.of(1));
            expect(readCell(data, 0)).toBe('"b"');
        }
        expect(nested!.children[1]).toBe(bytes);
    });

    test("a batch without any is the same batch", () => {
        const { schema, batches } = new Table({ n: vectorFromArray([1, 2], new Int32()) });
        expect(new StreamDictionaries(schema).unify(batches[0]!)).toBe(batches[0]);
    });
});
