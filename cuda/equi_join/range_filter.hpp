// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "equi_join/equi_join_policy.hpp"
#include "primitive/device_relation.hpp"

// Which probe rows have a key between the least and the greatest key of the build side: others have no partner, and a
// join that partitions its rows need not move them. Whether it is worth a look at all keys, a sample says.
namespace spillway::cuda { inline namespace equi_joins {

// A bit per probe row, 0 for rows without a key and those whose key is out of the build side's range. Empty where a
// sample, or too few rows, say that it would not pay. Waits for the device if there are enough rows. Bytes: the keys of
// both sides and a bit per probe row. rows_min: probe rows that are enough. Throws kOutOfMemory, kCancelled.
Allocation rows_in_range(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                         uint64_t rows_min = kRangeFilterRowsMin);

}}  // namespace spillway::cuda::equi_joins
