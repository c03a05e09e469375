// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the radix partition passes; nothing else in cuda/radix_partition has any. A policy never
// changes results but for the order of rows inside a partition.
namespace spillway::cuda {

// Threads of a block, and radix bits of one pass. H200, 2^27 rows of 12 bytes, one pass (floor at the copy rate of
// 3.98 TB/s: 0.81 ms): 512 threads and 7 bits 0.96 ms with two blocks per multiprocessor (0.90 in a prototype for
// this row alone, which took 0.95 for 8 bits with 1,024 threads, one block); 9 and more need more shared memory for
// open rows than they leave for a tile. Two passes of 7 bits leave 8,192 rows of 2^27 in a partition, which fit shared
// memory with their hash table.
constexpr int kScatterThreads = 512;
constexpr int kPassBitsMax = 8;
// The first pass has two kinds of columns to compile for, and needs no more: 15 bits are 7 and 8.
constexpr int kFirstPassBitsMax = 7;
constexpr int kPassFanOutMax = 1 << kPassBitsMax;

// Rows per thread and tile, by row words: as many as fit shared memory twice per multiprocessor and, in later passes
// (rows stay in registers from the load to the buffer), the 64 registers per thread that two blocks leave. Fewer rows
// make shorter runs per partition.
constexpr int scatter_items(int row_words, bool from_rows) {
    if (from_rows) return row_words <= 2 ? 16 : row_words <= 4 ? 8 : 4;
    return row_words <= 2 ? 16 : row_words <= 4 ? 12 : row_words <= 6 ? 8 : 4;
}

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

constexpr int kHistogramThreads = 1024;
// Counters of one histogram over the keys: 64 KiB of shared memory at 14 bits leave room for two blocks. 2^27 keys:
// 0.15 ms at 2^12 counters, 0.16 at 2^14, 0.20 at 2^15 (one block), against 1 ms to read the rows' keys once more.
constexpr int kHistogramBitsMax = 15;

}  // namespace spillway::cuda
