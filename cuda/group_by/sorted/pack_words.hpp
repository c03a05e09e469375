// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace grouping {

constexpr int kWordPartsMax = 4;

// A column, or the row's number, in a word of its own or beside narrower ones.
struct WordPart {
    DeviceColumn column;
    uint32_t shift = 0;  // bits below it
};

// Rows that have a key, in their order.
struct KeyedRows {
    uint64_t all_rows = 0;
    uint64_t rows = 0;
    const uint32_t* valid = nullptr;  // nullptr: all have
    Allocation tile_first;            // uint64_t[tiles + 1]: such rows before the tile; empty where all have
};

// Waits for the device where not all rows have a key.
KeyedRows find_keyed_rows(Device& device, const uint32_t* valid, uint64_t rows);

// A word of 4 or 8 bytes per row that has a key. Enqueued on the device's stream.
Allocation pack_words(Device& device, const KeyedRows& keyed, const std::vector<WordPart>& parts, uint32_t word_bytes);

}}  // namespace spillway::cuda::grouping
