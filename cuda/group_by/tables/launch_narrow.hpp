// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/group_plan.hpp"
#include "group_by/plan/narrow_plan.hpp"

namespace spillway::cuda { inline namespace grouping {

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
