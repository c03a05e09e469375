// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace grouping {

struct SortedRows {
    Allocation keys;
    Allocation row_numbers;  // of 4 bytes
};

// Keys in some order in which equal ones are neighbours. Enqueued on the device's stream.
// Throws kInvalid for more than 2^32 rows.
SortedRows sort_keys(Device& device, const DeviceColumn& key, uint64_t rows);

}}  // namespace spillway::cuda::grouping
