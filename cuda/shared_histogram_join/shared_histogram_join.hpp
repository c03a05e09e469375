// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "pair_join/join_tuples.hpp"
#include "shared_histogram_join/histogram_policy.hpp"

// The partitioned hash join of Rui and Tu (SSDBM 2017): keys and row numbers are radix partitioned in up to two passes
// into contiguous partitions, by histograms that all threads of a block share; co-partitions are joined in shared
// memory, with direct output or in two probe passes (PairJoinOptions::plan); the result is pairs of row numbers.
namespace spillway::cuda { inline namespace shared_histogram_join {

// Ways of the passes that differ in speed alone.
struct HistogramOptions {
    // Radix bits of the first of two passes; -1: half of them, where one pass is not enough.
    int first_pass_bits = -1;
    // Tuples of a tile are put into the order of their partitions in shared memory and written run by run; else each is
    // written where it belongs by itself, as in the paper, and the L2 cache makes sectors of those.
    bool staged = kReorderStaged;
};

// Keys of 4 or 8 bytes, row numbers of row_width bytes. Work is enqueued on the device's stream; the host does not
// wait. Memory: twice the tuples with two passes while it runs, then once, and 8 bytes of histograms per partition of a
// pass and 16,384 tuples. Throws kInvalid for passes of too many bits, kOutOfMemory, kCancelled.
PartitionedTuples shared_histogram_partition(Device& device, const DeviceRelation& relation, uint32_t row_width,
                                             int radix_bits, const HistogramOptions& passes);
PartitionedTuples shared_histogram_partition(Device& device, const DeviceRelation& relation, uint32_t row_width,
                                             int radix_bits);

// Columns other than the key do not matter. Throws kInvalid, kOutOfMemory, kCancelled.
MatchPairs shared_histogram_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                  const MatchWish& wish, const PairJoinOptions& options,
                                  const HistogramOptions& passes);
MatchPairs shared_histogram_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                  const MatchWish& wish, const PairJoinOptions& options = {});

}}  // namespace spillway::cuda::shared_histogram_join
