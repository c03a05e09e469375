// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the partitioning by shared histograms; nothing else in cuda/shared_histogram_join has any. None
// is measured yet.
namespace spillway::cuda { inline namespace shared_histogram_join {

// All threads of a block share one histogram, so that its shared memory (12 KiB for the largest fan-out) does not limit
// how many threads there are. Each thread loads so many tuples into registers before it looks at the first.
constexpr int kReorderThreads = 512;
constexpr int kReorderBlocksPerMultiprocessor = 2;
constexpr int kReorderItems = 8;
constexpr uint32_t kReorderTileTuples = kReorderThreads * kReorderItems;

// A pass makes at most 1,024 partitions, as the first of the paper does (section 3.2.1).
constexpr int kReorderPassBitsMax = 10;
constexpr int kReorderFanOutMax = 1 << kReorderPassBitsMax;
// By default half of the bits are for each of two passes where there are more than these.
constexpr int kReorderEvenBitsMax = 8;

// Tuples that share a histogram: 64 of each of 256 partitions on average, 256 bytes of each column side by side. Larger
// chunks have smaller histograms, 2^27 tuples 17 MB of 64-bit counters now, but fewer blocks to share uneven
// partitions.
constexpr uint64_t kChunkTuples = 16384;

constexpr int kOffsetThreads = 256;

}}  // namespace spillway::cuda::shared_histogram_join
