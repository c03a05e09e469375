// SPDX-License-Identifier: Apache-2.0
import { clamp } from "../../model/sizes.js";

/** Bits of a pass in GPU memory, at most (kPassBitsMax in cuda/radix_partition). */
const passBitsMax = 8;
/** Bits of the key's hash in all. */
const hashBits = 32;

/** What a block sorts in, two of them on a multiprocessor: sort_shared_bytes in cuda/row_index/row_index.cu. */
const sortBytesMax = 110 * 1024;
const sortReservedBytes = 1024;
/** Two bytes of a row's place beside one of 16 bytes, and a third to spare. */
const rowsOfSorted = (16 / 18) * (2 / 3);
/** Rows of a bucket, at most (kBucketRows in cuda/stream/stream_policy.hpp). */
const bucketRows = 4;

/** As block_room in cuda/hash_join/join_plan.cu: a bucket and a link of 4 bytes for each row, and queues of pairs. */
const joinedRowsMax = 8192;
const joinRowBytes = 8;
const joinFill = 0.97;
const joinReservedBytes = 8 * 1024;

/** Mean bytes of a partition of which a 2^8th is sorted in the shared memory of a block. */
export function sortedPartitionBytes(blockBytes: number): number {
    return Math.min(sortBytesMax, blockBytes - sortReservedBytes) * rowsOfSorted * 2 ** passBitsMax;
}

function joinedRows(blockBytes: number, rowBytes: number): number {
    const fitting = ((blockBytes - joinReservedBytes) / (rowBytes + joinRowBytes)) * joinFill;
    return Math.max(1, Math.min(joinedRowsMax, Math.floor(fitting)));
}

/** Mean bytes of a partition of which a 2^8th fits the shared memory of a block with a hash table. */
export function joinedPartitionBytes(blockBytes: number, rowBytes: number): number {
    return joinedRows(blockBytes, rowBytes) * rowBytes * 2 ** passBitsMax;
}

const bitsFor = (parts: number, radixBits: number): number =>
    clamp(Math.ceil(Math.log2(Math.max(1, parts))), 0, Math.min(passBitsMax, hashBits - radixBits));

/** Bits of the pass before rows of a partition are sorted by bucket (RowIndex::build). */
export function sortPassBits(partitionRows: number, radixBits: number): number {
    return bitsFor(partitionRows / bucketRows, radixBits);
}

/** Bits of the pass before they are joined by tables in shared memory (second_pass_bits of cuda/hash_join). */
export function joinPassBits(partitionRows: number, radixBits: number, blockBytes: number, rowBytes: number): number {
    return bitsFor(partitionRows / joinedRows(blockBytes, rowBytes), radixBits);
}
