// SPDX-License-Identifier: Apache-2.0
import { DataType, type RecordBatch, type Schema } from "apache-arrow";
import { textTable } from "./text-table.js";
import { columnReader, toCell, toJson } from "./values.js";

// Lines are handed to the stream in blocks: one write per row would cost a system call each. A block above 128 KiB
// would be a large object of V8's, which stays until it collects its whole heap: 10 MiB more for lines of 150 bytes.
const linesPerBlock = 256;

/** Rows of a batch, or its first ones, as JSON objects, one a line, in blocks of text. */
export function* batchAsJsonLines(batch: RecordBatch, rowsMax = Infinity): Generator<string> {
    const end = Math.min(batch.numRows, rowsMax);
    const columns = batch.schema.fields.map((field, index) => ({
        name: JSON.stringify(field.name),
        read: columnReader(batch, index)
    }));
    for (let begin = 0; begin < end; begin += linesPerBlock) {
        const lines: string[] = [];
        for (let row = begin; row < Math.min(begin + linesPerBlock, end); row++) {
            lines.push(`{${columns.map(({ name, read }) => `${name}:${toJson(read(row))}`).join(",")}}\n`);
        }
        yield lines.join("");
    }
}

function alignment(type: DataType): "left" | "right" {
    return DataType.isInt(type) || DataType.isFloat(type) || DataType.isDecimal(type) ? "right" : "left";
}

/** The first rows of a result as a text table. */
export class RowTable {
    /** Were there rows beyond the limit? */
    more = false;
    readonly #rows: string[][] = [];

    constructor(
        readonly schema: Schema,
        readonly rowsMax: number
    ) {}

    /** Takes rows of `batch`; false once the table is full and more rows are known to follow. */
    add(batch: RecordBatch): boolean {
        const readers = batch.schema.fields.map((_, index) => columnReader(batch, index));
        const taken = Math.min(batch.numRows, this.rowsMax - this.#rows.length);
        for (let row = 0; row < taken; row++) this.#rows.push(readers.map((read) => toCell(read(row))));
        this.more = batch.numRows > taken;
        return !this.more;
    }

    toString(): string {
        const columns = this.schema.fields.map((field) => ({
            title: field.name,
            align: alignment(field.type as DataType)
        }));
        return textTable(columns, this.#rows);
    }
}
