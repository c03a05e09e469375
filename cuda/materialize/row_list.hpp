// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace materialize {

// Row numbers that a gather follows, in device memory.
struct RowNumbers {
    const void* rows = nullptr;
    uint32_t width = 4;  // bytes of each: 4 or 8
    uint64_t count = 0;
    // For what a gather must move: of how many rows these are (0: of many), and whether their numbers rise.
    uint64_t of_rows = 0;
    bool rises = false;
};

// What row numbers of a relation of so many rows need.
constexpr uint32_t row_number_width(uint64_t rows) {
    return rows > 1ULL << 32 ? 8 : 4;
}

// A bit per row in whole 32-bit words; bits behind the last row mean nothing. Chosen are the rows whose bit is `set`.
struct RowBits {
    const uint32_t* words = nullptr;
    uint64_t rows = 0;
    bool set = true;
};

// The chosen rows in their order.
struct RowList {
    uint64_t count = 0;
    uint32_t width = 4;
    Allocation rows;
    uint64_t of_rows = 0;

    RowNumbers numbers() const { return {rows.as(), width, count, of_rows, true}; }
};

// Both wait for the device.
uint64_t count_rows(Device& device, const RowBits& bits);
RowList list_rows(Device& device, const RowBits& bits, uint32_t width);

// Sets the bit of every row in the list; rows may come more than once. Random accesses to bits, which lie in the L2
// cache for relations of up to 2^28 rows: 30 ps each on an H200 by the rate of its atomics there, not measured. Bytes:
// the list once, and a word read and written per row, or the bits once where the cache holds them.
void mark_rows(Device& device, const RowNumbers& rows, uint32_t* marks);

}}  // namespace spillway::cuda::materialize
