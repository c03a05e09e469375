// SPDX-License-Identifier: Apache-2.0
import { clamp } from "../../model/sizes.js";
import { deviceConstants } from "../../model/device-constants.js";

const { joinPartitionFill, joinPartitionRowsMax, joinReservedBytes, joinTableRowBytes } = deviceConstants;
const { sortSharedBytes, sortStaticBytes, bucketRows, radixPassBitsMax } = deviceConstants;

// Rules of thumb for the first pass: how large partitions may be so that blocks have room for their parts. Kernels
// decide for themselves when they run. Where these rules are wrong by some rows, nothing fails: partitions are a little
// too large or too small.

/** Bits of the key's hash in all. */
const hashBits = 32;

/** Two bytes of a row's place beside one of 16 bytes, and a third to spare. */
const rowsOfSorted = (16 / 18) * (2 / 3);

/** Mean bytes of a partition of which a 2^8th is sorted in the shared memory of a block. */
export function sortedPartitionBytes(blockBytes: number): number {
    return Math.min(sortSharedBytes, blockBytes - sortStaticBytes) * rowsOfSorted * 2 ** radixPassBitsMax;
}

/** Rows that are joined by a table in shared memory. */
function joinedRows(blockBytes: number, rowBytes: number): number {
    const fitting = ((blockBytes - joinReservedBytes) / (rowBytes + joinTableRowBytes)) * joinPartitionFill;
    return Math.max(1, Math.min(joinPartitionRowsMax, Math.floor(fitting)));
}

/** Mean bytes of a partition of which a 2^8th fits the shared memory of a block with a hash table. */
export function joinedPartitionBytes(blockBytes: number, rowBytes: number): number {
    return joinedRows(blockBytes, rowBytes) * rowBytes * 2 ** radixPassBitsMax;
}

/** Bits of the pass before rows of a partition are sorted by bucket. */
export function sortPassBits(partitionRows: number, radixBits: number): number {
    const parts = partitionRows / bucketRows;
    return clamp(Math.ceil(Math.log2(Math.max(1, parts))), 0, Math.min(radixPassBitsMax, hashBits - radixBits));
}
