// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace grouping {

struct SortedPairs {
    Allocation keys;
    Allocation values;
};

// The bits in which keys differ, at least one. Bytes: the keys once. Waits for the device.
KeyBits differing_bits(Device& device, const DeviceColumn& key, uint64_t rows);

inline KeyBits all_bits(const DeviceColumn& key) {
    return {0, 8 * static_cast<int>(key.width)};
}

// Keys (4 or 8 bytes) by the given bits, and the values (4 or 8 bytes) of their rows; stable, so that columns that are
// sorted by the same keys one after the other keep their rows together. Enqueued on the device's stream.
SortedPairs sort_pairs(Device& device, const DeviceColumn& key, const DeviceColumn& values, uint64_t rows,
                       KeyBits bits);

struct SortedRows {
    Allocation keys;
    Allocation row_numbers;  // of 4 bytes
};

// Keys in some order in which equal ones are neighbours, sorted by the bits in which they differ or by all of them.
// Enqueued on the device's stream. Throws kInvalid for more than 2^32 rows.
SortedRows sort_keys(Device& device, const DeviceColumn& key, uint64_t rows, bool all_key_bits = false);

}}  // namespace spillway::cuda::grouping
