// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "staged_group_by/group_shape.hpp"
#include "staged_group_by/group_writer.hpp"

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

// The one group of all rows without a key: a partial row of it per chunk that has such rows, aggregated when there are
// many and at the end. They are aggregated by a key of their own, which is the same for all.
class KeylessGroup {
  public:
    KeylessGroup(Device& device, const GroupShape& shape, uint64_t chunk_rows);

    // The rows of the chunk that have no key; its bitmap says which. Waits for the device.
    void add(const DeviceRelation& chunk);
    // Writes the group, if there is one.
    void give(GroupWriter& writer);

  private:
    GroupByResult merge();
    void append(const GroupByResult& group);

    Device& device_;
    const GroupShape& shape_;
    const uint64_t chunk_rows_;
    Allocation zeros_;  // keys of 4 bytes, of a chunk; taken when the first row without a key comes
    Allocation validity_;
    std::vector<Allocation> values_;  // columns of the partial rows
    uint64_t rows_ = 0;               // number of partial rows
};

}}  // namespace spillway::cuda::staged_group_by
