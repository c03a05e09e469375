// SPDX-License-Identifier: Apache-2.0
import {
    makeData,
    type Data,
    type DataType,
    type Field,
    type RecordBatch,
    type Schema,
    type Vector
} from "apache-arrow";

import { SpillwayError } from "../errors.js";
import type { BatchLayout, ColumnType, DictionaryLayout, KeptMemory, SourceLayout } from "../model/column-type.js";
import { bitmapBytes, checkedProduct, checkedSum } from "../model/sizes.js";
import { SteadyBytes } from "./steady-bytes.js";

type Buffers = (Uint8Array | null)[];

// Uint8Array ends at 2^32 elements in Node 20, typed arrays of wider elements do not. Slices stay below half of it.
const largestViewBytes = 2 ** 32 - 1;
const sliceBytes = 2 ** 31;

function valueBytes(length: number, width: number): number {
    return checkedProduct(length, width, "bytes of values");
}

/** Arrow JS has undefined for children of columns that it makes up, and vectors in batches of an object of vectors. */
export function childrenOf(data: Data): readonly (Data | undefined)[] {
    const children: readonly (Data | Vector | undefined)[] = data.children;
    return children.map((child) =>
        child !== undefined && "data" in child ? (child.data[0] as Data | undefined) : child
    );
}

/** Writes the buffers of Arrow JS columns in IPC pre-order, without copying those that stay as they are. */
class MemoryBatch {
    readonly #nodes: number[] = [];
    readonly #buffers: Buffers = [];
    readonly #variadicCounts: number[] = [];
    readonly #dictionaries: number[] = [];

    public constructor(
        private readonly bytes: SteadyBytes,
        private readonly dictionaryIndex: (values: Vector, type: ColumnType) => number
    ) {}

    public finish(rows: number): BatchLayout {
        return {
            rows,
            nodes: Float64Array.from(this.#nodes),
            memory: this.#buffers,
            variadicCounts: this.#variadicCounts,
            dictionaries: this.#dictionaries
        };
    }

    /** Offsets of `length` values; missing ones repeat the last, so that the values are empty. */
    #paddedOffsets(bytes: Uint8Array, length: number, width: number): Uint8Array {
        const needed = checkedProduct(length + 1, width, "bytes of offsets");
        const longer = this.bytes.padded(bytes, needed);
        for (let at = Math.max(bytes.byteLength, width); at < needed; at += width) {
            longer.copyWithin(at, at - width, at);
        }
        return longer;
    }

    /** A column of NULLs: what Arrow JS leaves out for a child that does not exist. */
    public nullData(type: DataType, length: number): Data {
        const nullBitmap = this.bytes.padded(new Uint8Array(0), bitmapBytes(length));
        return makeData({ type, length, nullCount: length, nullBitmap } as never) as Data;
    }

    #validity(data: Data, nulls: number): void {
        const bits = checkedSum(data.offset, data.length, "rows of a column");
        this.#buffers.push(
            nulls > 0 ? this.bytes.padded(this.bytes.structure(data.nullBitmap), bitmapBytes(bits)) : null
        );
    }

    #offsets(data: Data, type: ColumnType): void {
        this.#buffers.push(this.#paddedOffsets(this.bytes.structure(data.valueOffsets), data.length, type.byteWidth));
    }

    /** Padding rows of a union are NULLs of its first member. */
    #typeIds(data: Data, type: ColumnType): void {
        const given = this.bytes.structure(data.typeIds);
        const typeIds = this.bytes.padded(given, data.length);
        typeIds.fill(type.typeIds[0] ?? 0, given.byteLength);
        this.#buffers.push(typeIds);
    }

    #children(data: Data, type: ColumnType, length: number, given = childrenOf(data)): void {
        type.children.forEach((child, i) => {
            const field = data.type.children[i] as Field;
            this.add(given[i] ?? this.nullData(field.type as DataType, length), child);
        });
    }

    public add(data: Data, type: ColumnType): void {
        const { length } = data;
        const isUnion = type.layout === "unionSparse" || type.layout === "unionDense";
        // Arrow JS says -1 where neither a count nor a bitmap was given.
        const nulls = isUnion ? 0 : Math.max(0, data.nullCount);
        if (nulls > length) {
            throw new SpillwayError(
                "INVALID_ARGUMENT",
                `The table has a column of ${length} rows with ${nulls} NULLs; make its record batch again`,
                { option: "table" }
            );
        }
        this.#nodes.push(length, nulls, data.offset);
        if (type.layout === "null") return;
        if (!isUnion) this.#validity(data, nulls);
        switch (type.layout) {
            case "bool":
                // Bits are not moved by a slice: the node's bit offset holds for them as for the validity.
                this.#buffers.push(
                    this.bytes.padded(this.bytes.values(data.values), bitmapBytes(data.offset + length))
                );
                return;
            case "fixed":
                this.#buffers.push(
                    this.bytes.padded(this.bytes.values(data.values), valueBytes(length, type.byteWidth))
                );
                return;
            case "binary":
                this.#offsets(data, type);
                this.#buffers.push(this.bytes.values(data.values));
                return;
            case "view":
                this.#buffers.push(this.bytes.padded(this.bytes.structure(data.values), valueBytes(length, 16)));
                this.#buffers.push(...data.variadicBuffers.map((buffer) => this.bytes.values(buffer)));
                this.#variadicCounts.push(data.variadicBuffers.length);
                return;
            case "list":
                this.#offsets(data, type);
                this.#children(data, type, 0);
                return;
            case "fixedList": {
                const items = checkedProduct(length, type.listSize, "items of lists");
                const [given] = childrenOf(data);
                // Arrow JS makes up an empty child for the NULLs with which it pads a column.
                const isPadding = items > 0 && nulls === length && given?.length === 0;
                this.#children(data, type, items, isPadding ? [] : [given]);
                return;
            }
            case "struct":
                this.#children(data, type, length);
                return;
            case "unionSparse":
                this.#typeIds(data, type);
                this.#children(data, type, length);
                return;
            case "unionDense":
                this.#typeIds(data, type);
                this.#buffers.push(this.bytes.padded(this.bytes.structure(data.valueOffsets), valueBytes(length, 4)));
                this.#children(data, type, 1);
                return;
            case "dictionary":
                this.#buffers.push(
                    this.bytes.padded(this.bytes.structure(data.values), valueBytes(length, type.byteWidth))
                );
                this.#dictionaries.push(this.dictionaryIndex(data.dictionary as Vector, type));
                return;
        }
    }
}

