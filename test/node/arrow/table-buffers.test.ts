// SPDX-License-Identifier: Apache-2.0
// The buffers of a table as the engine is told of them: what is missing is filled in, what is whole stays as it is.
import {
    Bool,
    DenseUnion,
    Dictionary,
    Field,
    FixedSizeList,
    Float64,
    Int32,
    Int8,
    LargeUtf8,
    List,
    makeData,
    Map_,
    RecordBatch,
    Schema,
    SparseUnion,
    Struct,
    Table,
    Utf8,
    Vector,
    vectorFromArray,
    type Data,
    type DataType
} from "apache-arrow";
import { openRuntime } from "spillway";
import { describe, expect, test } from "vitest";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { memoryLayout, recordBatchesOf } from "../../../src/arrow/memory-layout.js";
import type { BatchLayout, SourceLayout } from "../../../src/model/column-type.js";
import { cellTable } from "../../support/cells.js";
import { layoutCells } from "../../support/layout-cells.js";

const field = (name: string, type: DataType): Field => new Field(name, type, true);
const make = (parts: Record<string, unknown>): Data => makeData(parts as never);

function batchOf(child: Data, length = child.length): RecordBatch {
    const schema = new Schema([field("c", child.type)]);
    return new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length, children: [child] }));
}

const layoutOf = (...batches: RecordBatch[]): SourceLayout =>
    memoryLayout(
        batches[0]!.schema.fields.map((one) => columnTypeOf(one)),
        batches,
        "always"
    );

const onlyBatch = (batch: RecordBatch): BatchLayout => layoutOf(batch).batches[0]!;
/** Each buffer as plain numbers. */
const bytesOf = ({ memory }: BatchLayout): (number[] | null)[] => memory.map((bytes) => bytes && [...bytes]);
/** Triples of length, NULLs and bit offset, one for each node. */
const nodesOf = ({ nodes }: BatchLayout): number[][] =>
    Array.from({ length: nodes.length / 3 }, (_, i) => [...nodes.slice(i * 3, i * 3 + 3)]);

describe("a column as it is", () => {
    test("has a bitmap where it has NULLs", () => {
        const column = (nulls: Record<string, unknown>): BatchLayout =>
            onlyBatch(batchOf(make({ type: new Int8(), length: 3, data: Int8Array.of(1, 2, 3), ...nulls })));
        expect(bytesOf(column({}))).toEqual([null, [1, 2, 3]]);
        expect(bytesOf(column({ nullCount: 0, nullBitmap: Uint8Array.of(7) }))).toEqual([null, [1, 2, 3]]);
        expect(bytesOf(column({ nullCount: 1, nullBitmap: Uint8Array.of(5) }))).toEqual([[5], [1, 2, 3]]);
    });

    test("is not copied, but for nothing that is missing", () => {
        const valueOffsets = Int32Array.of(0, 1, 3);
        const text = make({ type: new Utf8(), length: 2, valueOffsets, data: Uint8Array.of(97, 98, 99) });
        const bits = make({ type: new Bool(), length: 12, data: Uint8Array.of(255, 15) });
        expect(onlyBatch(batchOf(text)).memory[1]!.buffer).toBe(valueOffsets.buffer);
        expect(onlyBatch(batchOf(bits)).memory[1]!.buffer).toBe((bits.values as Uint8Array).buffer);
        expect(bytesOf(onlyBatch(batchOf(bits)))).toEqual([null, [255, 15]]);
    });

    test("of bits begins in the middle of a byte where it is a slice", () => {
        const bits = make({ type: new Bool(), length: 8, data: Uint8Array.of(0b1010_0110) }).slice(3, 5);
        const layout = onlyBatch(batchOf(bits));
        expect([nodesOf(layout), bytesOf(layout)]).toEqual([[[5, 0, 3]], [null, [0b1010_0110]]]);
        // Twelve rows from bit 3 on end in the second byte.
        const short = make({ type: new Bool(), offset: 3, length: 12, data: Uint8Array.of(255) });
        expect(bytesOf(onlyBatch(batchOf(short)))).toEqual([null, [255, 0]]);
    });

    test("may be a vector in a batch of an object of vectors", () => {
        const batch = new RecordBatch({ c: vectorFromArray([1, 2], new Int8()) } as never);
        expect(layoutCells(layoutOf(batch), [new Int8()])).toEqual([["1", "2"]]);
    });
});

