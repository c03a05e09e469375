// SPDX-License-Identifier: Apache-2.0
// Batches as the engine hands them over (buffers in IPC pre-order) around Arrow JS columns, for every type.
import type { Vector } from "apache-arrow";
import {
    DataType,
    Dictionary,
    Field,
    Int32,
    List,
    makeData,
    Null,
    RecordBatch,
    Schema,
    SparseUnion,
    Struct,
    Table,
    Utf8,
    vectorFromArray,
    type Data
} from "apache-arrow";
import { describe, expect, test } from "vitest";
import { batchBytes, recordBatchOf, resultColumns, type EngineBatch } from "../../../src/arrow/batch-from-native.js";
import { columnTypeOf } from "../../../src/arrow/column-type-of.js";
import { memoryLayout } from "../../../src/arrow/memory-layout.js";
import { resultSchema } from "../../../src/arrow/result-type.js";
import { cellTable } from "../../support/cells.js";
import { buildData } from "../../support/arrow-data.js";
import { hasViews, randomType, randomValue } from "../../support/domains.js";
import { forSeeds } from "../../support/random.js";

/** The buffers of a column that starts at row 0, padded as the engine pads them. */
function engineBatch(schema: Schema, batch: RecordBatch): EngineBatch {
    const columns = schema.fields.map((field) => columnTypeOf(field));
    const [layout] = memoryLayout(columns, [batch], "always").batches;
    const nodes = new Float64Array((layout!.nodes.length / 3) * 2);
    for (let i = 0; i < nodes.length / 2; i++) {
        nodes[i * 2] = layout!.nodes[i * 3]!;
        nodes[i * 2 + 1] = layout!.nodes[i * 3 + 1]!;
    }
    const buffers = layout!.memory.map((bytes) => {
        if (bytes === null || bytes.byteLength === 0) return null;
        const padded = new Uint8Array(Math.ceil(bytes.byteLength / 64) * 64);
        padded.set(bytes);
        return padded.buffer;
    });
    return { rows: batch.numRows, nodes, buffers };
}

function dictionariesOf(data: Data): Vector[] {
    if (DataType.isDictionary(data.type)) return [data.dictionary!];
    return data.children.flatMap(dictionariesOf);
}

test("every type comes through unchanged", async () => {
    await forSeeds(800, 80, async (random) => {
        const rows = random.below(70);
        const types = Array.from({ length: random.between(0, 4) }, () => {
            let type = randomType(random);
            // The engine has no views in its results, and Int32 codes only.
            while (hasViews(type) || String(resultSchema([new Field("c", type)]).fields[0]!.type) !== String(type)) {
                type = randomType(random);
            }
            return type;
        });
        const schema = new Schema(types.map((type, i) => new Field(`c${i}`, type, true)));
        const children = types.map((type) => {
            const values = Array.from({ length: rows }, () => (random.chance(0.2) ? null : randomValue(random, type)));
            return buildData(type, values);
        });
        const batch = new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: rows, children }));
        const dictionaries = children.flatMap(dictionariesOf);
        const handed = engineBatch(schema, batch);
        const back = recordBatchOf(schema, resultColumns(schema), handed, dictionaries);
        expect(back.numRows).toBe(rows);
        expect(cellTable(new Table(schema, [back])).cells).toEqual(cellTable(new Table(schema, [batch])).cells);
        expect(batchBytes(handed)).toBe(handed.buffers.reduce((sum, buffer) => sum + (buffer?.byteLength ?? 0), 0));
    });
});

describe("buffers that the engine hands over", () => {
    const buffer = (...bytes: number[]): ArrayBuffer => Uint8Array.from(bytes).buffer;
    const ints = (...values: number[]): ArrayBuffer => Int32Array.from(values).buffer;
    const field = (name: string, type: DataType): Field => new Field(name, type, true);
    const read = (fields: Field[], batch: EngineBatch, dictionaries: Vector[] = []): RecordBatch => {
        const schema = new Schema(fields);
        return recordBatchOf(schema, resultColumns(schema), batch, dictionaries);
    };
    const rowsOf = (batch: RecordBatch): readonly unknown[] => cellTable(new Table(batch.schema, [batch])).cells;

    test("are none for a column of nothing, and no bitmap for unions", () => {
        const members = [field("x", new Int32()), field("y", new Utf8())];
        const fields = [
            field("nothing", new Null()),
            field("sparse", new SparseUnion([3, 8], members)),
            field("number", new Int32())
        ];
        const batch = read(fields, {
            rows: 2,
            nodes: Float64Array.of(2, 2, 2, 0, 2, 0, 2, 1, 2, 1),
            buffers: [
                ...[buffer(8, 3), null, ints(10, 11), buffer(1), ints(0, 1, 1), buffer(97)],
                ...[buffer(2), ints(0, 7)]
            ]
        });
        expect(rowsOf(batch)).toEqual([
            ["NULL", "NULL"],
            ['<8:"a">', "<3:11>"],
            ["NULL", "7"]
        ]);
    });

    test("of no rows may be absent, and offsets begin with 0 all the same", () => {
        const batch = read([field("text", new Utf8()), field("number", new Int32())], {
            rows: 0,
            nodes: Float64Array.of(0, 0, 0, 0),
            buffers: [null, null, null, null, null]
        });
        const [text, number] = batch.data.children;
        expect(text!.valueOffsets).toEqual(Int32Array.of(0));
        expect(text!.values).toEqual(new Uint8Array(0));
        expect(number!.values).toEqual(new Int32Array(0));
    });

    test("without a bitmap have no NULLs", () => {
        const fields = [field("number", new Int32()), field("list", new List(field("item", new Int32())))];
        const batch = read(fields, {
            rows: 2,
            nodes: Float64Array.of(2, 1, 2, 1, 2, 2),
            buffers: [null, ints(5, 6), null, ints(0, 1, 2), null, ints(7, 8)]
        });
        expect(batch.data.children.map(({ nullCount }) => nullCount)).toEqual([0, 0]);
        expect(rowsOf(batch)).toEqual([
            ["5", "6"],
            ["[7]", "[8]"]
        ]);
    });

    test("of several dictionaries take theirs in order", () => {
        const type = (id: number): Dictionary => new Dictionary(new Utf8(), new Int32(), id);
        const words = [["a", "b"], ["p"], ["x", "y"]].map((values) => vectorFromArray(values, new Utf8()));
        const pair = new Struct([field("left", type(0)), field("right", type(1))]);
        const batch = read(
            [field("pair", pair), field("last", type(2))],
            {
                rows: 1,
                nodes: Float64Array.of(1, 0, 1, 0, 1, 0, 1, 0),
                buffers: [null, null, ints(1), null, ints(0), null, ints(1)]
            },
            words
        );
        expect(rowsOf(batch)).toEqual([['{"b","p"}'], ['"y"']]);
    });
});
