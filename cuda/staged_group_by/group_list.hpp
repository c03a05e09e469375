// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "staged_group_by/group_shape.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// Partial rows as columns, one list behind the other: those of chunks that have few groups need no partitions.
class GroupList {
  public:
    // Takes memory for rows_max rows when the first one comes.
    GroupList(Device& device, const GroupShape& shape, uint32_t key_bytes, uint64_t rows_max);

    uint64_t rows() const { return rows_; }
    bool has_room(uint64_t rows) const { return rows_ + rows <= rows_max_; }
    // Copies them, in the order of the device's stream.
    void append(const GroupByResult& groups);
    // Returns the groups of all rows, and is empty afterwards. Waits for the device.
    GroupByResult merge();

  private:
    Device& device_;
    const GroupShape& shape_;
    const uint32_t key_bytes_;
    const uint64_t rows_max_;
    Allocation keys_;
    std::vector<Allocation> values_;
    uint64_t rows_ = 0;
};

}}  // namespace spillway::cuda::staged_group_by
