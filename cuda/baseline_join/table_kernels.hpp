// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "baseline_join/slot_table.hpp"
#include "device/device.hpp"
#include "stream/result_columns.hpp"

namespace spillway::cuda { inline namespace baseline_join {

// Packed rows (RowLayout) that are inserted or looked up, and the table.
struct TablePass {
    SlotTableView table;
    const uint32_t* rows = nullptr;
    uint64_t row_count = 0;
    uint32_t row_words = 1;
    uint32_t key_words = 1;
};

// Reads each row once, claims a bit at random and writes a slot at random. *refusals |= TableRefusal, where a row had
// to be left out.
void insert_rows(Device& device, const TablePass& pass, uint64_t* refusals);
// The error for what was refused, if anything was.
void throw_refusal(uint64_t refusals);

// Each of these reads each row once, and of the table a bit and a slot at random, or more slots where walks are longer.
// totals[0] += result rows, totals[1 + c] += sum of column c; sums: of 4 and 8 bytes, at most kSumColumnsMax.
void sum_rows(Device& device, const TablePass& pass, const ResultWindow& columns, uint64_t* totals);
// Result rows of each group of 32 rows: group_rows[row / 32], and a 0 behind them.
void count_rows_of_groups(Device& device, const TablePass& pass, uint64_t* group_rows);
// first_of_group: their exclusive sum. Writes the rows of the window, and each result row of it once.
void write_rows(Device& device, const TablePass& pass, const uint64_t* first_of_group, const ResultWindow& window);

}}  // namespace spillway::cuda::baseline_join
