// SPDX-License-Identifier: Apache-2.0
import type { ColumnType } from "../../model/column-type.js";

/** A row on the GPU, with its key, has no more bytes (kRowWordsMax in cuda/radix_partition/row_layout.hpp). */
export const rowBytesMax = 32;
/** The GPU compares keys of no more bytes. */
export const keyBytesMax = 8;
const valueBytesMax = 16;
export const dictionaryIndexBytes = 4;

/** Bytes of a value on the GPU; 0: it cannot be there. */
export function chunkWidth(type: ColumnType): number {
    if (type.layout === "bool") return 1;
    if (type.layout === "dictionary") return dictionaryIndexBytes;
    if (type.layout !== "fixed" || type.byteWidth > valueBytesMax) return 0;
    return Number.isInteger(Math.log2(type.byteWidth)) ? type.byteWidth : 0;
}
