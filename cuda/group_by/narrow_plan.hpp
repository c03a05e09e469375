// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "group_by/group_by.hpp"
#include "group_by/group_plan.hpp"

namespace spillway::cuda {

// The commonest shape, for which both kHash and kPartitioned have a kernel of their own: a key of 4 bytes, minima,
// maxima, sums and means of columns of 4 bytes and numbers of rows, without floats to add and without NULLs.
struct NarrowPlan {
    bool fits = false;
    int values = 0;                               // accumulators with a column; those that count rows come behind them
    SlotPlan slots;                               // accumulators in the order of their columns
    uint8_t first_of[kAccumulatorsMax + 1] = {};  // of columns: their first accumulator

    static NarrowPlan make(const GroupPlan& plan, const GroupByRequest& request);
};

}  // namespace spillway::cuda
