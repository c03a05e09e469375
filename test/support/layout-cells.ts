// SPDX-License-Identifier: Apache-2.0
// Cells of a relation in memory as the engine would read them: from the plain regions of a SourceLayout and nothing
// else. Written after the Arrow format, not after the code that makes layouts.
import { DataType, util, type Field, type Union } from "apache-arrow";
import type { BatchLayout, SourceLayout } from "../../src/model/column-type.js";
import { fixedWidth, floatCell, integerOfBytes, nullCell } from "./cells.js";

const decoder = new TextDecoder("utf-8", { fatal: true });
const hex = (bytes: Uint8Array): string => `x'${Buffer.from(bytes).toString("hex")}'`;
const bit = (bytes: Uint8Array, at: number): boolean => ((bytes[at >> 3]! >> (at & 7)) & 1) === 1;

type Cell = (row: number) => string;

class RegionReader {
    #node = 0;
    #buffer = 0;
    #view = 0;
    #dictionary = 0;

    constructor(
        private readonly layout: SourceLayout,
        private readonly batch: BatchLayout
    ) {}

    #next(): Uint8Array {
        return this.batch.memory[this.#buffer++] ?? new Uint8Array();
    }

    #offsets(width: 4 | 8): (row: number) => number {
        const bytes = this.#next();
        const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
        return (row) => (width === 8 ? Number(view.getBigInt64(row * 8, true)) : view.getInt32(row * 4, true));
    }

    column(type: DataType): Cell {
        const [length, nulls, bitOffset] = this.batch.nodes.slice(
            this.#node * 3,
            this.#node * 3 + 3
        ) as never as number[];
        this.#node++;
        if (DataType.isNull(type)) return () => nullCell;
        if (DataType.isUnion(type)) return this.#union(type);
        const validity = this.#next();
        const value = this.#values(type, bitOffset!);
        return (row) => {
            if (row >= length!) throw new Error(`row ${row} of a column of ${length} rows`);
            return nulls! > 0 && !bit(validity, bitOffset! + row) ? nullCell : value(row);
        };
    }

    #values(type: DataType, bitOffset: number): Cell {
        if (DataType.isDictionary(type)) return this.#codes(type);
        if (DataType.isBool(type)) {
            const bits = this.#next();
            return (row) => String(bit(bits, bitOffset + row));
        }
        const width = fixedWidth(type);
        if (width !== null) return this.#fixed(type, width);
        if (DataType.isUtf8View(type) || DataType.isBinaryView(type)) return this.#views(type);
        if (DataType.isStruct(type)) {
            const children = type.children.map((field) => this.column(field.type));
            return (row) => `{${children.map((child) => child(row)).join(",")}}`;
        }
        if (DataType.isFixedSizeList(type)) {
            const child = this.column(type.children[0]!.type);
            return (row) => list(child, row * type.listSize, (row + 1) * type.listSize);
        }
        const large = DataType.isLargeUtf8(type) || DataType.isLargeBinary(type) || DataType.isLargeList(type);
        const offsets = this.#offsets(large ? 8 : 4);
        if (type.children?.length > 0) {
            const child = this.column((type.children[0] as Field).type);
            return (row) => list(child, offsets(row), offsets(row + 1));
        }
        const bytes = this.#next();
        return (row) => bytesCell(type, bytes.subarray(offsets(row), offsets(row + 1)));
    }

    #fixed(type: DataType, width: number): Cell {
        const bytes = this.#next();
        return (row) => {
            const value = bytes.subarray(row * width, (row + 1) * width);
            if (value.length < width) throw new Error("a value lies outside of its buffer");
            if (DataType.isFloat(type)) return floatText(value);
            if (DataType.isFixedSizeBinary(type) || DataType.isInterval(type)) return hex(value);
            const number = integerOfBytes(value);
            return String(DataType.isInt(type) && !type.isSigned ? BigInt.asUintN(width * 8, number) : number);
        };
    }

    #views(type: DataType): Cell {
        const views = this.#next();
        const buffers = Array.from({ length: this.batch.variadicCounts[this.#view++]! }, () => this.#next());
        return (row) => {
            const view = new DataView(views.buffer, views.byteOffset + row * 16, 16);
            const length = view.getInt32(0, true);
            if (length <= 12) return bytesCell(type, views.subarray(row * 16 + 4, row * 16 + 4 + length));
            const offset = view.getInt32(12, true);
            return bytesCell(type, buffers[view.getInt32(8, true)]!.subarray(offset, offset + length));
        };
    }

    #codes(type: DataType & { indices: DataType; dictionary: DataType }): Cell {
        const codes = this.#fixed(type.indices, fixedWidth(type.indices)!);
        const values = this.layout.dictionaries[this.batch.dictionaries[this.#dictionary++]!]!;
        const batches = values.batches.map((batch) => ({
            rows: batch.rows,
            cell: new RegionReader(this.layout, batch).column(type.dictionary)
        }));
        return (row) => {
            let code = Number(codes(row));
            for (const { rows, cell } of batches) {
                if (code < rows) return cell(code);
                code -= rows;
            }
            throw new Error("a code lies outside of its dictionary");
        };
    }

    #union(type: Union): Cell {
        const ids = this.#next();
        const offsets = type.mode === 1 ? this.#offsets(4) : (row: number) => row;
        const children = type.children.map((field) => this.column(field.type));
        const child = (id: number): Cell => children[type.typeIds.indexOf(id)]!;
        return (row) => `<${ids[row]}:${child(ids[row]!)(offsets(row))}>`;
    }
}

function floatText(bytes: Uint8Array): string {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes.length === 2) return floatCell(util.uint16ToFloat64(view.getUint16(0, true)));
    return floatCell(bytes.length === 4 ? view.getFloat32(0, true) : view.getFloat64(0, true));
}

function bytesCell(type: DataType, bytes: Uint8Array): string {
    const text = DataType.isUtf8(type) || DataType.isLargeUtf8(type) || DataType.isUtf8View(type);
    return text ? JSON.stringify(decoder.decode(bytes)) : hex(bytes);
}

function list(child: Cell, begin: number, end: number): string {
    return `[${Array.from({ length: end - begin }, (_, i) => child(begin + i)).join(",")}]`;
}

/** cells[column][row] of all batches. */
export function layoutCells(layout: SourceLayout, types: readonly DataType[]): string[][] {
    const cells: string[][] = types.map(() => []);
    for (const batch of layout.batches) {
        const reader = new RegionReader(layout, batch);
        types.forEach((type, i) => {
            const cell = reader.column(type);
            for (let row = 0; row < batch.rows; row++) cells[i]!.push(cell(row));
        });
    }
    return cells;
}
