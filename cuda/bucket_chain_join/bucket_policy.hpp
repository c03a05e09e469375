// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "pair_join/pair_policy.hpp"

// The numbers that tune the bucket-chain partitioning; nothing else in cuda/bucket_chain_join has any. None is measured
// yet.
namespace spillway::cuda { inline namespace bucket_chain_join {

// A block sorts a tile by digit in shared memory, 32 KiB of 8-byte tuples and 64 KiB of 16-byte ones: two blocks per
// multiprocessor. A tile of 4,096 tuples has runs of 16 on average for 256 partitions, 64 bytes of each column.
constexpr int kBucketThreads = 512;
constexpr int kBucketItems = 8;
constexpr int kBucketBlocksPerMultiprocessor = 2;
constexpr uint32_t kBucketTileTuples = kBucketThreads * kBucketItems;
constexpr int kBucketFanOutMax = 1 << kTuplePassBitsMax;

// Tuples of a bucket. Of the first of two passes: a tile of the second one, which so takes bucket by bucket and needs
// no partition to be contiguous; 256 open buckets of 16-byte tuples take 16 MiB. Of the last pass: as small as the join
// allows, for each of up to 2^16 partitions leaves half of a bucket open on average.
constexpr uint32_t kFirstBucketTuples = kBucketTileTuples;
constexpr uint32_t kLastBucketTuples = kBucketTuplesMin;

// Threads that collect partitions and buckets afterwards.
constexpr int kDirectoryThreads = 256;

}}  // namespace spillway::cuda::bucket_chain_join
