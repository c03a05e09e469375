// SPDX-License-Identifier: Apache-2.0
import { DataType } from "apache-arrow";

import type { ColumnType, KeySpec } from "../../model/column-type.js";
import type { LogicalColumn } from "../../plan/logical.js";
import { sumOf } from "../../model/sizes.js";
import { deviceConstants } from "../../model/device-constants.js";
import type { KeyStatistics } from "../statistics.js";

/** A row of a join, with its key, has no more bytes on the GPU; of a join by baselines, no more than these. */
export const rowBytesMax = 4 * deviceConstants.joinWordsMax;
export const baselineRowBytesMax = 4 * deviceConstants.rowWordsMax;
/** Columns of a row beside its key; values of 16 bytes count twice. */
export const { rowColumnsMax } = deviceConstants;
/** The GPU compares keys of no more bytes. */
export const { keyBytesMax } = deviceConstants;
export const dictionaryIndexBytes = 4;

/** Bytes of a value on the GPU; 0: it cannot be there. */
export function chunkWidth(type: ColumnType): number {
    if (type.layout === "bool") return 1;
    if (type.layout === "dictionary") return dictionaryIndexBytes;
    if (type.layout !== "fixed" || type.byteWidth > deviceConstants.valueBytesMax) return 0;
    return Number.isInteger(Math.log2(type.byteWidth)) ? type.byteWidth : 0;
}

/** Bytes of a row's number where there are so many rows. */
export function rowNumberBytes(rows: number): 4 | 8 {
    return rows < 2 ** 32 ? 4 : 8;
}

/** Bytes of the number that stands for a text, or for bytes of any length, on the GPU: equal ones have the same. */
export const textCodeBytes = 4;

export function isText({ layout }: ColumnType): boolean {
    return layout === "binary" || layout === "view";
}

/** Rows of a stream come once, so that texts of its columns go along as numbers. */
export function isNumbered({ type, origin }: Pick<LogicalColumn, "type" | "origin">): boolean {
    return isText(type) && origin?.input.streamed === true;
}

/** Is the key a text, which is compared by its number, or by its bytes where the key has a width? */
export function isTextKey({ kind, kindOfValue }: KeySpec): boolean {
    return kind === "bytes" || (kind === "dictionaryValue" && kindOfValue === "bytes");
}

/** Bytes of a key as the GPU compares it. */
export function keyWidth(key: KeySpec): number {
    return isTextKey(key) && key.width === 0 ? textCodeBytes : key.width;
}

/** Words of 8 bytes that packed keys may take: their rows have no more (keyWordsMax in native/executor/streaming). */
export const keyWordsMax = 4;

/** Where a packed key is. */
export interface KeyPlace {
    readonly word: number;
    readonly offset: number;
}

/** Keys one behind the other, but that none crosses a word unless it begins one; as packed_key_places() in native/. */
export function placesOf(widths: readonly number[]): { places: KeyPlace[]; words: number; end: number } {
    const places: KeyPlace[] = [];
    let at = 0;
    for (const width of widths) {
        const inWord = at % keyBytesMax;
        if (inWord !== 0 && inWord + width > keyBytesMax) at += keyBytesMax - inWord;
        places.push({ word: Math.floor(at / keyBytesMax), offset: at % keyBytesMax });
        at += width;
    }
    return { places, words: Math.ceil(at / keyBytesMax), end: at };
}

/** Bits of a byte, one for each key that may be NULL. */
export const flaggedKeysMax = 8;

/** Keys of a row that workers number together (kTupleKeysMax in native/executor/streaming). */
export const numberedKeysMax = 64;

/**
 * Host memory of such numbers: of each different key its values behind a bit for each, where they lie, and its places
 * in tables, of which those that were outgrown stay.
 */
export function numberedKeyBytes(keys: readonly KeySpec[]): number {
    return Math.ceil(keys.length / 8) + sumOf(keys.map(keyWidth)) + numberPlacesBytes;
}

/** Bytes of a string's address and length, and of up to four slots of 8. */
export const numberPlacesBytes = 48;

/** Decimals of so many digits fit 64 bits, whatever their type has. */
const narrowDigits = 18;

/** Decimals of 128 bits that are sent in 64; a value that does not fit them is found when it is read. */
export function isNarrowDecimal({ field, type }: Pick<LogicalColumn, "field" | "type">): boolean {
    return (
        type.layout === "fixed" &&
        type.order === "decimal" &&
        type.byteWidth === 16 &&
        DataType.isDecimal(field.type) &&
        field.type.precision <= narrowDigits
    );
}

/** Bytes of a row on its way to the GPU; `hasKeyBits`: a bit says whether there is a key. */
export function inputRowBytes(keyBytes: number, widths: readonly number[], hasKeyBits: boolean): number {
    return keyBytes + sumOf(widths) + (hasKeyBits ? 1 / 8 : 0);
}

/** Mean bytes of a packed key: the bits in which values differ, or `bits`, all that are left, where that is less. */
export function packedKeyBytes(bits: number, statistics: KeyStatistics | undefined): number {
    const { min, max } = statistics ?? { min: null, max: null };
    const isKnown = min !== null && max !== null && max >= min;
    return Math.min(bits, isKnown ? (max - min).toString(2).length : bits) / 8;
}
