// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"

// NULLs of columns that travel through a join: a field of bits per row, one bit per nullable column, 1 = there. A join
// fills fields of a missing row with zeros, so that there all columns are NULL.
namespace spillway::cuda { inline namespace relation {

constexpr size_t kNullColumnsMax = 32;
// Bytes of a field for so many columns: 1, 2 or 4.
constexpr uint32_t null_field_width(size_t columns) {
    return columns <= 8 ? 1 : columns <= 16 ? 2 : 4;
}

// [rows] fields out of bitmaps.
Allocation pack_null_bits(Device& device, const std::vector<const uint32_t*>& bitmaps, uint64_t rows);
// `columns` bitmaps out of fields.
std::vector<Allocation> unpack_null_bits(Device& device, const void* fields, size_t columns, uint64_t rows);

// A bitmap of the rows whose presence has all bits of `wanted`.
Allocation presence_bitmap(Device& device, const uint8_t* presence, uint8_t wanted, uint64_t rows);

}}  // namespace spillway::cuda::relation
