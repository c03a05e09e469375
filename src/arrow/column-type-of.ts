// SPDX-License-Identifier: Apache-2.0
import { DataType, Precision, Type, UnionMode, type Field } from "apache-arrow";

import { SpillwayError } from "../errors.js";
import type { ColumnType, Layout, ValueOrder } from "../model/column-type.js";
import { hasEmptyUnion, largestRowBytes, smallestRowBytes } from "../model/row-size.js";
import { formatBytes } from "../model/sizes.js";
import { typeText } from "./type-text.js";

interface Physical {
    layout: Layout;
    order?: ValueOrder;
    byteWidth?: number;
    utf8?: boolean;
    listSize?: number;
    indexSigned?: boolean;
    typeIds?: number[];
    children?: ColumnType[];
}

const floatBytes: Readonly<Partial<Record<Precision, number>>> = {
    [Precision.HALF]: 2,
    [Precision.SINGLE]: 4,
    [Precision.DOUBLE]: 8
};
// How deep types may lie in one another: the engine's own limit (kDepthMax in native/addon/decode/column_type.cpp).
const largestDepth = 64;
const intervalBytes = [4, 8, 16]; // YEAR_MONTH, DAY_TIME, MONTH_DAY_NANO

/** A type that Spillway does not read, with the way out. */
export function unsupportedType(column: string, type: string, wayOut: string): SpillwayError {
    return new SpillwayError(
        "UNSUPPORTED_TYPE",
        `Column \`${column}\` has type ${type}, which cannot be read; ${wayOut}`,
        {
            column,
            type
        }
    );
}

function fixed(order: ValueOrder, byteWidth: number): Physical {
    return { layout: "fixed", order, byteWidth };
}

const integerBits = [8, 16, 32, 64];
const timeBits = [32, 64];
const decimalBits = [32, 64, 128, 256];

/** Width of a number whose type states it in bits; a damaged schema may state anything. */
function bitsToBytes(bits: number, known: readonly number[], type: DataType, column: string): number {
    if (known.includes(bits)) return bits / 8;
    throw unsupportedType(column, typeText(type), `a width of ${bits} bits is none that Arrow has`);
}

/** Width of a number whose type names it by a unit or precision. */
function unitToBytes(bytes: number | undefined, unit: number, type: DataType, column: string): number {
    if (bytes !== undefined) return bytes;
    throw unsupportedType(column, typeText(type), `unit or precision number ${unit} is none that Arrow has`);
}

function binary(byteWidth: 4 | 8, utf8: boolean): Physical {
    return { layout: "binary", order: "bytes", byteWidth, utf8 };
}

function scalarLayout(type: DataType, column: string): Physical | undefined {
    if (DataType.isNull(type)) return { layout: "null", byteWidth: 0 };
    if (DataType.isBool(type)) return { layout: "bool", order: "unsigned", byteWidth: 1 };
    if (DataType.isInt(type)) {
        return fixed(type.isSigned ? "signed" : "unsigned", bitsToBytes(type.bitWidth, integerBits, type, column));
    }
    if (DataType.isFloat(type)) {
        return fixed("float", unitToBytes(floatBytes[type.precision], type.precision, type, column));
    }
    if (DataType.isDate(type)) return fixed("signed", type.unit === 0 ? 4 : 8);
    if (DataType.isTime(type)) return fixed("signed", bitsToBytes(type.bitWidth, timeBits, type, column));
    if (DataType.isTimestamp(type) || DataType.isDuration(type)) return fixed("signed", 8);
    // Decimals of 32 and 64 bits compare like the integers they are; the engine's decimal order starts at 128 bits.
    if (DataType.isDecimal(type)) {
        return fixed(type.bitWidth > 64 ? "decimal" : "signed", bitsToBytes(type.bitWidth, decimalBits, type, column));
    }
    if (DataType.isInterval(type)) {
        return fixed("bytes", unitToBytes(intervalBytes[type.unit], type.unit, type, column));
    }
    if (DataType.isFixedSizeBinary(type)) {
        if (type.byteWidth < 1) throw unsupportedType(column, typeText(type), "drop the column: it holds nothing");
        return fixed("bytes", type.byteWidth);
    }
    if (DataType.isUtf8(type)) return binary(4, true);
    if (DataType.isLargeUtf8(type)) return binary(8, true);
    if (DataType.isBinary(type)) return binary(4, false);
    if (DataType.isLargeBinary(type)) return binary(8, false);
    if (DataType.isUtf8View(type)) return { layout: "view", order: "bytes", byteWidth: 4, utf8: true };
    if (DataType.isBinaryView(type)) return { layout: "view", order: "bytes", byteWidth: 4 };
    return undefined;
}

function hasDictionary({ layout, children }: ColumnType): boolean {
    return layout === "dictionary" || children.some(hasDictionary);
}

