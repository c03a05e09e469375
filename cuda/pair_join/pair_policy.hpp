// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the join of partitioned tuples; nothing else in cuda/pair_join has any. Not measured yet,
// unless a figure says so. Figures: H200, 2^27 x 2^27 rows, keys of 4 bytes, two payloads of 4 a side, each row matches
// once; from partitions to the result, of which the gathers of payloads are the most.
namespace spillway::cuda { inline namespace pair_join {

// Build tuples that a block holds with their hash table: 14 bytes each with keys and row numbers of 4 bytes (56 KiB),
// 22 with those of 8 (88 KiB). Larger partitions are joined in several parts, each of which reads the probe tuples
// again.
constexpr uint32_t kBuildPartTuples = 4096;
// Probe tuples of one unit of work. Its table is built again for every unit of a partition, at most 4,096 tuples for
// 16,384; without units a hot foreign key would keep a single multiprocessor busy.
constexpr uint32_t kProbePartTuples = 16384;

// What a block joins at a time. Two blocks of these per multiprocessor leave each thread 64 registers, and the tables
// fit shared memory twice for every width on an H200 and once on devices that give a block 96 KiB.
struct LargeParts {
    static constexpr int kThreads = 512;
    static constexpr int kBlocksPerMultiprocessor = 2;
    static constexpr uint32_t kBuildTuples = kBuildPartTuples;
    static constexpr uint32_t kProbeTuples = kProbePartTuples;
    // There are as many heads as tuples at most: a chain has one tuple on average, also in a full partition.
    static constexpr uint32_t kSlotBits = 12;
    static constexpr int kRadixBitsMax = 16;
};

// Partitions of less than 512 tuples, as R. Rui and Y.-C. Tu have them ("Fast Equi-Join Algorithms on GPUs: Design and
// Implementation", SSDBM 2017, section 3.2.1): 7 or 11 KiB for a block of few threads, of which a multiprocessor holds
// four. For 2^27 rows they take 19 radix bits. From them the result took 23.9 ms, from large parts 21.1.
struct SmallParts {
    static constexpr int kThreads = 256;
    static constexpr int kBlocksPerMultiprocessor = 4;
    static constexpr uint32_t kBuildTuples = 512;
    static constexpr uint32_t kProbeTuples = 2048;
    static constexpr uint32_t kSlotBits = 9;
    static constexpr int kRadixBitsMax = 20;
};

// Kernels that blocks launch for large partitions: for those of at least so many units, a block of the kernel for so
// many of them. All these kernels together have at most so many blocks for each multiprocessor, for each of which
// memory for a chunk per warp is taken. Whole joins of 2^27 x 2^27 rows with them and by units, staged passes of 1,024
// partitions first: Zipf 1.0 30.1 and 29.6 ms, 1.5 20.8 and 20.2, uniform 34.0 and 34.5. 100,000 x 100,000 rows of 100
// keys, whose partitions have two units each, took 5.6 and 2.6: no kernels are launched there, and a block has both.
constexpr uint64_t kChildUnitsMin = 4;
constexpr uint64_t kChildBlockUnits = 4;
constexpr uint64_t kChildBlocksPerMultiprocessor = 64;

// Tuples whose loads a thread has under way together.
constexpr int kProbeItems = 4;

// Share of a block's room that the mean partition may fill. Sizes of partitions of n tuples scatter by sqrt(n), 2 % of
// 3,072; the rest is for keys that come a few times.
constexpr double kTuplePartitionFill = 0.75;
// Partitions of large parts take two passes of at most 8 bits.
constexpr int kTuplePassBitsMax = 8;
constexpr int kTupleRadixBitsMax = LargeParts::kRadixBitsMax;
static_assert(kTupleRadixBitsMax == 2 * kTuplePassBitsMax);

// The smallest buckets that a partitioning may hand over: a part then has at most 32 of them, one per lane of the warp
// that looks them up.
constexpr uint32_t kBucketTuplesMin = 512;

// Pairs that a warp reserves at once. Memory for a chunk per warp is taken in addition: 2.2 M pairs with 4,224 warps.
constexpr uint32_t kPairChunkRows = 512;
// The same for a block, whose warps share a chunk, and for a thread by itself (128 bytes of each column). Chunks of
// warps took 21.1 ms, pages of threads 24.7, and counting the pairs first (double probe) 22.7. Chunks of blocks
// took 21.1 when every warp looked at the block's pointer before it moved it; as it is now, they are not measured yet.
constexpr uint32_t kPairBlockChunkRows = 4096;
constexpr uint32_t kPairPageRows = 32;

}}  // namespace spillway::cuda::pair_join
