// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

// Result rows that nobody wants but for their number and sums of their columns.
namespace spillway::cuda { inline namespace stream {

// Sums are exact: of a sum's parts of 32 bits none leaves 64.
using ExactSum = __int128;

// Integers of a column of chunks that are to be added up.
struct SummedColumn {
    uint32_t column = 0;
    bool is_signed = false;
};

// Integers of 1, 2 or 4 bytes in a column of result rows.
struct SumPart {
    uint16_t column = 0;
    uint8_t offset = 0;  // byte of the column where they begin, a multiple of their width
    uint8_t width = 4;   // in bytes
    bool is_signed = false;
    bool counts = false;    // each counts as 1 unless it is 0
    int16_t validity = -1;  // column of bytes that are 0 where the integer is NULL and adds nothing; -1: never NULL
};

}}  // namespace spillway::cuda::stream
