// SPDX-License-Identifier: Apache-2.0
// Codes that mean the same values: over the batches of a stream, and over two relations of a full join.
import {
    Dictionary,
    Field,
    Int16,
    Int32,
    List,
    makeData,
    RecordBatch,
    Schema,
    Struct,
    Table,
    TimestampNanosecond,
    Uint8,
    Utf8,
    Vector,
    vectorFromArray,
    type Data,
    type DataType
} from "apache-arrow";
import { openRuntime } from "spillway";
import { describe, expect, test } from "vitest";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { linkDictionaries } from "../../../src/arrow/linked-dictionaries.js";
import { memoryLayout } from "../../../src/arrow/memory-layout.js";
import type { FileBatches } from "../../../src/model/column-type.js";
import { StreamDictionaries, streamColumnTypes } from "../../../src/arrow/stream-dictionaries.js";
import { readCell } from "../../support/cells.js";
import { layoutCells } from "../../support/layout-cells.js";

const type = new Dictionary(new Utf8(), new Int16(), 1);
const schema = new Schema([new Field("d", type, true)]);

function dictionaryData(values: readonly (string | null)[], codes: readonly number[]): Data {
    const dictionary = vectorFromArray(values, new Utf8());
    return makeData({ type, length: codes.length, nullCount: 0, data: Int16Array.from(codes), dictionary });
}

function batchOf(child: Data, of = schema): RecordBatch {
    return new RecordBatch(of, makeData({ type: new Struct(of.fields), length: child.length, children: [child] }));
}

const codesOf = (batch: RecordBatch): number[] => Array.from(batch.data.children[0]!.values as Int32Array);
const dictionaryOf = (batch: RecordBatch): Vector => batch.data.children[0]!.dictionary!;
const cellsOf = (batch: RecordBatch): string[] =>
    Array.from({ length: batch.numRows }, (_, row) => readCell(batch.data.children[0]!, row));

describe("a stream's dictionaries", () => {
    test("become one that only grows; equal values keep their code", () => {
        const stream = new StreamDictionaries(schema);
        const first = stream.unify(batchOf(dictionaryData(["a", "b"], [0, 1, 1])));
        const second = stream.unify(batchOf(dictionaryData(["b", "c", "a"], [0, 1, 2])));
        expect(codesOf(first)).toEqual([0, 1, 1]);
        expect(codesOf(second)).toEqual([1, 3, 0]);
        expect(cellsOf(second)).toEqual(['"b"', '"c"', '"a"']);
        expect(dictionaryOf(second).data.slice(0, 1)).toEqual(dictionaryOf(first).data);
    });

    test("do not grow while nothing new comes", () => {
        const stream = new StreamDictionaries(schema);
        const values = ["a", "b", "c"];
        for (let i = 0; i < 100; i++) {
            const turned = [...values.slice(i % 3), ...values.slice(0, i % 3)];
            const batch = stream.unify(batchOf(dictionaryData(turned, [0, 2])));
            expect(dictionaryOf(batch)).toHaveLength(3);
            expect(cellsOf(batch)).toEqual([`"${turned[0]}"`, `"${turned[2]}"`]);
        }
    });

    test("keep NULLs, slices and values that numbers would round", () => {
        const stamps = new Dictionary(new TimestampNanosecond(), new Uint8(), 2);
        const of = new Schema([new Field("t", stamps, true)]);
        const data = (values: bigint[]): Data => {
            const chunk = makeData({ type: new TimestampNanosecond(), data: BigInt64Array.from(values) });
            const nullBitmap = Uint8Array.of(0b101);
            const dictionary = new Vector([chunk]);
            return makeData({
                type: stamps,
                length: 3,
                nullCount: 1,
                nullBitmap,
                data: Uint8Array.of(0, 0, 1),
                dictionary
            });
        };
        const stream = new StreamDictionaries(of);
        stream.unify(batchOf(data([1_700_000_000_123_456_789n, 5n]), of));
        const next = stream.unify(batchOf(data([1_700_000_000_123_456_788n, 5n]).slice(1, 2), of));
        expect(cellsOf(next)).toEqual(["NULL", "5"]);
        const whole = stream.unify(batchOf(data([1_700_000_000_123_456_788n, 5n]), of));
        expect(cellsOf(whole)).toEqual(["1700000000123456788", "NULL", "5"]);
    });

    test("are found inside of nested columns, and an empty one is one", () => {
        const lists = new List(new Field("item", type, true));
        const of = new Schema([new Field("l", lists, true)]);
        const child = dictionaryData(["x", "y"], [1, 0]);
        const valueOffsets = Int32Array.of(0, 2);
        const list = makeData({ type: lists, length: 1, nullCount: 0, valueOffsets, child: child as never }) as Data;
        const stream = new StreamDictionaries(of);
        stream.unify(batchOf(list, of));
        expect(cellsOf(stream.unify(batchOf(list, of)))).toEqual(['["y","x"]']);
        expect(stream.unify(batchOf(list.slice(0, 0), of)).numRows).toBe(0);
        const none = new StreamDictionaries(schema).unify(batchOf(dictionaryData([], [])));
        expect(dictionaryOf(none)).toHaveLength(0);
        expect(streamColumnTypes(of)[0]!.children[0]).toMatchObject({ layout: "dictionary", byteWidth: 4 });
    });
});

