// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/narrow_columns.hpp"
#include "group_by/tables/aggregate_pass.cuh"

namespace spillway::cuda { inline namespace grouping {

// A load of 16 bytes for four neighbouring rows: a column of 4 bytes is one of them, of 8 bytes two.
struct QuadSource {
    const unsigned char* from = nullptr;
    uint32_t step_bytes = 16;  // to the next four rows
};

// What column_groups_kernel gets.
struct ColumnPass {
    AggregatePass aggregate;  // accumulators in the order of their columns' words
    QuadSource words[kNarrowValueWordsMax];
    NarrowColumns columns;
};

}}  // namespace spillway::cuda::grouping
