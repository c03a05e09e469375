// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "staged_group_by/group_shape.hpp"
#include "staged_group_by/group_writer.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

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
