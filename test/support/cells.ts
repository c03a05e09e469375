// SPDX-License-Identifier: Apache-2.0
// Values of Arrow columns as canonical text, read from the raw buffers: two cells are equal exactly when their texts
// are. Vector.get() will not do: it rounds timestamps and decimals and hides what lies in the buffers.
import {
    DataType,
    Type,
    UnionMode,
    util,
    type Data,
    type Dictionary,
    type FixedSizeList,
    type Float,
    type Table,
    type Union,
    type Vector
} from "apache-arrow";

export const nullCell = "NULL";

const decoder = new TextDecoder("utf-8", { fatal: true });
const hex = (bytes: Uint8Array): string => `x'${Buffer.from(bytes).toString("hex")}'`;

export function floatCell(value: number): string {
    return Object.is(value, -0) ? "-0" : String(value);
}

/** Little-endian two's complement, as Arrow decimals are stored. */
export function integerOfBytes(bytes: Uint8Array): bigint {
    let value = 0n;
    for (let i = bytes.length - 1; i >= 0; --i) value = (value << 8n) | BigInt(bytes[i]!);
    return BigInt.asIntN(bytes.length * 8, value);
}

/** Bytes of one value, or null for types whose values differ in length. */
export function fixedWidth(type: DataType): number | null {
    if (DataType.isInt(type) || DataType.isDecimal(type)) return type.bitWidth / 8;
    if (DataType.isFixedSizeBinary(type)) return type.byteWidth;
    if (DataType.isFloat(type)) return [2, 4, 8][type.precision]!;
    if (DataType.isDate(type)) return type.unit === 0 ? 4 : 8;
    if (DataType.isTime(type)) return type.bitWidth / 8;
    if (DataType.isTimestamp(type) || DataType.isDuration(type)) return 8;
    if (DataType.isInterval(type)) return [4, 8, 16][type.unit]!;
    return null;
}

/** Bytes of row i of a column whose values all have the same width. */
function fixedBytes(data: Data, row: number, width: number): Uint8Array {
    const values = data.values as unknown as ArrayBufferView;
    return new Uint8Array(values.buffer, values.byteOffset + row * width, width);
}

function variableBytes(data: Data, row: number): Uint8Array {
    const offsets = data.valueOffsets as unknown as ArrayLike<number | bigint>;
    return (data.values as Uint8Array).subarray(Number(offsets[row]), Number(offsets[row + 1]));
}

function viewBytes(data: Data, row: number): Uint8Array {
    const view = fixedBytes(data, row, 16);
    const fields = new DataView(view.buffer, view.byteOffset, 16);
    const length = fields.getInt32(0, true);
    if (length <= 12) return view.subarray(4, 4 + length);
    const offset = fields.getInt32(12, true);
    return data.variadicBuffers[fields.getInt32(8, true)]!.subarray(offset, offset + length);
}

function childCells(child: Data, begin: number, end: number): string {
    const cells: string[] = [];
    for (let row = begin; row < end; ++row) cells.push(readCell(child, row));
    return `[${cells.join(",")}]`;
}

function unionCell(data: Data, row: number): string {
    const type = data.type as Union;
    const id = (data.typeIds as unknown as Int8Array)[row]!;
    const child = data.children[type.typeIdToChildIndex[id]!]!;
    const childRow = type.mode === UnionMode.Dense ? Number((data.valueOffsets as unknown as Int32Array)[row]) : row;
    return `<${id}:${readCell(child, childRow)}>`;
}

function validCell(data: Data, row: number): string {
    const { type } = data;
    switch (type.typeId) {
        case Type.Null:
            return nullCell;
        case Type.Bool:
            return ((data.values as Uint8Array)[(data.offset + row) >> 3]! >> ((data.offset + row) & 7)) & 1
                ? "true"
                : "false";
        case Type.Float:
            if ((type as Float).precision === 0) {
                return floatCell(util.uint16ToFloat64((data.values as Uint16Array)[row]!));
            }
            return floatCell((data.values as Float64Array)[row]!);
        case Type.Utf8:
        case Type.LargeUtf8:
            return JSON.stringify(decoder.decode(variableBytes(data, row)));
        case Type.Utf8View:
            return JSON.stringify(decoder.decode(viewBytes(data, row)));
        case Type.Binary:
        case Type.LargeBinary:
            return hex(variableBytes(data, row));
        case Type.BinaryView:
            return hex(viewBytes(data, row));
        case Type.Decimal:
            return integerOfBytes(fixedBytes(data, row, fixedWidth(type)!)).toString();
        case Type.FixedSizeBinary:
        case Type.Interval:
            return hex(fixedBytes(data, row, fixedWidth(type)!));
        case Type.Dictionary:
            return dictionaryCell(data as Data<Dictionary>, row);
        case Type.List:
        case Type.LargeList:
        case Type.Map: {
            const offsets = data.valueOffsets as unknown as ArrayLike<number | bigint>;
            return childCells(data.children[0]!, Number(offsets[row]), Number(offsets[row + 1]));
        }
        case Type.FixedSizeList: {
            const size = (type as FixedSizeList).listSize;
            return childCells(data.children[0]!, row * size, (row + 1) * size);
        }
        case Type.Struct:
            return `{${data.children.map((child) => readCell(child, row)).join(",")}}`;
        case Type.Union:
            return unionCell(data, row);
        default:
            // Integers, dates, times, timestamps and durations: whole numbers in a typed array of their width.
            return String((data.values as Int32Array | BigInt64Array)[row]);
    }
}

function dictionaryCell(data: Data<Dictionary>, row: number): string {
    const index = Number((data.values as unknown as Int32Array)[row]);
    return vectorCell(data.dictionary!, index);
}

export function readCell(data: Data, row: number): string {
    if (DataType.isUnion(data.type) || DataType.isNull(data.type)) return validCell(data, row);
    return data.getValid(row) ? validCell(data, row) : nullCell;
}

export function vectorCell(vector: Vector, row: number): string {
    let first = 0;
    for (const data of vector.data) {
        if (row < first + data.length) return readCell(data, row - first);
        first += data.length;
    }
    throw new Error(`row ${row} is outside a vector of ${vector.length} rows`);
}

/** A relation as text: what the reference operators work on. */
export interface CellTable {
    readonly names: readonly string[];
    readonly types: readonly DataType[];
    /** cells[column][row] */
    readonly cells: readonly (readonly string[])[];
    readonly rows: number;
}

/** Every cell of an Arrow table, column by column. */
export function cellTable(table: Table): CellTable {
    const cells = table.schema.fields.map((_, column) => {
        const texts: string[] = [];
        for (const batch of table.batches) {
            const data = batch.data.children[column]!;
            for (let row = 0; row < batch.numRows; ++row) texts.push(readCell(data, row));
        }
        return texts;
    });
    return {
        names: table.schema.fields.map((field) => field.name),
        types: table.schema.fields.map((field) => field.type),
        cells,
        rows: table.numRows
    };
}
