// SPDX-License-Identifier: Apache-2.0
// Values of Arrow columns that their type cannot hold, read from the raw buffers.
import { DataType, UnionMode, type Data, type Field, type Table, type Union, type Vector } from "apache-arrow";
import { fixedWidth, integerOfBytes } from "./cells.js";

const dayUnits = [86_400n, 86_400_000n, 86_400_000_000n, 86_400_000_000_000n];
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** What is wrong with a number of the type; undefined where nothing is. */
function wrongNumber(type: DataType, bytes: Uint8Array): string | undefined {
    if (DataType.isDecimal(type)) {
        const value = integerOfBytes(bytes);
        const most = 10n ** BigInt(type.precision);
        return value < most && value > -most ? undefined : `${value} has more than ${type.precision} digits`;
    }
    if (DataType.isTime(type)) {
        const value = integerOfBytes(bytes);
        return value >= 0n && value < dayUnits[type.unit]! ? undefined : `${value} is no time of a day`;
    }
    if (DataType.isDate(type) && type.unit === 1) {
        const value = integerOfBytes(bytes);
        return value % 86_400_000n === 0n ? undefined : `${value} ms is no day`;
    }
    return undefined;
}

class Finder {
    public readonly found: string[] = [];

    #add(column: string, row: number, what: string): void {
        if (this.found.length < 10) this.found.push(`${column}, row ${row}: ${what}`);
    }

    public vector(column: string, field: Field, { data }: Vector): void {
        for (const part of data) this.data(column, field, part);
    }

    /** `isUsed` false for rows that no value of the parent shows. */
    public data(column: string, field: Field, data: Data, isUsed: (row: number) => boolean = () => true): void {
        const type = field.type as DataType;
        const hasNulls = !DataType.isUnion(type) && !DataType.isNull(type);
        const isValue = (row: number): boolean => isUsed(row) && (!hasNulls || data.getValid(row));
        for (let row = 0; row < data.length; row++) {
            if (isUsed(row) && hasNulls && !field.nullable && !data.getValid(row)) this.#add(column, row, "NULL");
        }
        const width = fixedWidth(type);
        if (width !== null) this.#numbers(column, type, data, width, isValue);
        else if (DataType.isDictionary(type)) this.#dictionary(column, data, isValue);
        else if (data.valueOffsets !== undefined && !DataType.isUnion(type)) this.#offsets(column, type, data, isValue);
        if (DataType.isUnion(type)) return this.#union(column, data, isUsed);
        const isEach = DataType.isStruct(type) ? isValue : undefined;
        data.children.forEach((child, i) => {
            const of = type.children[i]!;
            this.data(`${column}.${of.name}`, of, child, isEach);
        });
    }

    #numbers(column: string, type: DataType, data: Data, width: number, isValue: (row: number) => boolean): void {
        const { buffer, byteOffset, byteLength } = data.values as unknown as ArrayBufferView;
        if (byteLength < data.length * width) this.#add(column, data.length - 1, "it lies behind its buffer");
        for (let row = 0; row < data.length; row++) {
            if (!isValue(row)) continue;
            const wrong = wrongNumber(type, new Uint8Array(buffer, byteOffset + row * width, width));
            if (wrong !== undefined) this.#add(column, row, wrong);
        }
    }

    #dictionary(column: string, data: Data, isValue: (row: number) => boolean): void {
        const dictionary = data.dictionary!;
        const indices = data.values as unknown as ArrayLike<number | bigint>;
        for (let row = 0; row < data.length; row++) {
            const index = Number(indices[row]);
            if (isValue(row) && !(index >= 0 && index < dictionary.length)) {
                this.#add(column, row, `index ${index} in a dictionary of ${dictionary.length}`);
            }
        }
        const { type } = dictionary;
        this.vector(`${column}.values`, { name: "values", type, nullable: true } as Field, dictionary);
    }

    #offsets(column: string, type: DataType, data: Data, isValue: (row: number) => boolean): void {
        const offsets = data.valueOffsets as unknown as ArrayLike<number | bigint>;
        const bytes = data.values as Uint8Array | undefined;
        const most = data.children[0]?.length ?? bytes?.length ?? 0;
        const isText = DataType.isUtf8(type) || DataType.isLargeUtf8(type);
        for (let row = 0; row < data.length; row++) {
            const [begin, end] = [Number(offsets[row]), Number(offsets[row + 1])];
            if (!(begin >= 0 && begin <= end && end <= most)) this.#add(column, row, `[${begin}, ${end}) of ${most}`);
            else if (isText && isValue(row)) this.#text(column, row, bytes!.subarray(begin, end));
        }
    }

    #text(column: string, row: number, bytes: Uint8Array): void {
        try {
            utf8.decode(bytes);
        } catch {
            this.#add(column, row, "it is no UTF-8");
        }
    }

    #union(column: string, data: Data, isUsed: (row: number) => boolean): void {
        const type = data.type as unknown as Union;
        const ids = data.typeIds as unknown as Int8Array;
        const known = Array.from(type.typeIds);
        for (let row = 0; row < data.length; row++) {
            const child = known.indexOf(ids[row]!);
            if (!isUsed(row)) continue;
            if (child < 0) {
                this.#add(column, row, `type id ${ids[row]}`);
                continue;
            }
            const at = type.mode === UnionMode.Dense ? (data.valueOffsets as unknown as Int32Array)[row]! : row;
            const { length } = data.children[child]!;
            if (!(at >= 0 && at < length)) this.#add(column, row, `value ${at} of ${length}`);
        }
    }
}

/** The first values that their column cannot hold, in words: none in a sound table. */
export function misfits(table: Table): string[] {
    const finder = new Finder();
    table.schema.fields.forEach((field, column) => {
        for (const batch of table.batches) finder.data(field.name, field, batch.data.children[column]!);
    });
    return finder.found;
}
