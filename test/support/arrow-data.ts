// SPDX-License-Identifier: Apache-2.0
// Plain values -> Arrow data, buffer by buffer, for every type that Arrow JS can read.
import type { Dictionary } from "apache-arrow";
import {
    DataType,
    makeData,
    Field,
    makeVector,
    RecordBatch,
    Schema,
    Struct,
    Table,
    Type,
    UnionMode,
    util,
    type Data,
    type FixedSizeList,
    type Float,
    type Union
} from "apache-arrow";
import { fixedWidth, nullCell } from "./cells.js";

/** Lists are arrays, structs are arrays by child, maps are arrays of [key, value], unions are [child, value]. */
export type PlainValue = null | bigint | number | boolean | string | Uint8Array | readonly PlainValue[];

function validity(values: readonly PlainValue[]): { nullBitmap?: Uint8Array; nullCount: number } {
    const nullCount = values.reduce<number>((count, value) => count + (value === null ? 1 : 0), 0);
    if (nullCount === 0) return { nullCount };
    const nullBitmap = new Uint8Array(((values.length + 63) >> 6) << 3);
    values.forEach((value, row) => {
        if (value !== null) nullBitmap[row >> 3]! |= 1 << (row & 7);
    });
    return { nullBitmap, nullCount };
}

// Arrow JS types makeData by the literal type, which is not known here.
const make = (parts: Record<string, unknown>): Data => makeData(parts as never);

function bytesOf(value: PlainValue): Uint8Array {
    if (value === null) return new Uint8Array();
    return typeof value === "string" ? new TextEncoder().encode(value) : (value as Uint8Array);
}

function buildVariable(type: DataType, values: readonly PlainValue[], large: boolean): Data {
    const pieces = values.map(bytesOf);
    const data = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    const offsets = new Float64Array(values.length + 1);
    pieces.forEach((piece, row) => {
        data.set(piece, offsets[row]);
        offsets[row + 1] = offsets[row]! + piece.length;
    });
    const valueOffsets = large ? BigInt64Array.from(offsets, BigInt) : Int32Array.from(offsets);
    return make({ type, length: values.length, ...validity(values), valueOffsets, data });
}

function buildView(type: DataType, values: readonly PlainValue[]): Data {
    const views = new Uint8Array(values.length * 16);
    const fields = new DataView(views.buffer);
    // Two data buffers, used in turn, so that the buffer index of a view matters.
    const buffers: number[][] = [[], []];
    values.forEach((value, row) => {
        const bytes = bytesOf(value);
        fields.setInt32(row * 16, bytes.length, true);
        views.set(bytes.subarray(0, bytes.length > 12 ? 4 : 12), row * 16 + 4);
        if (bytes.length <= 12) return;
        const buffer = buffers[row % 2]!;
        fields.setInt32(row * 16 + 8, row % 2, true);
        fields.setInt32(row * 16 + 12, buffer.length, true);
        buffer.push(...bytes);
    });
    const variadicBuffers = buffers.map((buffer) => Uint8Array.from(buffer));
    return make({ type, length: values.length, ...validity(values), views, variadicBuffers });
}

/** Values of one width as their little-endian bytes, then viewed as the array that Arrow JS wants for the type. */
function buildFixed(type: DataType, values: readonly PlainValue[], width: number): Data {
    const bytes = new Uint8Array(values.length * width);
    const view = new DataView(bytes.buffer);
    values.forEach((value, row) => {
        const at = row * width;
        if (value === null) return;
        if (value instanceof Uint8Array) bytes.set(value, at);
        else if (DataType.isFloat(type)) setFloat(view, at, type, Number(value));
        else {
            let rest = BigInt(value as bigint);
            for (let i = 0; i < width; ++i, rest >>= 8n) bytes[at + i] = Number(rest & 0xffn);
        }
    });
    const ArrayType = type.ArrayType as { new (buffer: ArrayBuffer): ArrayBufferView };
    return make({ type, length: values.length, ...validity(values), data: new ArrayType(bytes.buffer) });
}

function setFloat(view: DataView, at: number, type: Float, value: number): void {
    if (type.precision === 0) view.setUint16(at, util.float64ToUint16(value), true);
    else if (type.precision === 1) view.setFloat32(at, value, true);
    else view.setFloat64(at, value, true);
}

function buildBool(type: DataType, values: readonly PlainValue[]): Data {
    const data = new Uint8Array(((values.length + 63) >> 6) << 3);
    values.forEach((value, row) => {
        if (value === true) data[row >> 3]! |= 1 << (row & 7);
    });
    return make({ type, length: values.length, ...validity(values), data });
}

