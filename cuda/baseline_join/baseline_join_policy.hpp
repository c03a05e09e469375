// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

// The numbers that tune the joins of cuda/baseline_join; none changes results but for the order of rows. None is
// measured yet where no measurement is named: these joins are what others are compared with.
namespace spillway::cuda { inline namespace baseline_join {

// Chunks on their way in joins that stream: one is copied while the other is joined, as with two streams.
constexpr uint32_t kStreamedChunks = 2;

// Result rows that a chunk's join has in device memory at once, at least, beside the buffers that they leave from:
// fewer would cut joins into pieces of which each reads keys of the whole build side.
constexpr uint64_t kPieceRows = 1ULL << 16;
// Rows of a partition at least, where there are several: partitions fill a block's shared memory, or half of it.
constexpr uint64_t kResidentPartitionRows = 1ULL << 11;
// Result rows of which warps leave room unused, at most: 32 each, of 2,960 warps on 148 multiprocessors.
constexpr uint64_t kOpenResultRows = 1ULL << 18;

// Blocks that insert and look up rows, per multiprocessor: what waits for the link should be much.
constexpr uint32_t kTableThreads = 256;
constexpr uint32_t kTableBlocksPerMultiprocessor = 8;

// Slots that one insertion may walk over. n rows of one key take n * n / 64 steps, 32 slots each: 2^22 of them here.
constexpr uint64_t kSlotWalkMax = 1ULL << 14;
constexpr uint64_t kSlotsMin = 64;
// Taken slots in a hundred at most, unless somebody asks for another load.
constexpr uint32_t kTableLoadPercent = 50;
// In a hundred; an empty slot ends every walk. Runs of taken slots in a table of n different keys at load a are some
// ln(n) / (a - 1 - ln(a)) long at most: 3,600 slots of 2^28 keys at 0.9, and 15,000 at 0.95, which would be refused.
constexpr uint32_t kTableLoadMax = 90;
// More than any memory holds, and little enough for products with widths to stay within 64 bits.
constexpr uint64_t kTableRowsMax = 1ULL << 48;

// Device memory that a table without given shares leaves to the rest of its join, beside copies of chunks.
constexpr uint64_t kTableReserveBytes = 64ULL << 20;
constexpr uint64_t kTableReserveChunks = 4;

// The CPU's partitioner. Rows of a partition are written this many bytes at a time or more, from one buffer per
// partition and thread: two cache lines, as prefetchers of x86 fetch pairs, 1 MiB of buffers for 2^13 partitions.
constexpr uint64_t kCombineBytesMin = 128;
// Rows that a thread takes at least: some 50 us of work, against 20 us to start the thread.
constexpr uint64_t kRowsPerThreadMin = 1ULL << 14;
// Between two looks at what copy engines have brought in while other threads partition: a chunk takes a millisecond.
constexpr std::chrono::microseconds kBesideWait{100};
// Rows between two looks at whether the join was cancelled.
constexpr uint64_t kRowsPerLook = 1ULL << 18;

}}  // namespace spillway::cuda::baseline_join
