// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/aggregate_pass.cuh"
#include "group_by/narrow_columns.hpp"

namespace spillway::cuda {

// What packed_groups_kernel gets.
struct PackedPass {
    AggregatePass aggregate;  // accumulators in the order of their columns' words
    const unsigned char* rows = nullptr;
    NarrowColumns columns;
};

}  // namespace spillway::cuda
