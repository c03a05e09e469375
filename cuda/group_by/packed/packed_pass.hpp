// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/narrow_columns.hpp"
#include "group_by/tables/aggregate_pass.cuh"

namespace spillway::cuda { inline namespace grouping {

// What packed_groups_kernel gets.
struct PackedPass {
    AggregatePass aggregate;  // accumulators in the order of their columns' words
    const unsigned char* rows = nullptr;
    NarrowColumns columns;
};

}}  // namespace spillway::cuda::grouping