/** Dictionaries of the batches seen so far; batches that share one (by its chunks) share an entry. */
class DictionaryList {
    public readonly layouts: DictionaryLayout[] = [];
    readonly #chunks: (readonly Data[])[] = [];

    public constructor(private readonly bytes: SteadyBytes) {}

    public readonly index = (values: Vector, type: ColumnType): number => {
        const chunks = values.data;
        const known = this.#chunks.findIndex(
            (other) => other.length === chunks.length && other.every((chunk, i) => chunk === chunks[i])
        );
        if (known >= 0) return known;
        const valueType = type.children[0] as ColumnType;
        const batches = chunks.map((chunk) => {
            const batch = new MemoryBatch(this.bytes, this.index);
            batch.add(chunk, valueType);
            return batch.finish(chunk.length);
        });
        // Nested dictionaries were added by the loop above, so the index is only known now.
        this.#chunks.push(chunks);
        this.layouts.push({ valueType, batches });
        return this.layouts.length - 1;
    };
}

function largestBuffer(data: Data): number {
    const own = Math.max(data.values?.byteLength ?? 0, data.valueOffsets?.byteLength ?? 0);
    return childrenOf(data).reduce((largest, child) => Math.max(largest, child ? largestBuffer(child) : 0), own);
}

/** The batch itself, or slices of it when a buffer is too large for a byte view. */
function viewable(batch: RecordBatch): RecordBatch[] {
    const largest = largestBuffer(batch.data as Data);
    if (largest <= largestViewBytes) return [batch];
    const pieces = Math.ceil(largest / sliceBytes);
    const rows = Math.ceil(batch.numRows / pieces);
    const slices: RecordBatch[] = [];
    for (let row = 0; row < batch.numRows; row += rows) {
        slices.push(batch.slice(row, Math.min(row + rows, batch.numRows)));
    }
    return slices;
}

/**
 * Record batches in memory as the engine reads them. The buffers stay where they are, but for those that SteadyBytes
 * copies; keep them unchanged. `columns`: their types, which hold for every batch.
 */
export function memoryLayout(
    columns: readonly ColumnType[],
    batches: readonly RecordBatch[],
    kept: KeptMemory
): SourceLayout {
    const bytes = new SteadyBytes(kept);
    const dictionaries = new DictionaryList(bytes);
    const layouts = batches.flatMap(viewable).map((batch) => {
        const layout = new MemoryBatch(bytes, dictionaries.index);
        columns.forEach((column, i) => {
            const type = batch.schema.fields[i]?.type as DataType;
            layout.add(childrenOf(batch.data as Data)[i] ?? layout.nullData(type, batch.numRows), column);
        });
        return layout.finish(batch.numRows);
    });
    return { columns: [...columns], batches: layouts, dictionaries: dictionaries.layouts, files: null, links: [] };
}

interface Batches {
    schema: Schema;
    batches: RecordBatch[];
}

function hasSchema(value: unknown): value is { schema: Schema } {
    if (typeof value !== "object" || value === null || !("schema" in value)) return false;
    const { schema } = value;
    return typeof schema === "object" && schema !== null && "fields" in schema && Array.isArray(schema.fields);
}

/** A table has schema, data and numRows too, but its data are no columns: read as a batch it would be all NULL. */
function isBatch(value: unknown): value is RecordBatch {
    return hasSchema(value) && "data" in value && "numRows" in value && !("batches" in value);
}

function tableOrBatch(value: unknown): Batches | undefined {
    if (isBatch(value)) return { schema: value.schema, batches: [value] };
    if (!hasSchema(value) || !("batches" in value)) return undefined;
    const { schema, batches } = value;
    return Array.isArray(batches) && batches.every(isBatch) ? { schema, batches } : undefined;
}

/** Any table or record batches of Arrow JS, also of another copy of the library, and tables among batches. */
export function recordBatchesOf(value: unknown): Batches | undefined {
    if (!Array.isArray(value)) return tableOrBatch(value);
    const all = (value as unknown[]).map(tableOrBatch);
    const [first] = all;
    if (first === undefined || !all.every((one) => one !== undefined)) return undefined;
    return { schema: first.schema, batches: all.flatMap(({ batches }) => batches) };
}
