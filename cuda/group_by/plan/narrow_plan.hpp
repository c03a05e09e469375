// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "group_by/plan/group_plan.hpp"
#include "group_by/plan/group_policy.hpp"
#include "group_by/plan/group_request.hpp"

namespace spillway::cuda { inline namespace grouping {

// Which accumulators the columns of a row have, as kernels of the commonest shapes get it.
struct NarrowColumns {
    uint8_t first_of[kNarrowValueWordsMax + 1] = {};  // the first accumulator of each word behind the key
    // All columns have this width and one accumulator each, so that a kernel knows where it is; 0: they have not.
    uint8_t one_each_bytes = 0;
    bool adds = false;  // some of these are sums
    // They are 4, and all accumulators are integer sums of two words or count rows.
    bool sums = false;
};

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

template <int kKeyWords, int kValueWords, bool kBySlotPairs>
struct NarrowShape {
    static constexpr int kKey = kKeyWords;
    static constexpr int kValues = kValueWords;
    static constexpr bool kPairs = kBySlotPairs;
};

template <int kKeyWords, int kValueWords, class Launch>
void launch_narrow_words(bool pairs, const Launch& launch) {
    // Tables of 8-byte keys are never looked at by pairs: there is no kernel for it.
    if (kKeyWords == 1 && pairs) {
        launch(NarrowShape<kKeyWords, kValueWords, kKeyWords == 1>{});
    } else {
        launch(NarrowShape<kKeyWords, kValueWords, false>{});
    }
}

template <int kKeyWords, class Launch>
void launch_narrow_key(uint32_t value_words, bool pairs, const Launch& launch) {
    static_assert(kNarrowValueWordsMax == 4);
    switch (value_words) {
        case 0:
            return launch_narrow_words<kKeyWords, 0>(pairs, launch);
        case 1:
            return launch_narrow_words<kKeyWords, 1>(pairs, launch);
        case 2:
            return launch_narrow_words<kKeyWords, 2>(pairs, launch);
        case 3:
            return launch_narrow_words<kKeyWords, 3>(pairs, launch);
        default:
            return launch_narrow_words<kKeyWords, 4>(pairs, launch);
    }
}

// launch(NarrowShape): of the plan's key and columns, and of what its tables are looked at by.
template <class Launch>
void launch_narrow(const GroupPlan& plan, bool pairs, const Launch& launch) {
    if (plan.key_words == 1) {
        launch_narrow_key<1>(narrow_value_words(plan), pairs, launch);
    } else {
        launch_narrow_key<2>(narrow_value_words(plan), pairs, launch);
    }
}

}}  // namespace spillway::cuda::grouping