describe("linked dictionaries", () => {
    const layoutOf = (table: Table, batches: readonly RecordBatch[] = table.batches) =>
        memoryLayout(
            table.schema.fields.map((field) => columnTypeOf(field)),
            batches,
            "always"
        );
    const tableOf = (values: readonly (string | null)[], extra: readonly string[]): Table =>
        new Table({
            other: vectorFromArray(extra, new Dictionary(new Utf8(), new Int32())),
            key: vectorFromArray(values, new Dictionary(new Utf8(), new Int32()))
        });

    type Layout = ReturnType<typeof layoutOf>;

    /** Dictionaries of a node in the order in which the engine goes through them: links first, then first use. */
    function valuesInOrder(layout: Layout, position: number): string[] {
        const linked = layout.links
            .filter(({ node }) => node === position)
            .flatMap(({ parts }) => parts.flatMap(({ dictionaries }) => dictionaries));
        const order = [...new Set([...linked, ...layout.batches.map((batch) => batch.dictionaries[position]!)])];
        return order.flatMap((index) => {
            const { batches } = layout.dictionaries[index]!;
            const plain = { columns: [], dictionaries: [], files: null, links: [], batches };
            return layoutCells(plain, [new Utf8() as DataType])[0]!;
        });
    }

    test("run through the same values on both sides and leave rows and other columns alone", () => {
        const left = layoutOf(tableOf(["b", "a", null], ["p", "q", "p"]));
        const first = tableOf(["c"], ["r"]);
        const right = layoutOf(first, [...first.batches, ...tableOf(["a", "d"], ["r", "s"]).batches]);
        const members = [
            { layout: left, column: 1 },
            { layout: right, column: 1 }
        ];
        const linked = [left, right].map((layout) => linkDictionaries(layout, new Map([[1, members]])));
        const orders = linked.map((layout) => valuesInOrder(layout, 1));
        expect(orders[0]).toEqual(orders[1]);
        expect(new Set(orders[0])).toEqual(new Set(['"a"', '"b"', '"c"', '"d"']));
        [left, right].forEach((layout, i) => {
            expect(valuesInOrder(linked[i]!, 0)).toEqual(valuesInOrder(layout, 0));
            expect(linked[i]!.batches).toEqual(layout.batches);
        });
    });

    test("of files are named by their batches, those of tables one by one", () => {
        const table = layoutOf(tableOf(["b", "a"], ["p", "q"]));
        const batches = {} as FileBatches;
        const files = { ...table, batches: [], dictionaries: [], files: batches };
        const members = [
            { layout: files, column: 1 },
            { layout: table, column: 1 }
        ];
        const linked = linkDictionaries(files, new Map([[1, members]]));
        expect(linked.files).toBe(batches);
        expect(linked.links).toEqual([
            {
                node: 1,
                parts: [
                    { files: batches, node: 1, dictionaries: [] },
                    { files: null, node: 0, dictionaries: [0] }
                ]
            }
        ]);
        expect(linked.dictionaries).toEqual([table.dictionaries[1]]);
    });

    test("work for a relation without batches", () => {
        const left = layoutOf(tableOf(["a"], ["p"]));
        const right = { ...layoutOf(tableOf(["b"], ["q"])), batches: [], dictionaries: [] };
        const members = [
            { layout: left, column: 1 },
            { layout: right, column: 1 }
        ];
        const linked = linkDictionaries(right, new Map([[1, members]]));
        expect(valuesInOrder(linked, 1)).toEqual(['"a"']);
    });
});

test("a table whose only NULLs are values of a dictionary has them in its results", async () => {
    const values = new Dictionary(new Utf8(), new Int16(), 2);
    const dictionary = vectorFromArray(["a", null], new Utf8());
    const data = makeData({ type: values, length: 3, nullCount: 0, data: Int16Array.of(0, 1, 1), dictionary });
    const table = new Table({ d: new Vector([data]) });
    const runtime = await openRuntime({ threads: 1, device: "cpu" });
    try {
        const relation = runtime.fromTable(table);
        const groups = runtime.groupBy(relation, {
            keys: ["d"],
            aggregates: { rows: { count: "*" }, some: { count: "d" } }
        });
        const found = (await groups.toTable()).toArray().map((row) => Object.values(row.toJSON()).map(String));
        expect(found.sort()).toEqual([
            ["a", "1", "1"],
            ["null", "2", "0"]
        ]);
        // NULLs have no partner.
        expect(await runtime.join({ left: relation, right: relation, on: "d" }).count()).toBe(1);
    } finally {
        await runtime.close();
    }
});
