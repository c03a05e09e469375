// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the join of partitioned tuples; nothing else in cuda/pair_join has any. None is measured yet.
namespace spillway::cuda { inline namespace pair_join {

// Two blocks per multiprocessor leave each thread 64 registers, and the tables below fit shared memory twice for every
// width on an H200 and once on devices that give a block 96 KiB.
constexpr int kPairThreads = 512;
constexpr int kPairBlocksPerMultiprocessor = 2;

// Build tuples that a block holds with their hash table: 14 bytes each with keys and row numbers of 4 bytes (56 KiB),
// 22 with those of 8 (88 KiB). Larger partitions are joined in several parts, each of which reads the probe tuples
// again.
constexpr uint32_t kBuildPartTuples = 4096;
// As many heads as there are tuples at most: a chain has one tuple on average, and no more in a partition that is full.
constexpr uint32_t kTupleSlotBits = 12;
// Probe tuples of one unit of work. Its table is built again for every unit of a partition, at most 4,096 tuples for
// 16,384; without units a hot foreign key would keep a single multiprocessor busy.
constexpr uint32_t kProbePartTuples = 16384;
// Tuples whose loads a thread has under way together.
constexpr int kProbeItems = 4;

// Share of a block's room that the mean partition may fill. Sizes of partitions of n tuples scatter by sqrt(n), 2 % of
// 3,072; the rest is for keys that come a few times.
constexpr double kTuplePartitionFill = 0.75;
// Both partitionings have two passes of at most 8 bits.
constexpr int kTuplePassBitsMax = 8;
constexpr int kTupleRadixBitsMax = 2 * kTuplePassBitsMax;

// The smallest buckets that a partitioning may hand over: a part then has at most 32 of them, one per lane of the warp
// that looks them up.
constexpr uint32_t kBucketTuplesMin = 512;

// Pairs that a warp reserves at once. Memory for a chunk per warp is taken in addition: 2.2 M pairs with 4,224 warps.
constexpr uint32_t kPairChunkRows = 512;

}}  // namespace spillway::cuda::pair_join