function buildList(type: DataType, values: readonly PlainValue[]): Data {
    const lists = values.map((value) => (value ?? []) as readonly PlainValue[]);
    const offsets = [0];
    for (const list of lists) offsets.push(offsets.at(-1)! + list.length);
    const large = type.typeId === Type.LargeList;
    const valueOffsets = large ? BigInt64Array.from(offsets, BigInt) : Int32Array.from(offsets);
    const child = buildData(type.children[0]!.type, lists.flat(1));
    return make({ type, length: values.length, ...validity(values), valueOffsets, child });
}

function buildFixedList(type: FixedSizeList, values: readonly PlainValue[]): Data {
    const absent = Array.from({ length: type.listSize }, () => null);
    const items = values.flatMap((value) => (value ?? absent) as readonly PlainValue[]);
    const child = buildData(type.children[0]!.type, items);
    return make({ type, length: values.length, ...validity(values), child });
}

function buildStruct(type: DataType, values: readonly PlainValue[]): Data {
    const children = type.children.map((field, index) =>
        buildData(
            field.type,
            values.map((value) => (value as readonly PlainValue[] | null)?.[index] ?? null)
        )
    );
    return make({ type, length: values.length, ...validity(values), children });
}

function buildUnion(type: Union, values: readonly PlainValue[]): Data {
    const dense = type.mode === UnionMode.Dense;
    const typeIds = new Int8Array(values.length);
    const valueOffsets = new Int32Array(values.length);
    const children: PlainValue[][] = type.children.map(() => []);
    values.forEach((value, row) => {
        const [index, item] = (value ?? [0, null]) as [number, PlainValue];
        typeIds[row] = type.typeIds[index]!;
        const child = children[index]!;
        valueOffsets[row] = child.length;
        if (dense) child.push(item);
        else children.forEach((other, at) => other.push(at === index ? item : null));
    });
    const data = children.map((items, index) => buildData(type.children[index]!.type, items));
    return make({ type, length: values.length, typeIds, children: data, ...(dense ? { valueOffsets } : {}) });
}

function textOf(value: PlainValue): string {
    if (value === null) return nullCell;
    return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : `${typeof value} ${String(value)}`;
}

/** A dictionary of the distinct values, in order of appearance. */
function buildDictionary(type: Dictionary, values: readonly PlainValue[]): Data {
    const indexOf = new Map<string, number>();
    const distinct: PlainValue[] = [];
    const indices = values.map((value) => {
        if (value === null) return null;
        const text = textOf(value);
        const index = indexOf.get(text) ?? distinct.push(value) - 1;
        indexOf.set(text, index);
        return BigInt(index);
    });
    return buildIndices(type, indices, buildData(type.dictionary, distinct));
}

function buildIndices(type: Dictionary, indices: readonly PlainValue[], dictionary: Data): Data {
    const data = buildFixed(type.indices, indices, type.indices.bitWidth / 8);
    const { nullBitmap, nullCount } = validity(indices);
    return make({
        ...{ type, length: indices.length, data: data.values as unknown, nullBitmap, nullCount },
        dictionary: makeVector(dictionary as never)
    });
}

export function buildData(type: DataType, values: readonly PlainValue[]): Data {
    const width = fixedWidth(type);
    if (width !== null) return buildFixed(type, values, width);
    switch (type.typeId) {
        case Type.Null:
            return make({ type, length: values.length });
        case Type.Bool:
            return buildBool(type, values);
        case Type.Utf8:
        case Type.Binary:
            return buildVariable(type, values, false);
        case Type.LargeUtf8:
        case Type.LargeBinary:
            return buildVariable(type, values, true);
        case Type.Utf8View:
        case Type.BinaryView:
            return buildView(type, values);
        case Type.List:
        case Type.LargeList:
        case Type.Map:
            return buildList(type, values);
        case Type.FixedSizeList:
            return buildFixedList(type as FixedSizeList, values);
        case Type.Struct:
            return buildStruct(type, values);
        case Type.Union:
            return buildUnion(type as Union, values);
        case Type.Dictionary:
            return buildDictionary(type as Dictionary, values);
        default:
            throw new Error(`no builder for ${String(type)}`);
    }
}

/** A column of a table, with all of its values. */
export interface PlainColumn {
    readonly name: string;
    readonly type: DataType;
    readonly values: readonly PlainValue[];
}

/** In batches of so many rows; one batch without rows where there are none. Columns without NULLs are not nullable. */
export function plainTable(columns: readonly PlainColumn[], rows: number, batchRows: number): Table {
    const schema = new Schema(columns.map(({ name, type, values }) => new Field(name, type, values.includes(null))));
    const batches: RecordBatch[] = [];
    for (let first = 0; first < rows || batches.length === 0; first += batchRows) {
        const length = Math.min(batchRows, rows - first);
        const children = columns.map(({ type, values }) => buildData(type, values.slice(first, first + length)));
        const struct = makeData({ type: new Struct(schema.fields), length, nullCount: 0, children });
        batches.push(new RecordBatch(schema, struct));
    }
    return new Table(schema, batches);
}
