// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "relation/device_table.hpp"

// Short byte strings that travel through a join: a field of fixed width per row, with the bytes first and their number
// in the last byte. NULLs and rows that are missing have fields of zeros, which is a string of no bytes.
namespace spillway::cuda { inline namespace relation {

// Bytes of a field for strings of at most so many bytes: 4, 8 or 16; 0: they are too long. Per row a string of 10 bytes
// moves 35 bytes to become a field, four times 16 on its way through the join, and 60 to become a string again, where a
// gather from its column takes three random sectors and 50 bytes. Fields of 32 bytes would gain nothing.
constexpr uint32_t text_field_width(uint64_t longest) {
    return longest <= 3 ? 4 : longest <= 7 ? 8 : longest <= 15 ? 16 : 0;
}

// A column of strings as far as their lengths go.
struct TextColumn {
    const uint64_t* offsets = nullptr;  // [rows + 1]
    uint64_t rows = 0;
};

// Bytes of the longest string of each column. Waits for the device, once for all of them.
std::vector<uint64_t> longest_texts(Device& device, const std::vector<TextColumn>& columns);

// [rows] fields of `width` bytes. No string may be longer than width - 1.
Allocation text_fields(Device& device, const TableColumn& column, uint64_t rows, uint32_t width);

}}  // namespace spillway::cuda::relation
