// SPDX-License-Identifier: Apache-2.0
#include "group_by/plan/narrow_plan.hpp"

namespace spillway::cuda { inline namespace grouping {

uint32_t narrow_value_words(const GroupPlan& plan) {
    uint32_t words = 0;
    for (const DeviceColumn& column : plan.columns) words += column.width / 4;
    return words;
}

bool NarrowPlan::fits(const GroupPlan& plan, const GroupByRequest& request) {
    if ((request.key.width != 4 && request.key.width != 8) || plan.slots.has_mask) return false;
    for (const DeviceColumn& column : plan.columns) {
        if (column.width != 4 && column.width != 8) return false;
    }
    for (int i = 0; i < plan.slots.accumulators; ++i) {
        if (!plan.slots.accumulator[i].counts && plan.sources[i] < 0) return false;
    }
    return narrow_value_words(plan) <= kNarrowValueWordsMax;
}

namespace {

uint8_t width_of_one_each(const GroupPlan& plan) {
    std::vector<int> of_column(plan.columns.size(), 0);
    for (int i = 0; i < plan.slots.accumulators; ++i) {
        if (plan.sources[i] >= 0) ++of_column[plan.sources[i]];
    }
    for (size_t c = 0; c < of_column.size(); ++c) {
        if (of_column[c] != 1 || plan.columns[c].width != plan.columns[0].width) return 0;
    }
    return of_column.empty() ? 0 : static_cast<uint8_t>(plan.columns[0].width);
}

bool has_sums(const SlotPlan& slots) {
    for (int i = 0; i < slots.accumulators; ++i) {
        const Accumulator& a = slots.accumulator[i];
        if (!a.counts && (a.op == AccumulatorOp::kAdd || a.op == AccumulatorOp::kAddDouble)) return true;
    }
    return false;
}

bool are_short_sums(const SlotPlan& slots) {
    for (int i = 0; i < slots.accumulators; ++i) {
        if (slots.accumulator[i].op != AccumulatorOp::kAdd || slots.accumulator[i].words != 2) return false;
    }
    return true;
}

}  // namespace

NarrowPlan NarrowPlan::make(const GroupPlan& plan, const std::vector<uint32_t>& words) {
    NarrowPlan narrow;
    narrow.slots = plan.slots;
    int placed = 0;
    for (uint32_t word = 0; word < kNarrowValueWordsMax; ++word) {
        narrow.columns.first_of[word] = static_cast<uint8_t>(placed);
        for (int i = 0; i < plan.slots.accumulators; ++i) {
            const int column = plan.sources[i];
            if (column < 0 || words[column] != word) continue;
            narrow.slots.accumulator[placed++] = plan.slots.accumulator[i];
        }
    }
    narrow.columns.first_of[kNarrowValueWordsMax] = static_cast<uint8_t>(placed);
    narrow.columns.one_each_bytes = width_of_one_each(plan);
    narrow.columns.adds = narrow.columns.one_each_bytes != 0 && has_sums(plan.slots);
    narrow.columns.sums = narrow.columns.one_each_bytes == 4 && are_short_sums(plan.slots);
    for (int i = 0; i < plan.slots.accumulators; ++i) {
        if (plan.slots.accumulator[i].counts) narrow.slots.accumulator[placed++] = plan.slots.accumulator[i];
    }
    return narrow;
}

}}  // namespace spillway::cuda::grouping
