// SPDX-License-Identifier: Apache-2.0
// Batches as the engine hands them over (buffers in IPC pre-order) around Arrow JS columns, for every type.
import type { Vector } from "apache-arrow";
import { DataType, Field, makeData, RecordBatch, Schema, Struct, Table, type Data } from "apache-arrow";
import { expect, test } from "vitest";
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
