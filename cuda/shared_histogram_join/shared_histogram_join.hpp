// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "pair_join/join_tuples.hpp"

// The partitioned hash join of Rui and Tu (SSDBM 2017): keys and row numbers are radix partitioned in up to two passes
// into contiguous partitions, by histograms that all threads of a block share; co-partitions are joined in shared
// memory, with direct output or in two probe passes (PairJoinOptions::plan); the result is pairs of row numbers.
namespace spillway::cuda { inline namespace shared_histogram_join {

// Keys of 4 or 8 bytes, row numbers of row_width bytes. Work is enqueued on the device's stream; the host does not
// wait. Memory: twice the tuples with more than 8 bits while it runs, then once, and 8 bytes per 64 tuples for
// histograms. Throws kOutOfMemory, kCancelled.
PartitionedTuples shared_histogram_partition(Device& device, const DeviceRelation& relation, uint32_t row_width,
                                             int radix_bits);

// Columns other than the key do not matter. Throws kInvalid, kOutOfMemory, kCancelled.
MatchPairs shared_histogram_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                  const MatchWish& wish, const PairJoinOptions& options = {});

}}  // namespace spillway::cuda::shared_histogram_join
