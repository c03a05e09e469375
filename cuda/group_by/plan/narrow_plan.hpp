// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "group_by/plan/group_plan.hpp"
#include "group_by/plan/group_request.hpp"
#include "group_by/plan/narrow_columns.hpp"

namespace spillway::cuda { inline namespace grouping {

// The commonest shape, for which both kHash and kPartitioned have kernels of their own: a key of 4 or 8 bytes, and
// minima, maxima, sums and means of columns of 4 or 8 bytes, with up to kNarrowValueWordsMax words in a row, and
// numbers of rows; without NULLs. The kernels are compiled by words of a row: which of them are a column, and whether
// it has one word or two, is told by the accumulators that begin there.
struct NarrowPlan {
    SlotPlan slots;  // accumulators in the order of their columns' words; those that count rows come last
    NarrowColumns columns;

    static bool fits(const GroupPlan& plan, const GroupByRequest& request);
    // words: where each column of a plan that fits begins in a row, behind its key.
    static NarrowPlan make(const GroupPlan& plan, const std::vector<uint32_t>& words);
};

// Words of a row's columns.
uint32_t narrow_value_words(const GroupPlan& plan);

}}  // namespace spillway::cuda::grouping
