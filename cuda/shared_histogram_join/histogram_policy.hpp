// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the partitioning by shared histograms; nothing else in cuda/shared_histogram_join has any. Not
// measured yet, unless a figure says so.
namespace spillway::cuda { inline namespace shared_histogram_join {

// All threads of a block share one histogram, so that its shared memory (12 KiB for the largest fan-out) does not limit
// how many threads there are. Each thread loads so many tuples into registers before it looks at the first.
constexpr int kReorderThreads = 512;
constexpr int kReorderBlocksPerMultiprocessor = 2;
constexpr int kReorderItems = 8;

// Whether tuples are put into order in shared memory before they are written, and by how many for each thread: tiles of
// 64 KiB of tuples, twice on a multiprocessor. H200, 2^27 x 2^27 rows, keys of 4 bytes, both sides in two passes of 8
// bits: 24.8 ms without, 9.6 with tiles of 4,096 tuples of 8 bytes and 8.2 with 8,192. Without, the L2 cache was sent a
// sector for each tuple and column (203 M for 2^26 tuples in a first pass, where memory moved 1.25 GB).
constexpr bool kReorderStaged = true;
template <class Key, class Row>
constexpr int kStagedItems = sizeof(Key) + sizeof(Row) <= 8 ? 16 : 8;

// A pass makes at most 1,024 partitions, as the first of the paper does (section 3.2.1).
constexpr int kReorderPassBitsMax = 10;
constexpr int kReorderFanOutMax = 1 << kReorderPassBitsMax;
// By default half of the bits are for each of two passes where there are more than these. On the same rows passes of 10
// and 6 bits took 9.9 ms (24.1 without staging), and those of 10 and 9 bits, which make partitions of less than 512
// tuples, 29.5 without staging.
constexpr int kReorderEvenBitsMax = 8;

// Tuples that share a histogram: 64 of each of 256 partitions on average, 256 bytes of each column side by side. Larger
// chunks have smaller histograms, 2^27 tuples 17 MB of 64-bit counters now, but fewer blocks to share uneven
// partitions.
constexpr uint64_t kChunkTuples = 16384;

constexpr int kOffsetThreads = 256;

}}  // namespace spillway::cuda::shared_histogram_join
