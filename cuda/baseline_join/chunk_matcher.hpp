// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "baseline_join/whole_relation.hpp"
#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace baseline_join {

// A build side in device memory on which the first stage of a join has been run, once, and the join of chunks with it.
// Rows have the same columns as in the chunks; rows without a key have no partner. Both calls wait for the device.
class ChunkMatcher {
  public:
    virtual ~ChunkMatcher() = default;
    // Rows of the result.
    virtual uint64_t count(const DeviceRelation& chunk) = 0;
    // Gives them in pieces of rows_max at most, or of what cannot be cut.
    using Give = std::function<void(const JoinResult&)>;
    virtual void join(const DeviceRelation& chunk, uint64_t rows_max, const Give& give) = 0;
};

// Both take what has come of the build side, in the order of the device's stream, and wait for nothing but, where some
// rows have no key, the list of those that have one.

// Radix partitioned by so many bits that a partition fits a block's shared memory. A chunk is partitioned likewise, and
// partitions are joined there by a hash table (hash_join): a chunk's rows are read and written once per pass, then
// those of both sides are read once to be counted and once to be joined.
std::unique_ptr<ChunkMatcher> match_partitioned(Device& device, WholeRelation build,
                                                std::vector<JoinOutputColumn> output);
// Sorted by key, with row numbers, by merge sort. A chunk is sorted likewise and merged with it (sort_merge_join): the
// keys of both sides are read once to be counted and once to be joined; columns are gathered by row number.
std::unique_ptr<ChunkMatcher> match_sorted(Device& device, WholeRelation build, std::vector<JoinOutputColumn> output);

}}  // namespace spillway::cuda::baseline_join
