// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "staged_group_by/group_shape.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// Chunks on their way to partial rows: aggregated where that makes them shorter, else with the accumulators of a group
// of one row.
class ChunkGroups {
  public:
    ChunkGroups(Device& device, const GroupShape& shape, const StreamSizes& sizes);

    // Partial rows of the chunk as columns, rows without a key left out. They stay as they are until the next call, in
    // the order of the device's stream.
    DeviceRelation partials(const DeviceRelation& chunk);
    uint64_t grouped_chunks() const { return grouped_chunks_; }

  private:
    bool wants_groups();
    DeviceRelation grouped(const DeviceRelation& chunk);
    DeviceRelation widened(const DeviceRelation& chunk);

    Device& device_;
    const GroupShape& shape_;
    const uint64_t chunk_rows_;
    const PreAggregation pre_aggregation_;
    uint32_t ungrouped_ = 0;        // so many chunks more are not looked at
    uint64_t expected_groups_ = 0;  // as many as the last chunk that was aggregated had
    uint64_t grouped_chunks_ = 0;
    GroupByResult groups_;            // of the last chunk
    std::vector<Allocation> values_;  // of each accumulator that is wider than its column, taken when it is needed
};

}}  // namespace spillway::cuda::staged_group_by
