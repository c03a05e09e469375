// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "staged_group_by/group_list.hpp"
#include "staged_group_by/group_shape.hpp"
#include "staged_group_by/group_writer.hpp"
#include "stream/row_sums.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// Chunks on their way to partial rows: aggregated where that makes them shorter, else with the accumulators of a group
// of one row. Those of a chunk that has few groups wait in a list, which is aggregated when it is full: a chunk of one
// group costs no partitioning, and not the launches of its kernels.
class ChunkGroups {
  public:
    ChunkGroups(Device& device, const GroupShape& shape, const StreamSizes& sizes);

    // is_clustered: keys of a chunk are alike in the first bits of their mixed forms, as those of a join's result are,
    // which come partition by partition. Such chunks are aggregated by keys that are mixed once more.
    void set_clustered(bool is_clustered) { is_clustered_ = is_clustered; }
    // Partial rows as columns, of the chunk, rows without a key left out, or of chunks before it; none where the
    // chunk's are in the list. They stay as they are until the next call, in the order of the device's stream.
    DeviceRelation partials(const DeviceRelation& chunk);
    // Rows of the key 0 that have been added up: their number, and the sum of each column that has one. Throws
    // kOverflow if one does not fit 64 bits.
    void add_group(uint64_t rows, const std::vector<ExactSum>& sums);
    // Partial rows that are left in the list when all chunks have come.
    DeviceRelation rest();
    uint64_t grouped_chunks() const { return grouped_chunks_; }

  private:
    bool wants_groups();
    DeviceRelation grouped(const DeviceRelation& chunk);
    DeviceRelation widened(const DeviceRelation& chunk);
    DeviceRelation set_aside();

    Device& device_;
    const GroupShape& shape_;
    const uint64_t chunk_rows_;
    const PreAggregation pre_aggregation_;
    const uint64_t few_groups_;
    bool is_clustered_ = false;
    uint32_t ungrouped_ = 0;        // so many chunks more are not looked at
    uint64_t expected_groups_ = 0;  // as many as the last chunk that was aggregated had
    uint64_t grouped_chunks_ = 0;
    GroupByResult groups_;  // of the last chunk
    GroupList list_;
    GroupByResult from_list_;
    Allocation mixed_keys_;           // of a clustered chunk
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
    Device& device_;
    const GroupShape& shape_;
    const uint64_t chunk_rows_;
    Allocation zeros_;  // keys of 4 bytes, of a chunk; taken when the first row without a key comes
    Allocation validity_;
    GroupList list_;
};

}}  // namespace spillway::cuda::staged_group_by
