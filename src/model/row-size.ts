// SPDX-License-Identifier: Apache-2.0
import type { ColumnType } from "./column-type.js";

/**
 * What one row may take without its values of variable length, and one value of a column in Arrow memory at least: the
 * engine's own limit (kRowBytesMax in native/model/type_size.hpp, which says why).
 */
export const largestRowBytes = 2 ** 30;

function sum(types: readonly ColumnType[]): number {
    return types.reduce((bits, type) => bits + rowBits(type), 0);
}

function widest(types: readonly ColumnType[]): number {
    return types.reduce((bits, type) => Math.max(bits, rowBits(type)), 0);
}

/**
 * The least bits that one value of this type takes in Arrow memory when each of its lists of variable size has one item
 * at most; follows row_bits in native/model/type_size.cpp. Products of list sizes may reach Infinity.
 */
function rowBits(type: ColumnType): number {
    const validity = 1;
    switch (type.layout) {
        case "null":
            return validity;
        case "bool":
            return validity + 1;
        case "fixed":
        case "binary":
            return validity + 8 * type.byteWidth;
        case "view":
            return validity + 128;
        case "dictionary":
            return Math.max(validity + 8 * Math.max(type.byteWidth, 4), widest(type.children));
        case "list":
            return Math.max(validity + 8 * type.byteWidth, widest(type.children));
        case "fixedList": {
            const item = widest(type.children);
            return Math.max(validity + type.listSize * item, item);
        }
        case "struct":
            return validity + sum(type.children);
        case "unionSparse":
            return 8 + sum(type.children);
        case "unionDense":
            return 8 + 32 + widest(type.children);
    }
}

/** The same in bytes; Infinity where JavaScript cannot count them. */
export function smallestRowBytes(type: ColumnType): number {
    const bytes = Math.floor(rowBits(type) / 8);
    return Number.isSafeInteger(bytes) ? bytes : Infinity;
}

/** A union without members in it: no row of it can exist. */
export function hasEmptyUnion(type: ColumnType): boolean {
    const isUnion = type.layout === "unionSparse" || type.layout === "unionDense";
    return (isUnion && type.children.length === 0) || type.children.some(hasEmptyUnion);
}