function nestedLayout(type: DataType, column: string, depth: number): Physical | undefined {
    const children = (): ColumnType[] => {
        if (depth < largestDepth) return type.children.map((child) => columnTypeOf(child, column, depth + 1));
        throw unsupportedType(
            column,
            typeName(type),
            `its types are nested deeper than ${largestDepth} levels: flatten it`
        );
    };
    if (DataType.isMap(type)) {
        const entries = type.children[0]?.type as DataType | undefined;
        // Arrow JS takes any child, and cannot even name the type then.
        if (type.children.length !== 1 || !DataType.isStruct(entries) || entries.children.length !== 2) {
            throw unsupportedType(column, typeName(type), "its entries are not pairs of a key and a value");
        }
        return { layout: "list", byteWidth: 4, children: children() };
    }
    if (DataType.isList(type)) return { layout: "list", byteWidth: 4, children: children() };
    if (DataType.isLargeList(type)) return { layout: "list", byteWidth: 8, children: children() };
    if (DataType.isFixedSizeList(type)) {
        if (type.listSize < 0) throw unsupportedType(column, typeText(type), "a list size below zero is damaged");
        return { layout: "fixedList", byteWidth: 0, listSize: type.listSize, children: children() };
    }
    if (DataType.isStruct(type)) return { layout: "struct", byteWidth: 0, children: children() };
    if (DataType.isUnion(type)) {
        const layout = type.mode === UnionMode.Dense ? "unionDense" : "unionSparse";
        if (type.typeIds.length !== type.children.length) {
            throw unsupportedType(column, typeText(type), "it has not one type id per child");
        }
        if (type.typeIds.some((id) => id < 0 || id > 127)) {
            throw unsupportedType(column, typeText(type), "its type ids are not all from 0 to 127");
        }
        return { layout, byteWidth: 1, typeIds: Array.from(type.typeIds), children: children() };
    }
    if (DataType.isDictionary(type)) {
        const value = physical(type.dictionary, column, depth + 1);
        const values = complete("values", true, value);
        if (hasDictionary(values)) {
            const wayOut = "write it with plain values in place of the dictionary inside of its dictionary";
            throw unsupportedType(column, typeText(type), wayOut);
        }
        return {
            layout: "dictionary",
            order: values.order,
            byteWidth: bitsToBytes(type.indices.bitWidth, integerBits, type, column),
            indexSigned: type.indices.isSigned,
            children: [values]
        };
    }
    return undefined;
}

function typeName(type: DataType): string {
    return Type[type.typeId] ?? typeText(type);
}

function physical(type: DataType, column: string, depth: number): Physical {
    const layout = scalarLayout(type, column) ?? nestedLayout(type, column, depth);
    if (layout !== undefined) return layout;
    throw unsupportedType(column, typeName(type), "cast it to a type that Arrow JS reads");
}

function complete(name: string, nullable: boolean, type: Physical): ColumnType {
    const column: ColumnType = {
        name,
        layout: type.layout,
        order: type.order ?? "bytes",
        byteWidth: type.byteWidth ?? 0,
        nullable,
        utf8: type.utf8 ?? false,
        listSize: type.listSize ?? 0,
        typeIds: type.typeIds ?? [],
        children: type.children ?? []
    };
    if (type.indexSigned !== undefined) column.indexSigned = type.indexSigned;
    return column;
}

/** Throws for a type of which the engine could not hold one row. */
function checkRowSize(type: ColumnType, field: Field, column: string): void {
    const text = typeText(field.type as DataType);
    if (hasEmptyUnion(type)) throw unsupportedType(column, text, "drop it: no row of a union without members exists");
    const bytes = smallestRowBytes(type);
    if (bytes <= largestRowBytes) return;
    const most = formatBytes(largestRowBytes);
    const least = bytes === Infinity ? "more than 2^53 bytes" : `at least ${bytes} bytes`;
    throw new SpillwayError(
        "UNSUPPORTED_TYPE",
        `Column \`${column}\` has type ${text}, of which one row takes ${least}: it cannot be read, a row may take ` +
            `${most}; drop the column, or write its fixed-size lists as lists of variable size`,
        { column, type: text, rowBytes: bytes === Infinity ? "more than 2^53" : bytes, largestRowBytes }
    );
}

/**
 * Physical type of a field. Every column may hold NULLs as far as this function knows: Arrow files promise
 * `nullable: false` and break it, so the null counts of the batches decide (see `narrowNullability`).
 */
export function columnTypeOf(field: Field, column: string = field.name, depth = 0): ColumnType {
    const type = complete(field.name, true, physical(field.type as DataType, column, depth));
    if (depth === 0) checkRowSize(type, field, column);
    return type;
}

/** Number of field nodes of a column in a record batch; a dictionary's values live in batches of their own. */
export function visitNodes(types: readonly ColumnType[], visit: (type: ColumnType) => void): void {
    for (const type of types) {
        visit(type);
        if (type.layout !== "dictionary") visitNodes(type.children, visit);
    }
}

/** Buffers of one field node, without the variadic data buffers of views. */
export function bufferCount(layout: Layout): number {
    switch (layout) {
        case "null":
            return 0;
        case "struct":
        case "fixedList":
        case "unionSparse":
            return 1;
        case "bool":
        case "fixed":
        case "view":
        case "list":
        case "unionDense":
        case "dictionary":
            return 2;
        case "binary":
            return 3;
    }
}

/** How a column of this type comes out of the engine: views as plain bytes, dictionaries with Int32 indices. */
export function resultColumnType(type: ColumnType): ColumnType {
    const children = type.children.map(resultColumnType);
    if (type.layout === "view") return { ...type, layout: "binary", byteWidth: 4, children };
    if (type.layout === "dictionary") return { ...type, byteWidth: 4, indexSigned: true, children };
    return { ...type, children };
}
