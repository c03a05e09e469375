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
import { bufferCount, columnTypeOf, resultColumnType } from "../../../src/arrow/column-type-of.js";
import { memoryLayout } from "../../../src/arrow/memory-layout.js";
import { resultSchema } from "../../../src/arrow/result-type.js";
import type { ColumnType } from "../../../src/model/column-type.js";
import { cellTable } from "../../support/cells.js";
import { buildData } from "../../support/arrow-data.js";
import { engineBatch, type EngineNode } from "../../support/engine-batch.js";
import { hasViews, randomType, randomValue } from "../../support/domains.js";
import { forSeeds } from "../../support/random.js";

/** The buffers of a batch whose columns start at row 0, as the engine hands them over. */
function handed(schema: Schema, batch: RecordBatch): EngineBatch {
    const columns = schema.fields.map((field) => columnTypeOf(field));
    const [layout] = memoryLayout(columns, [batch], "always").batches;
    let buffer = 0;
    let node = 0;
    const walk = ({ layout: kind, children }: ColumnType): EngineNode[] => {
        const [length, nullCount] = [layout!.nodes[node * 3]!, layout!.nodes[node * 3 + 1]!];
        node++;
        const buffers = layout!.memory.slice(buffer, (buffer += bufferCount(kind)));
        // What a dictionary has below is of its values.
        return [{ length, nullCount, buffers }, ...(kind === "dictionary" ? [] : children.flatMap(walk))];
    };
    return engineBatch(batch.numRows, columns.map(resultColumnType).flatMap(walk));
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
        const engines = handed(schema, batch);
        const back = recordBatchOf(schema, resultColumns(schema), engines, dictionaries);
        expect(back.numRows).toBe(rows);
        expect(cellTable(new Table(schema, [back])).cells).toEqual(cellTable(new Table(schema, [batch])).cells);
        expect(batchBytes(engines)).toBe(engines.memory.reduce((sum, buffer) => sum + buffer.byteLength, 0));
    });
});

describe("buffers that the engine hands over", () => {
    const buffer = (...bytes: number[]): Uint8Array => Uint8Array.from(bytes);
    const ints = (...values: number[]): Int32Array => Int32Array.from(values);
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
        const nodes: EngineNode[] = [
            { length: 2, nullCount: 2, buffers: [] },
            { length: 2, buffers: [buffer(8, 3)] },
            { length: 2, buffers: [null, ints(10, 11)] },
            { length: 2, nullCount: 1, buffers: [buffer(1), ints(0, 1, 1), buffer(97)] },
            { length: 2, nullCount: 1, buffers: [buffer(2), ints(0, 7)] }
        ];
        const batch = read(fields, engineBatch(2, nodes));
        expect(rowsOf(batch)).toEqual([
            ["NULL", "NULL"],
            ['<8:"a">', "<3:11>"],
            ["NULL", "7"]
        ]);
    });

    test("are views of one memory, which is not copied", () => {
        const nodes = [1, 2, 3].map((value) => ({ length: 2, buffers: [null, ints(value, 2 * value)] }));
        const engines = engineBatch(2, nodes);
        const { data } = read(
            ["a", "b", "c"].map((name) => field(name, new Int32())),
            engines
        );
        expect(data.children.map(({ values }) => [values.buffer === engines.memory[0], values.byteOffset])).toEqual(
            [0, 64, 128].map((offset) => [true, offset])
        );
        expect(data.children.map(({ values }) => [...values])).toEqual([1, 2, 3].map((value) => [value, 2 * value]));
    });

    test("of no rows may be absent, and offsets begin with 0 all the same", () => {
        const nodes = [
            { length: 0, buffers: [null, null, null] },
            { length: 0, buffers: [null, null] }
        ];
        const batch = read([field("text", new Utf8()), field("number", new Int32())], engineBatch(0, nodes));
        const [text, number] = batch.data.children;
        expect(text!.valueOffsets).toEqual(Int32Array.of(0));
        expect(text!.values).toEqual(new Uint8Array(0));
        expect(number!.values).toEqual(new Int32Array(0));
    });

    test("without a bitmap have no NULLs", () => {
        const fields = [field("number", new Int32()), field("list", new List(field("item", new Int32())))];
        const nodes: EngineNode[] = [
            { length: 2, nullCount: 1, buffers: [null, ints(5, 6)] },
            { length: 2, nullCount: 1, buffers: [null, ints(0, 1, 2)] },
            { length: 2, nullCount: 2, buffers: [null, ints(7, 8)] }
        ];
        const batch = read(fields, engineBatch(2, nodes));
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
            engineBatch(1, [
                { length: 1, buffers: [null] },
                { length: 1, buffers: [null, ints(1)] },
                { length: 1, buffers: [null, ints(0)] },
                { length: 1, buffers: [null, ints(1)] }
            ]),
            words
        );
        expect(rowsOf(batch)).toEqual([['{"b","p"}'], ['"y"']]);
    });
});