describe("rows that Arrow JS padded a column with", () => {
    const item = field("item", new Int8());
    const int32Bytes = (...values: number[]): number[] => [...new Uint8Array(Int32Array.from(values).buffer)];

    test("are empty texts, whatever the width of their offsets", () => {
        const text = { length: 2, data: Uint8Array.of(97, 98, 99) };
        const small = make({ ...text, type: new Utf8(), valueOffsets: Int32Array.of(0, 1, 3) });
        const large = make({ ...text, type: new LargeUtf8(), valueOffsets: BigInt64Array.of(0n, 1n, 3n) });
        const [bitmap, offsets, values] = bytesOf(onlyBatch(batchOf(small, 4)));
        expect([bitmap![0], offsets, values]).toEqual([3, int32Bytes(0, 1, 3, 3, 3), [97, 98, 99]]);
        const [, wide] = onlyBatch(batchOf(large, 4)).memory;
        expect(new BigInt64Array(wide!.buffer)).toEqual(BigInt64Array.of(0n, 1n, 3n, 3n, 3n));
        const none = make({ type: new Utf8(), length: 3, nullCount: 3, nullBitmap: new Uint8Array(8) });
        expect(bytesOf(onlyBatch(batchOf(none)))[1]).toEqual(int32Bytes(0, 0, 0, 0));
    });

    test.each<[string, DataType, number[][], (number[] | null)[]]>([
        ["lists", new List(item), [[0, 0, 0]], [int32Bytes(0, 0, 0, 0), null, []]],
        ["fixed lists", new FixedSizeList(2, item), [[6, 6, 0]], [[0], [0, 0, 0, 0, 0, 0]]],
        ["structs", new Struct([item]), [[3, 3, 0]], [[0], [0, 0, 0]]]
    ])("are NULL in %s", (_, type, childNodes, childBuffers) => {
        const column = make({ type, length: 3, nullCount: 3, nullBitmap: new Uint8Array(1) });
        const layout = onlyBatch(batchOf(column));
        expect(nodesOf(layout)).toEqual([[3, 3, 0], ...childNodes]);
        expect(bytesOf(layout)).toEqual([[0], ...childBuffers]);
    });

    test("are NULLs of a union's first member", () => {
        const members = [item, field("other", new Int32())];
        const sparse = onlyBatch(batchOf(make({ type: new SparseUnion([5, 1], members), length: 3 })));
        expect(nodesOf(sparse)).toEqual([
            [3, 0, 0],
            [3, 3, 0],
            [3, 3, 0]
        ]);
        expect(bytesOf(sparse)).toEqual([[5, 5, 5], [0], [0, 0, 0], [0], new Array(12).fill(0)]);
        const dense = onlyBatch(batchOf(make({ type: new DenseUnion([5, 1], members), length: 3 })));
        expect(nodesOf(dense)).toEqual([
            [3, 0, 0],
            [1, 1, 0],
            [1, 1, 0]
        ]);
        expect(bytesOf(dense)).toEqual([[5, 5, 5], int32Bytes(0, 0, 0), [0], [0], [0], [0, 0, 0, 0]]);
        const typeIds = Int8Array.of(1);
        const children = [vectorFromArray([9], new Int8()).data[0], vectorFromArray([8], new Int32()).data[0]];
        const parts = { type: new SparseUnion([5, 1], members), typeIds, children };
        expect(bytesOf(onlyBatch(batchOf(make({ ...parts, length: 3 }))))[0]).toEqual([1, 5, 5]);
        expect(bytesOf(onlyBatch(batchOf(make({ ...parts, length: 1 }))))[0]).toEqual([1]);
    });

    test("are told from fixed lists whose items are lost, and from NULLs that have theirs", () => {
        const type = new FixedSizeList(2, item);
        const child = make({ type: new Int8(), length: 6, nullCount: 0, data: Int8Array.of(1, 2, 3, 4, 5, 6) });
        const whole = make({ type, length: 3, nullCount: 3, nullBitmap: Uint8Array.of(0), child });
        expect(bytesOf(onlyBatch(batchOf(whole)))).toEqual([[0], null, [1, 2, 3, 4, 5, 6]]);
        const lost = make({ type, length: 3, nullCount: 2, nullBitmap: Uint8Array.of(1) });
        expect(nodesOf(onlyBatch(batchOf(lost)))).toEqual([
            [3, 2, 0],
            [0, 0, 0]
        ]);
    });

    test("come out of a join as NULL, of every nested type", async () => {
        await using runtime = await openRuntime({ threads: 1, memory: { host: "64MiB" } });
        const pair = new Struct([new Field("key", new Utf8(), false), field("value", new Int32())]);
        const numbers = vectorFromArray([1, 2, 3], new Int32());
        const columns: [DataType, unknown, string][] = [
            [new List(item), [4, 5], "[4,5]"],
            [new FixedSizeList(2, item), [4, 5], "[4,5]"],
            [new FixedSizeList(2, field("item", new FixedSizeList(1, item))), [[4], [5]], "[[4],[5]]"],
            [new Struct([item]), { item: 4 }, "{4}"],
            [new Map_(field("entries", pair) as never), new Map([["k", 4]]), '[{"k",4}]']
        ];
        for (const [type, value, text] of columns) {
            // The second batch of three has no more rows of c: Arrow JS makes them up.
            const c = vectorFromArray([value], type as never) as Vector;
            const relation = runtime.fromTable(new Table({ id: numbers, c }));
            const { cells } = cellTable(await relation.join(relation, { on: "id", type: "semi" }).toTable());
            const rows = cells[0]!.map((id, row) => `${id} ${cells[1]![row]}`).sort();
            expect(rows, String(type)).toEqual([`1 ${text}`, "2 NULL", "3 NULL"]);
        }
    });
});

