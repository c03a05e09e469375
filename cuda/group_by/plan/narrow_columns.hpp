// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/group_policy.hpp"

namespace spillway::cuda { inline namespace grouping {

// Which accumulators the columns of a row have, as kernels of the commonest shapes get it (narrow_plan.hpp).
struct NarrowColumns {
    uint8_t first_of[kNarrowValueWordsMax + 1] = {};  // the first accumulator of each word behind the key
    // All columns have this width and one accumulator each, so that a kernel knows where it is; 0: they have not.
    uint8_t one_each_bytes = 0;
    // They are 4, and all accumulators are integer sums of two words or count rows.
    bool sums = false;
};

}}  // namespace spillway::cuda::grouping
