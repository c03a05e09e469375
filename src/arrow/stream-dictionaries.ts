// SPDX-License-Identifier: Apache-2.0
import {
    Data,
    DataType,
    Dictionary,
    Int32,
    makeData,
    RecordBatch,
    Struct,
    Vector,
    Schema,
    type Field
} from "apache-arrow";

import type { ColumnType } from "../model/column-type.js";
import { columnTypeOf } from "./column-type-of.js";

/** Bytes that tell values of one dictionary apart; undefined where only the engine can compare them. */
function valueKey(data: Data, row: number, type: ColumnType): string | undefined {
    if (!data.getValid(row)) return "";
    const slice = (array: ArrayBufferView, begin: number, end: number): string =>
        `=${Buffer.from(array.buffer as ArrayBuffer, array.byteOffset + begin, end - begin).toString("latin1")}`;
    if (type.layout === "fixed") return slice(data.values, row * type.byteWidth, (row + 1) * type.byteWidth);
    if (type.layout === "binary") {
        const offsets = data.valueOffsets as ArrayLike<number | bigint>;
        return slice(data.values, Number(offsets[row] ?? 0), Number(offsets[row + 1] ?? 0));
    }
    return undefined;
}

/** Arrow JS has no vector without chunks. */
export function emptyVector(type: DataType): Vector {
    return new Vector([makeData({ type, length: 0 } as never) as Data]);
}

/**
 * One dictionary for all batches of a stream. Each batch may bring a dictionary of its own: its values are appended as
 * they are (the engine finds equal ones) unless all of them are known already, so a stream that repeats a dictionary,
 * changes its order or extends it adds nothing twice.
 */
class GrowingDictionary {
    readonly #chunks: Data[] = [];
    /** By the key of a value; values without one are not in here. */
    readonly #codes = new Map<string | undefined, number>();
    /** Dictionaries seen so far, by their chunks, and the code of each of their values; null = unchanged codes. */
    readonly #seen: { chunks: readonly Data[]; map: Int32Array | null }[] = [];
    readonly #valueType: ColumnType;
    #length = 0;

    public constructor(private readonly type: DataType) {
        this.#valueType = columnTypeOf({ name: "values", type, nullable: true } as Field);
    }

    public get vector(): Vector {
        return this.#chunks.length === 0 ? emptyVector(this.type) : new Vector([...this.#chunks]);
    }

    public mapOf(dictionary: Vector): Int32Array | null {
        const chunks = dictionary.data;
        const known = this.#seen.find(
            (seen) => seen.chunks.length === chunks.length && seen.chunks.every((chunk, i) => chunk === chunks[i])
        );
        if (known !== undefined) return known.map;
        const map = this.#add(chunks);
        // Streams whose every batch has a new dictionary object need no list of them all.
        if (this.#seen.length >= 16) this.#seen.shift();
        this.#seen.push({ chunks, map });
        return map;
    }

    #add(chunks: readonly Data[]): Int32Array | null {
        const total = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
        const map = new Int32Array(total);
        const base = this.#length;
        let grows = false;
        let row = 0;
        for (const chunk of chunks) {
            for (let i = 0; i < chunk.length; i++, row++) {
                const key = valueKey(chunk, i, this.#valueType);
                const code = this.#codes.get(key);
                if (code === undefined) {
                    grows = true;
                    if (key !== undefined) this.#codes.set(key, base + row);
                }
                map[row] = code ?? base + row;
            }
        }
        if (grows) {
            this.#chunks.push(...chunks);
            this.#length += total;
        }
        return map.every((code, i) => code === i) ? null : map;
    }
}

function int32Codes(data: Data, map: Int32Array | null): Int32Array {
    const codes = new Int32Array(data.length);
    const values = data.values as ArrayLike<number | bigint>;
    for (let row = 0; row < data.length; row++) {
        const code = Number(values[row] ?? 0);
        // Codes of NULL rows may be anything; codes out of range are left for the engine to refuse.
        codes[row] = map === null ? code : (map[code] ?? (data.getValid(row) ? -1 : 0));
    }
    return codes;
}

/** Gives every dictionary column of a stream Int32 codes into one dictionary that only grows. */
export class StreamDictionaries {
    readonly #known = new Map<string, GrowingDictionary>();
    readonly #schema: Schema;
    readonly #needed: boolean;

    public constructor(schema: Schema) {
        this.#schema = schema;
        this.#needed = schema.fields.some((field) => hasDictionary(field.type as DataType));
    }

    public unify(batch: RecordBatch): RecordBatch {
        if (!this.#needed) return batch;
        const children = this.#schema.fields.map((field, i) => {
            const data = batch.data.children[i] as Data;
            return this.#data(field.name, field.type as DataType, data);
        });
        const fields = this.#schema.fields.map((field, i) => field.clone({ type: (children[i] as Data).type }));
        const struct = makeData({ type: new Struct(fields), length: batch.numRows, nullCount: 0, children });
        return new RecordBatch(new Schema(fields), struct);
    }

    #data(path: string, type: DataType, data: Data): Data {
        if (!hasDictionary(type)) return data;
        if (DataType.isDictionary(type)) {
            const known = this.#known.get(path) ?? new GrowingDictionary(type.dictionary as DataType);
            this.#known.set(path, known);
            const map = known.mapOf(data.dictionary as Vector);
            return new Data(
                new Dictionary(type.dictionary as DataType, new Int32(), type.id),
                data.offset,
                data.length,
                data.nullCount,
                [undefined, int32Codes(data, map), data.nullBitmap] as never,
                [],
                known.vector
            );
        }
        const children = type.children.map((field, i) =>
            this.#data(`${path}.${i}`, field.type as DataType, data.children[i] as Data)
        );
        return data.clone(data.type, data.offset, data.length, data.nullCount, data as never, children);
    }
}

function hasDictionary(type: DataType): boolean {
    if (DataType.isDictionary(type)) return true;
    return (type.children ?? []).some((field) => hasDictionary(field.type as DataType));
}

/** Types of a stream's columns as the engine sees them: dictionaries with Int32 codes, everything may be NULL. */
export function streamColumnTypes(schema: Schema): ColumnType[] {
    const widen = (type: ColumnType): ColumnType => {
        if (type.layout === "dictionary") return { ...type, byteWidth: 4, indexSigned: true };
        return { ...type, children: type.children.map(widen) };
    };
    return schema.fields.map((field) => widen(columnTypeOf(field)));
}