describe("dictionaries", () => {
    const type = new Dictionary(new Utf8(), new Int8(), 1);
    const chunk = (value: string): Data => vectorFromArray([value], new Utf8()).data[0]! as Data;
    const coded = (...chunks: Data[]): Data => {
        const data = Int8Array.from(chunks, (_, code) => code);
        return make({ type, length: chunks.length, data, dictionary: new Vector(chunks) });
    };

    test("are one only where all of their chunks are the same", () => {
        const [a, b, c] = ["a", "b", "c"].map(chunk) as [Data, Data, Data];
        const columns = [coded(a), coded(a, b), coded(a, c), coded(a), coded(a, b)];
        const layout = layoutOf(...columns.map((column) => batchOf(column)));
        expect(layout.batches.map(({ dictionaries }) => dictionaries)).toEqual([[0], [1], [2], [0], [1]]);
        expect(layout.dictionaries.map(({ batches }) => batches.length)).toEqual([1, 2, 2]);
        expect(layoutCells(layout, [type])).toEqual([['"a"', '"a"', '"b"', '"a"', '"c"', '"a"', '"a"', '"b"']]);
    });

    test("of fixed lists stay those of batches without rows", () => {
        const lists = new FixedSizeList(1, field("item", type));
        const batch = batchOf(make({ type: lists, length: 1, nullCount: 0, child: coded(chunk("a")) }));
        expect(layoutOf(batch, batch.slice(0, 0)).dictionaries).toHaveLength(1);
    });
});

describe("a batch with more bytes in one buffer than a view may have", () => {
    // The system gives memory that nobody has written to, and nobody does, no pages.
    test("is told in slices", () => {
        const rows = 2 ** 29 + 8;
        const numbers = make({ type: new Float64(), length: rows, nullCount: 0, data: new Float64Array(rows) });
        for (const [column, child] of [
            [numbers, 0],
            [
                make({
                    type: new Struct([field("x", new Float64())]),
                    length: rows,
                    nullCount: 0,
                    children: [numbers]
                }),
                1
            ]
        ] as const) {
            const { batches } = layoutOf(batchOf(column));
            // A little more than 4 GiB in pieces of at most 2 GiB.
            const third = Math.ceil(rows / 3);
            expect(batches.map((batch) => batch.rows)).toEqual([third, third, rows - 2 * third]);
            const places = batches.map(({ memory }) => memory[child + 1]!);
            expect(places.map(({ byteOffset }) => byteOffset)).toEqual([0, third * 8, 2 * third * 8]);
            expect(places.map(({ byteLength }) => byteLength)).toEqual(batches.map((batch) => batch.rows * 8));
        }
    });

    test("is whole up to that", () => {
        const rows = 2 ** 32 - 1;
        const bytes = make({ type: new Int8(), length: rows, nullCount: 0, data: new Int8Array(rows) });
        expect(layoutOf(batchOf(bytes)).batches.map((batch) => batch.rows)).toEqual([rows]);
    });
});

describe("what is given as a table", () => {
    const table = new Table({ a: vectorFromArray([1], new Int32()) });
    const other = new Table({ a: vectorFromArray([2, 3], new Int32()) });
    const [batch] = table.batches;

    test("may be tables and batches side by side", () => {
        const found = recordBatchesOf([table, ...other.batches, batch]);
        expect(found?.batches.map(({ numRows }) => numRows)).toEqual([1, 2, 1]);
        expect(found?.schema).toBe(table.schema);
    });

    const batchLike = (schema: unknown): unknown => ({ schema, data: batch!.data, numRows: 1 });
    test.each<[string, unknown]>([
        ["one thing in a list that is none", [table, 7]],
        ["first thing in a list that is none", [undefined, table]],
        ["list in a list", [[table]]],
        ["schema that is a number", batchLike(7)],
        ["schema that is text", batchLike("fields")],
        ["schema that is null", batchLike(null)],
        ["schema that is missing", batchLike(undefined)],
        ["schema without fields", batchLike({})],
        ["schema whose fields are no list", batchLike({ fields: "a" })],
        ["batches that are no list", { schema: table.schema, batches: 3 }],
        ["batches that are text", { schema: table.schema, batches: "none" }],
        ["batches of which one is none", { schema: table.schema, batches: [batch, 7] }],
        ["batches of which one is a table", { schema: table.schema, batches: [batch, table] }],
        ["schema alone", { schema: table.schema }],
        ["batch without a number of rows", { schema: table.schema, data: batch!.data }]
    ])("is no table with a %s", (_, value) => {
        expect(recordBatchesOf(value)).toBeUndefined();
    });
});
