// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the radix partition passes; pack_policy.hpp and pass_policy.hpp have those of some passes. A
// policy never changes results but for the order of rows inside a partition.
namespace spillway::cuda { inline namespace radix_partitioning {

// Threads of a block, and radix bits of one pass. 9 bits and more need more room for left-over rows than they leave for
// a tile. Two passes of 7 bits leave 8,192 rows of 2^27 in a partition, which fit shared memory with their hash table.
// 480 threads, two blocks per multiprocessor: one works in shared memory while the other waits at a barrier. H200, 2^27
// rows of 12 bytes, a pass over packed rows by ncu (its clocks): 512 threads that load rows into registers 1.11 ms;
// rows staged by bulk copies, one block of 1,024 threads 1.08, two of 480 0.97 (of 20 bytes 2.02, 1.77, 1.65).
constexpr int kScatterThreads = 480;
constexpr int kScatterBlocks = 2;
constexpr int kPassBitsMax = 8;
constexpr int kPassFanOutMax = 1 << kPassBitsMax;
// A pass of fewer bits has more room for rows, and kernels of its own but for columns of less than 4 bytes.
constexpr int kFewBits = 7;
constexpr int scatter_bits_max(int bits, bool has_narrow_columns) {
    return bits <= kFewBits && !has_narrow_columns ? kFewBits : kPassBitsMax;
}

// Rows per thread and tile at most, by row words: what fits shared memory twice (the tile that is sorted, the next one
// on its way) beside left-over rows, and the 64 registers of a thread once. Fewer rows make shorter runs per partition.
constexpr int scatter_items(int row_words, int bits) {
    const bool few = bits <= kFewBits;
    switch (row_words) {
        case 1:
            return 12;
        case 2:
            return few ? 12 : 10;
        case 3:
            return few ? 8 : 6;
        case 4:
            return 6;
        case 5:
        case 6:
            return few ? 4 : 3;
        case 7:
            return 2;
        default:
            return 3;
    }
}
// This much of a block's shared memory has no room for rows, because it holds counters of digits, the rest of the
// static memory and what the runtime keeps.
constexpr uint32_t scatter_reserved_bytes(int bits) {
    return (16U << bits) + 1408;
}
// Tiles have a multiple of this many rows: columns of one byte then begin at multiples of 16 bytes, and tiles at words
// of bitmaps.
constexpr uint32_t kTileRowsStep = 32;

// Rows that global memory takes at once: whole sectors of 32 bytes. A sector that is written in parts is first read
// from memory: with runs that begin anywhere a pass of 2^12 partitions read 3.25 instead of 1.61 GB.
constexpr int store_group_size(int row_words) {
    return row_words % 2 != 0 ? 8 : row_words % 4 != 0 ? 4 : row_words % 8 != 0 ? 2 : 1;
}
// Runs begin at these multiples in shared memory: 16 bytes for bulk copies.
constexpr int run_alignment(int row_words) {
    return row_words % 2 != 0 ? 4 : row_words % 4 != 0 ? 2 : 1;
}
// Regions of partitions begin at these multiples, whatever the row.
constexpr uint64_t kRegionAlignRows = 8;

// Rows of more than kRowWordsMax words, of operators beyond GPU memory alone, which come no faster than the link (55
// GB/s): threads of a block, most rows of a tile, and what else a block has in shared memory (as above). Not measured.
constexpr int kWideThreads = 512;
constexpr uint32_t kWideTileRows = 2048;
constexpr uint32_t kWideReservedBytes = (12U << kPassBitsMax) + 1024 + 128;

constexpr int kHistogramThreads = 1024;
// Counters of one histogram over the keys: 64 KiB of shared memory at 14 bits leave room for two blocks. 2^27 keys:
// 0.15 ms at 2^12 counters, 0.16 at 2^14, 0.20 at 2^15 (one block), against 1 ms to read the rows' keys once more.
constexpr int kHistogramBitsMax = 15;

}}  // namespace spillway::cuda::radix_partitioning
