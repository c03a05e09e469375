// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace no_partitioning_joins {

// `keys` values from `first` on, modulo 2^32 for keys of 4 bytes and 2^64 for keys of 8.
struct KeyRange {
    uint64_t first = 0;
    uint64_t keys = 0;  // 2^64 of them are told as one less
};

// The range of the keys that rows have, by one look at all of them; none if no row has one. Nobody says whether keys
// are signed: of the ranges by either order the smaller one is taken, as both have a place for every key. Waits for the
// device.
KeyRange find_key_range(Device& device, const DeviceRelation& relation);

}}  // namespace spillway::cuda::no_partitioning_joins
