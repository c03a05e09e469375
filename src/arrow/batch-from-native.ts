// SPDX-License-Identifier: Apache-2.0
import type { DataType } from "apache-arrow";
import { Data, makeData, RecordBatch, Schema, Struct, type Field, type Vector } from "apache-arrow";

import type { ColumnType } from "../model/column-type.js";
import { bitmapBytes, checkedProduct } from "../model/sizes.js";
import { bufferCount, columnTypeOf, resultColumnType } from "./column-type-of.js";

/** One batch as the engine hands it over; mirrors NativeOutputBatch. */
export interface EngineBatch {
    rows: number;
    /** Pairs: length, nullCount. */
    nodes: Float64Array;
    /** One per buffer; null = absent. */
    buffers: (ArrayBuffer | null)[];
}

/** Dictionary of each dictionary field node of the schema, in pre-order. */
export type Dictionaries = readonly Vector[];

interface TypedArrayConstructor {
    readonly BYTES_PER_ELEMENT: number;
    new (buffer: ArrayBuffer, offset: number, length: number): ArrayBufferView;
    new (length: number): ArrayBufferView;
}

const noBitmap = new Uint8Array(0);

/** Walks a batch in pre-order and wraps its buffers: nothing is copied. */
class BatchReader {
    #node = 0;
    #buffer = 0;
    #dictionary = 0;

    public constructor(
        private readonly batch: EngineBatch,
        private readonly dictionaries: Dictionaries
    ) {}

    #next(): ArrayBuffer | null {
        return this.batch.buffers[this.#buffer++] ?? null;
    }

    /** Buffers may be longer than their contents (they are padded), but an absent one means no elements. */
    #array(type: TypedArrayConstructor, length: number): ArrayBufferView {
        const buffer = this.#next();
        return buffer === null ? new type(length) : new type(buffer, 0, length);
    }

    #bytes(): Uint8Array {
        return new Uint8Array(this.#next() ?? []);
    }

    #children(type: DataType, column: ColumnType): Data[] {
        return column.children.map((child, i) => this.column(type.children[i]?.type as DataType, child));
    }

    public column(type: DataType, column: ColumnType): Data {
        const length = this.batch.nodes[this.#node * 2] ?? 0;
        const nullCount = this.batch.nodes[this.#node * 2 + 1] ?? 0;
        this.#node++;
        const { layout, byteWidth } = column;
        const hasValidity = bufferCount(layout) > 0 && layout !== "unionSparse" && layout !== "unionDense";
        const validity = hasValidity ? this.#next() : null;
        const nullBitmap = validity === null ? null : new Uint8Array(validity);
        const nulls = nullBitmap === null ? 0 : nullCount;
        const make = (parts: object): Data =>
            makeData({ type, length, nullCount: nulls, nullBitmap, ...parts } as never) as Data;
        // What makeData() comes to after looking at the type and every buffer, which takes 2 us for each of the columns
        // that most results have nothing but.
        const flat = (values: unknown, valueOffsets?: unknown): Data =>
            new Data(type, 0, length, nulls, [valueOffsets, values, nullBitmap ?? noBitmap] as never);
        const offsets = (): ArrayBufferView => this.#array(byteWidth === 8 ? BigInt64Array : Int32Array, length + 1);
        switch (layout) {
            case "null":
                return makeData({ type, length } as never) as Data;
            case "bool":
                return flat(this.#array(Uint8Array, bitmapBytes(length)));
            case "fixed": {
                const arrayType = type.ArrayType as TypedArrayConstructor;
                const bytes = checkedProduct(length, byteWidth, "bytes of values");
                return flat(this.#array(arrayType, bytes / arrayType.BYTES_PER_ELEMENT));
            }
            case "binary":
            case "view": {
                const valueOffsets = offsets();
                return flat(this.#bytes(), valueOffsets);
            }
            case "list":
                return make({ valueOffsets: offsets(), child: this.#children(type, column)[0] });
            case "fixedList":
                return make({ child: this.#children(type, column)[0] });
            case "struct":
                return make({ children: this.#children(type, column) });
            case "unionSparse": {
                const typeIds = this.#array(Int8Array, length);
                return makeData({ type, length, typeIds, children: this.#children(type, column) } as never) as Data;
            }
            case "unionDense": {
                const typeIds = this.#array(Int8Array, length);
                const valueOffsets = this.#array(Int32Array, length);
                const children = this.#children(type, column);
                return makeData({ type, length, typeIds, valueOffsets, children } as never) as Data;
            }
            case "dictionary": {
                const data = this.#array(Int32Array, length);
                return make({ data, dictionary: this.dictionaries[this.#dictionary++] });
            }
        }
    }
}

/** Columns of a result schema as the engine delivers them. */
export function resultColumns(schema: Schema): ColumnType[] {
    return schema.fields.map((field) => resultColumnType(columnTypeOf(field)));
}

const noColumns = makeData({ type: new Struct([]), length: 0, nullCount: 0, children: [] });

/** A record batch around the engine's buffers. `columns`: see resultColumns. */
export function recordBatchOf(
    schema: Schema,
    columns: readonly ColumnType[],
    batch: EngineBatch,
    dictionaries: Dictionaries
): RecordBatch {
    const reader = new BatchReader(batch, dictionaries);
    const children = schema.fields.map((field, i) => reader.column(field.type as DataType, columns[i] as ColumnType));
    const data = makeData({ type: new Struct(schema.fields), length: batch.rows, nullCount: 0, children });
    // The constructor copies every field, and looks each up among all others: 20 ms for 2,001 columns, and memory for
    // each batch that is alive. The engine's columns are equally long, so that there is nothing to copy for.
    return Object.assign(new RecordBatch(new Schema([]), noColumns), { schema, data });
}

/** The values of one unified dictionary. `type`: the dictionary's value type. */
export function dictionaryData(type: DataType, batch: EngineBatch, dictionaries: Dictionaries): Data {
    const column = resultColumnType(columnTypeOf({ name: "values", type, nullable: true } as Field));
    return new BatchReader(batch, dictionaries).column(type, column);
}

export function batchBytes(batch: EngineBatch): number {
    return batch.buffers.reduce((sum, buffer) => sum + (buffer?.byteLength ?? 0), 0);
}
