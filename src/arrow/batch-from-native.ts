// SPDX-License-Identifier: Apache-2.0
import type { DataType } from "apache-arrow";
import { Data, makeData, RecordBatch, Schema, Struct, type Field, type Vector } from "apache-arrow";

import type { ColumnType } from "../model/column-type.js";
import { bitmapBytes, checkedProduct } from "../model/sizes.js";
import { columnTypeOf, resultColumnType } from "./column-type-of.js";

/** One batch as the engine hands it over; mirrors NativeOutputBatch. */
export interface EngineBatch {
    rows: number;
    layout: Float64Array;
    memory: readonly ArrayBuffer[];
}

/** Dictionary of each dictionary field node of the schema, in pre-order. */
export type Dictionaries = readonly Vector[];

interface TypedArrayConstructor {
    readonly BYTES_PER_ELEMENT: number;
    new (buffer: ArrayBuffer, offset: number, length: number): ArrayBufferView;
    new (length: number): ArrayBufferView;
}

const noBitmap = new Uint8Array(0);

/** What makeData() comes to after looking at the type and every buffer, which takes 2 us for each column. */
function dataOf(type: DataType, length: number, nullCount: number, buffers: unknown[], children?: Data[]): Data {
    return new Data(type, 0, length, nullCount, buffers as never, children);
}

/** Walks a batch in pre-order and makes views of its memory: nothing is copied. */
class BatchReader {
    #at = 0;
    #dictionary = 0;
    readonly #layout: Float64Array;

    public constructor(
        private readonly batch: EngineBatch,
        private readonly dictionaries: Dictionaries
    ) {
        this.#layout = batch.layout;
    }

    #number(): number {
        return this.#layout[this.#at++] as number;
    }

    /** A view of the next buffer, without its padding; of no elements where there is none, or zeros. */
    #array(type: TypedArrayConstructor, length: number): ArrayBufferView {
        const memory = this.#number();
        const offset = this.#number();
        this.#at++;
        return memory < 0 ? new type(length) : new type(this.batch.memory[memory] as ArrayBuffer, offset, length);
    }

    /** All bytes of the next buffer. */
    #bytes(): Uint8Array {
        const memory = this.#number();
        const offset = this.#number();
        const bytes = this.#number();
        return memory < 0 ? noBitmap : new Uint8Array(this.batch.memory[memory] as ArrayBuffer, offset, bytes);
    }

    #offsets(byteWidth: number, length: number): ArrayBufferView {
        return this.#array(byteWidth === 8 ? BigInt64Array : Int32Array, length + 1);
    }

    #children(type: DataType, column: ColumnType): Data[] {
        return column.children.map((child, i) => this.column(type.children[i]?.type as DataType, child));
    }

    public column(type: DataType, column: ColumnType): Data {
        const length = this.#number();
        const nullCount = this.#number();
        const { layout, byteWidth } = column;
        if (layout === "null" || layout === "unionSparse" || layout === "unionDense") {
            return this.#withoutBitmap(type, column, length);
        }
        const nullBitmap = this.#bytes();
        const nulls = nullBitmap === noBitmap ? 0 : nullCount;
        switch (layout) {
            case "bool":
                return dataOf(type, length, nulls, [
                    undefined,
                    this.#array(Uint8Array, bitmapBytes(length)),
                    nullBitmap
                ]);
            case "fixed": {
                const arrayType = type.ArrayType as TypedArrayConstructor;
                const bytes = checkedProduct(length, byteWidth, "bytes of values");
                const values = this.#array(arrayType, bytes / arrayType.BYTES_PER_ELEMENT);
                return dataOf(type, length, nulls, [undefined, values, nullBitmap]);
            }
            case "binary":
            case "view": {
                const valueOffsets = this.#offsets(byteWidth, length);
                return dataOf(type, length, nulls, [valueOffsets, this.#bytes(), nullBitmap]);
            }
            default:
                return this.#withParts(type, column, length, nulls, nullBitmap);
        }
    }

    #withoutBitmap(type: DataType, column: ColumnType, length: number): Data {
        if (column.layout === "null") return makeData({ type, length } as never) as Data;
        const typeIds = this.#array(Int8Array, length);
        const valueOffsets = column.layout === "unionDense" ? this.#array(Int32Array, length) : undefined;
        const children = this.#children(type, column);
        return makeData({ type, length, typeIds, valueOffsets, children } as never) as Data;
    }

    #withParts(type: DataType, column: ColumnType, length: number, nullCount: number, bitmap: Uint8Array): Data {
        const nullBitmap = bitmap === noBitmap ? null : bitmap;
        const make = (parts: object): Data =>
            makeData({ type, length, nullCount, nullBitmap, ...parts } as never) as Data;
        if (column.layout === "dictionary") {
            const data = this.#array(Int32Array, length);
            return make({ data, dictionary: this.dictionaries[this.#dictionary++] });
        }
        const valueOffsets = column.layout === "list" ? this.#offsets(column.byteWidth, length) : undefined;
        const children = this.#children(type, column);
        if (column.layout === "struct") return make({ children });
        return make(valueOffsets === undefined ? { child: children[0] } : { valueOffsets, child: children[0] });
    }
}

/** Columns of a result schema as the engine delivers them. */
export function resultColumns(schema: Schema): ColumnType[] {
    return schema.fields.map((field) => resultColumnType(columnTypeOf(field)));
}

const noColumns = makeData({ type: new Struct([]), length: 0, nullCount: 0, children: [] });
const empty = new RecordBatch(new Schema([]), noColumns);

/** A record batch around the engine's memory. `columns`: see resultColumns. */
export function recordBatchOf(
    schema: Schema,
    columns: readonly ColumnType[],
    batch: EngineBatch,
    dictionaries: Dictionaries
): RecordBatch {
    const reader = new BatchReader(batch, dictionaries);
    const children = schema.fields.map((field, i) => reader.column(field.type as DataType, columns[i] as ColumnType));
    const data = dataOf(new Struct(schema.fields), batch.rows, 0, [undefined, undefined, noBitmap], children);
    // The constructor copies every field, and looks each up among all others: 20 ms for 2,001 columns, and memory for
    // each batch that is alive. The engine's columns are equally long, so that there is nothing to copy for.
    const made = Object.create(RecordBatch.prototype) as RecordBatch;
    return Object.assign(made, empty, { schema, data, _metadata: new Map() });
}

/** The values of one unified dictionary. `type`: the dictionary's value type. */
export function dictionaryData(type: DataType, batch: EngineBatch, dictionaries: Dictionaries): Data {
    const column = resultColumnType(columnTypeOf({ name: "values", type, nullable: true } as Field));
    return new BatchReader(batch, dictionaries).column(type, column);
}

export function batchBytes(batch: EngineBatch): number {
    return batch.memory.reduce((sum, { byteLength }) => sum + byteLength, 0);
}
