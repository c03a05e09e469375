// SPDX-License-Identifier: Apache-2.0
import type { ColumnType } from "../../model/column-type.js";
import { sumOf } from "../../model/sizes.js";
import { deviceConstants } from "../../model/device-constants.js";
import type { KeyStatistics } from "../statistics.js";

/** A row of a join, with its key, has no more bytes on the GPU. */
export const rowBytesMax = 4 * deviceConstants.rowWordsMax;
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
