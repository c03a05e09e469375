// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace grouping {

// A column of groups in the order of one group-by, and where it comes to lie in the order of another one.
struct PlacedColumn {
    const void* from = nullptr;
    void* to = nullptr;
    uint32_t width = 8;  // 1, 2, 4 or 8 bytes
};

// The place of each group's key among the groups of a group-by, so that results of others can be brought into its
// order.
class GroupPlaces {
  public:
    // keys: of 4 or 8 bytes, each once, in device memory; they stay where they are. At most 2^32 - 1 groups. Waits for
    // the device. Throws kInvalid, kOutOfMemory.
    GroupPlaces(Device& device, const void* keys, uint32_t key_bytes, uint64_t groups);

    // keys: the same ones, in another order. Enqueued on the device's stream.
    void place(Device& device, const void* keys, const std::vector<PlacedColumn>& columns) const;

  private:
    // false: keys do not spread over the slots.
    bool fill(Device& device, const void* keys);

    uint32_t key_bytes_;
    uint64_t groups_;
    uint64_t slots_;
    bool is_ordered_ = true;  // slots follow the mixed keys, else a hash of them
    Allocation entries_;
};

}}  // namespace spillway::cuda::grouping
