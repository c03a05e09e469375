// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/aggregate_pass.cuh"
#include "group_by/group_policy.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda {

// What packed_groups_kernel gets.
struct PackedPass {
    AggregatePass aggregate;  // accumulators in the order of their columns' words
    const unsigned char* rows = nullptr;
    uint8_t first_of[kNarrowValueWordsMax + 1] = {};  // the first accumulator of each word behind the key
    uint8_t one_each_bytes = 0;                       // NarrowPlan
};

}  // namespace spillway::cuda
