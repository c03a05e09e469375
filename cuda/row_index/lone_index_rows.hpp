// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "stream/result_columns.hpp"
#include "stream/row_pieces.hpp"

namespace spillway::cuda { inline namespace row_index {

// Rows of one side that are in the result once each, by marks that probes have set (outer, semi and anti joins).
// Reads the marks, and the rows that it writes.
struct LonePass {
    PieceTiles tiles;
    const uint32_t* rows = nullptr;
    uint32_t row_words = 1;
    const uint8_t* marks = nullptr;  // a byte per row; nullptr: all rows are wanted
    bool marked = false;             // wanted are rows with a mark, or those without
    bool build_side = false;
    bool has_key = true;
};

// As those of probe_index.hpp.
void sum_lone(Device& device, const LonePass& pass, const ResultWindow& columns, uint64_t* totals);
void count_lone_of_groups(Device& device, const LonePass& pass, uint64_t* group_rows);
void write_lone(Device& device, const LonePass& pass, const uint64_t* first_of_group, const ResultWindow& window);

}}  // namespace spillway::cuda::row_index
