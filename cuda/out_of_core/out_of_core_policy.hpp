// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune joins beyond GPU memory; nothing else in cuda/out_of_core has any but the sizes that a plan
// brings (OutOfCoreSizes). None changes results but for the order of rows.
namespace spillway::cuda {

// Rows of a piece that one block takes: 32 groups of 32 rows, so that eight warps have four each.
constexpr uint32_t kOutOfCoreThreads = 256;
constexpr uint32_t kTileRows = 1024;

// Rows that are packed together: the lanes of a warp turn 32 values of b bits into b words.
constexpr uint32_t kGroupRows = 32;
// Fragments begin at these multiples, in 32-bit words: 128 bytes, what one access of a warp covers.
constexpr uint32_t kFragmentAlignWords = 32;

// Blocks per partition that look for the extremes of its fields. Few, for partitions are many; a partition that has all
// rows of a chunk of 2^24 rows of 16 bytes is read by four multiprocessors then. Not measured yet.
constexpr uint32_t kExtremesBlocks = 4;

// Build rows per bucket of an index: more than kBucketRows / 2, at most kBucketRows (or twice that where keys have no
// more bits). A probe reads one sector of bucket offsets and 16 bytes per row of its bucket; an offset is 4 bytes, so
// that an index adds 1 to 2 bytes to a row. Not measured against others yet.
constexpr uint64_t kBucketRows = 4;

// Partitions that are sorted into an index together, and threads of a block that sorts a part of one. 8,192 counters of
// buckets at most, 32 KiB of shared memory, so that several blocks share a multiprocessor.
constexpr uint32_t kSortPartitions = 64;
constexpr uint32_t kSortThreads = 512;
constexpr uint32_t kSortBitsMax = 13;

// Buckets with more rows are searched by all lanes of a warp together, the lanes' buckets one after the other.
constexpr uint32_t kLongBucketRows = 64;

// Small arrays on their way from host to kernels at once (parcels.hpp).
constexpr uint32_t kParcelSlots = 16;

// Packed runs on their way to the host at once, one is packed meanwhile.
constexpr uint32_t kRunBuffers = 2;

// Build rows of spilled partitions that are indexed together, in chunks, if one partition has no more: while they are
// sorted no room becomes free for what is on the link, and the ring has room for some chunks only. Small groups cost
// more: what comes back of a run is one copy per group, and copies of 0.2 MB took 8.5 us each, twice their bytes' time
// (2^30 x 2^30 rows, 11.5 GB back in 480 ms with groups of 2 chunks of 2^22 rows).
constexpr uint64_t kGroupChunks = 16;

// Sums of one join at most: they are kept in registers.
constexpr uint32_t kSumColumnsMax = 4;

}  // namespace spillway::cuda
