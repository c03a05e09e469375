// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "pair_join/join_tuples.hpp"

// PHJ-UR: the bucket-chain partitioned join of Sioulas et al. (ICDE 2019). Keys and row numbers are radix partitioned
// in up to two passes into chains of fixed-size buckets, without a histogram and without contiguous partitions;
// co-partitions are joined in shared memory; the result is pairs of row numbers, by which payloads are gathered from
// the untransformed relations.
namespace spillway::cuda { inline namespace bucket_chain_join {

// Keys of 4 or 8 bytes, row numbers of row_width bytes. Work is enqueued on the device's stream; the host does not
// wait. Memory: twice the tuples with more than 8 bits while it runs, then once, and an open bucket per partition that
// has rows. Throws kOutOfMemory, kCancelled.
PartitionedTuples bucket_chain_partition(Device& device, const DeviceRelation& relation, uint32_t row_width,
                                         int radix_bits);

// Columns other than the key do not matter. Throws kInvalid, kOutOfMemory, kCancelled.
MatchPairs bucket_chain_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                              const MatchWish& wish, const PairJoinOptions& options = {});

}}  // namespace spillway::cuda::bucket_chain_join
