// SPDX-License-Identifier: Apache-2.0
import { DataType, type RecordBatch, type Schema } from "apache-arrow";
import { printable } from "../../printable.js";
import { cellText } from "./cells.js";
import { JsonBlock } from "./json-block.js";
import { jsonColumn } from "./json.js";
import { columnReader } from "../../values/readers.js";

/** Rows of a batch as JSON objects, one a line, in blocks that end anywhere; their memory is used for the next one. */
export function* batchAsJsonLines(batch: RecordBatch): Generator<Buffer> {
    const end = batch.numRows;
    const out = new JsonBlock();
    const columns = batch.schema.fields.map((field, index) => ({
        before: `${index === 0 ? "{" : ","}${JSON.stringify(field.name)}:`,
        ...jsonColumn(batch.data.children[index]!, out)
    }));
    for (let row = 0; row < end; row++) {
        if (columns.length === 0) out.raw("{");
        for (let index = 0; index < columns.length; index++) {
            const { before, write, pieces } = columns[index]!;
            out.raw(before);
            if (!write(row)) {
                for (const filled of pieces(row)) yield (void filled, out.take());
            }
            if (out.full) yield out.take();
        }
        out.raw("}\n");
    }
    const rest = out.take();
    if (rest.length > 0) yield rest;
}

interface TextColumn {
    title: string;
    align: "left" | "right";
}

/** Longer cells would push every other column off the screen; the full value is what --json and --output are for. */
const cellWidthMax = 40;

function fit(text: string): string {
    // Escapes only make it longer: what lies beyond the width need not be looked at.
    const line = printable(text.slice(0, cellWidthMax + 1));
    if (line.length <= cellWidthMax) return line;
    return `${line.slice(0, cellWidthMax - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** Columns two spaces apart, a rule under the titles, no trailing blanks. Rows may come in several lots. */
class TextTable {
    readonly #titles: readonly string[];
    readonly #widths: number[];
    #begun = false;

    constructor(private readonly columns: readonly TextColumn[]) {
        this.#titles = columns.map(({ title }) => fit(title));
        this.#widths = this.#titles.map(({ length }) => length);
    }

    #line(cells: readonly string[]): string {
        const padded = cells.map((cell, index) => {
            const width = this.#widths[index]!;
            return this.columns[index]!.align === "right" ? cell.padStart(width) : cell.padEnd(width);
        });
        return padded.join("  ").trimEnd();
    }

    /** Lines of these rows, the first time with the head above them. Columns are as wide as all rows so far need. */
    lines(rows: readonly (readonly string[])[]): string[] {
        const cells = rows.map((row) => row.map(fit));
        for (const row of cells) {
            row.forEach((cell, index) => (this.#widths[index] = Math.max(this.#widths[index]!, cell.length)));
        }
        const rule = this.#widths.map((width) => "-".repeat(width)).join("  ");
        const head = this.#begun ? [] : [this.#line(this.#titles), rule];
        this.#begun = true;
        return [...head, ...cells.map((row) => this.#line(row))];
    }
}

function alignment(type: DataType): "left" | "right" {
    return DataType.isInt(type) || DataType.isFloat(type) || DataType.isDecimal(type) ? "right" : "left";
}

// What is held until the widths of the columns are known; a table of more is printed in several lots.
const rowsMaxOfLot = 1000;
const cellsMaxOfLot = 100_000;

/** The first rows of a result as a text table. */
export class RowTable {
    /** Were there rows beyond the limit? */
    more = false;
    readonly #table: TextTable;
    #rows: string[][] = [];
    #left: number;

    constructor(schema: Schema, rowsMax: number) {
        this.#left = rowsMax;
        this.#table = new TextTable(
            schema.fields.map((field) => ({ title: field.name, align: alignment(field.type as DataType) }))
        );
    }

    /** Takes rows of `batch`, and gives lines whenever many are there; `more` once it is full and more rows follow. */
    *add(batch: RecordBatch): Generator<string[]> {
        const readers = batch.schema.fields.map((_, index) => columnReader(batch, index));
        const taken = Math.min(batch.numRows, this.#left);
        for (let row = 0; row < taken; row++) {
            // One character more than is shown: then it is cut there.
            this.#rows.push(readers.map((read) => cellText(read(row), cellWidthMax).text));
            const rows = this.#rows.length;
            if (rows >= rowsMaxOfLot || rows * readers.length >= cellsMaxOfLot) yield this.lines();
        }
        this.#left -= taken;
        this.more = batch.numRows > taken;
    }

    /** Lines of the rows that were not given yet, with the head if that was not either. */
    lines(): string[] {
        const rows = this.#rows;
        this.#rows = [];
        return this.#table.lines(rows);
    }
}
