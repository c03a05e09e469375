// SPDX-License-Identifier: Apache-2.0
// Big numeric relations made fast: int64 keys and payloads straight in typed arrays.
import { writeFileSync } from "node:fs";
import { Field, Int64, makeData, RecordBatch, Schema, Struct, Table, tableToIPC } from "apache-arrow";

export interface NumericRelation {
    readonly rows: number;
    /** Keys are drawn from [0, keys). */
    readonly keys: number;
    readonly payloads?: number;
    /** Rows per record batch; 128 Ki by default. */
    readonly batchRows?: number;
    /** Put before column names: `lkey`, `lp0`, `lp1` ... */
    readonly prefix: string;
}

/** Low halves of int64 values; the high halves stay 0. */
function fill(values: BigInt64Array, make: (row: number) => number): void {
    const halves = new Uint32Array(values.buffer);
    for (let row = 0; row < values.length; ++row) halves[2 * row] = make(row);
}

export function numericTable(relation: NumericRelation): Table {
    const { rows, keys, payloads = 1, batchRows = 1 << 17, prefix } = relation;
    const names = [`${prefix}key`, ...Array.from({ length: payloads }, (_, i) => `${prefix}p${i}`)];
    const schema = new Schema(names.map((name) => new Field(name, new Int64(), false)));
    const columns = names.map(() => new BigInt64Array(rows));
    let state = 0x2545f491;
    fill(columns[0]!, () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state % keys;
    });
    columns.slice(1).forEach((column, index) => fill(column, (row) => (row * (index + 3)) >>> 0));
    const batches: RecordBatch[] = [];
    for (let first = 0; first < rows; first += batchRows) {
        const length = Math.min(batchRows, rows - first);
        const children = columns.map((column) =>
            makeData({ type: new Int64(), length, nullCount: 0, data: column.subarray(first, first + length) })
        );
        batches.push(
            new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length, nullCount: 0, children }))
        );
    }
    return new Table(schema, batches);
}

export function writeNumeric(path: string, relation: NumericRelation): string {
    writeFileSync(path, tableToIPC(numericTable(relation), "file"));
    return path;
}
