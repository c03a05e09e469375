// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace baseline_join {

// An input that comes in chunks, as a relation in device memory. Columns have room for all of it before it comes.
class WholeRelation {
  public:
    // rows_max: of all chunks.
    WholeRelation(Device& device, uint32_t key_bytes, const ColumnWidths& widths, uint64_t rows_max);

    // Copies a chunk that lies in device memory, in the order of the device's stream. Throws kInvalid for more rows
    // than there is room for.
    void append(const DeviceRelation& chunk);

    // What has come, in this memory.
    const DeviceRelation& relation() const { return relation_; }

  private:
    void append_valid(const DeviceRelation& chunk);

    Device& device_;
    const uint64_t rows_max_;
    Allocation key_;
    std::vector<Allocation> columns_;
    Allocation valid_;  // a bit per row, from the first chunk on in which some have no key
    DeviceRelation relation_;
};

}}  // namespace spillway::cuda::baseline_join
