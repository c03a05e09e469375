// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the coherent join; none changes results but for the order of rows. None is measured yet where
// no measurement is named.
namespace spillway::cuda {

// A page of rows: the smallest that cuda/tier hands out. A partition leaves half a page empty, and a page of another
// tier follows after it at the latest, so that small pages mix the tiers best; 2^30 rows of 16 bytes are 2^18 of them.
constexpr uint64_t kCoherentPageBytes = 64 << 10;

// Build rows that are gathered and indexed at once: with rows of 16 bytes 128 MiB, which take 0.35 ms at the 376 GB/s
// of NVLink 4, against some 0.05 ms to launch what sorts them. No more than this part of the memory limit, unless the
// mean partition is larger than that.
constexpr uint64_t kCoherentGroupRows = 1ULL << 23;
constexpr uint64_t kGroupShare = 32;
constexpr uint64_t kPartitionShare = 8;

// With a second pass of both sides: rows of a side that are gathered at once, with rows of 16 bytes 128 MiB, no more
// than this part of the memory limit: a group has two slots of both sides, one of which is gathered, and what they are
// partitioned into. If the mean partition is larger than that, up to the second part of the limit. Smaller groups cost
// more than their memory is worth: each takes some 0.1 ms beside its rows. Over NVLink 4, 2^29 rows of each side at 4
// GiB, 64 groups of 2^23 rows with two slots were joined in 47 ms, 128 of 2^22 with three in 55.
constexpr uint64_t kSecondPassRows = 1ULL << 23;
constexpr uint64_t kSecondPassShare = 24;
constexpr uint64_t kSecondPassLargeShare = 12;
constexpr uint32_t kSecondPassSlots = 2;
// Partitions of a group: each has up to 2^8 regions of its own.
constexpr uint64_t kSecondPassPartitions = 64;

// Probe rows that are gathered at once where results are rows: they are read twice, once to count and once to write.
constexpr uint64_t kStagedRows = 1ULL << 22;
constexpr uint64_t kStagedShare = 64;

// Gathered groups and batches that wait for their turn; one more is being joined.
constexpr uint32_t kUnitsAhead = 3;

// Tiles of a probe of far pages at once: 16 blocks for each place where one can run on an H200.
constexpr uint64_t kFarProbeTiles = 1ULL << 14;

// Blocks that gather: a quarter of the multiprocessors, each for itself (CoherentOptions::gather_alone). A block has
// 64 KiB of loads under way, all of an H200 2 MiB, where 376 GB/s at a latency of some 2 us take 0.75. Over NVLink 4 33
// blocks of 512 threads were as fast as 66 and 132 (45 ms for 15.6 GB). Beside gathering blocks that mix with them,
// kernels of the second pass took 41 to 55 ms for 2^29 rows of each side, 8 of that where they are alone: their blocks
// stay until there is no work left, and those that find no place begin when the others have ended.
constexpr uint32_t kGatherThreads = 1024;
constexpr uint32_t kGatherLoads = 4;
constexpr uint32_t kGatherMultiprocessorShare = 4;

// GPU memory that the cache of pages leaves free: lists on their way, scratch of prefix sums, rounding.
constexpr uint64_t kCoherentReserveBytes = 32 << 20;
constexpr uint64_t kCoherentReserveShare = 64;

}  // namespace spillway::cuda
