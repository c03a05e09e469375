// SPDX-License-Identifier: Apache-2.0
#include "group_by/narrow_plan.hpp"

namespace spillway::cuda {

namespace {

bool is_narrow(const Accumulator& a, const GroupPlan& plan, int source) {
    if (a.counts) return true;
    if (source < 0 || plan.columns[source].width != 4) return false;
    return a.op == AccumulatorOp::kMax32 || (a.op == AccumulatorOp::kAdd && a.words == 2);
}

}  // namespace

NarrowPlan NarrowPlan::make(const GroupPlan& plan, const GroupByRequest& request) {
    NarrowPlan narrow;
    narrow.slots = plan.slots;
    if (request.key.width != 4 || plan.slots.has_mask) return narrow;
    for (int i = 0; i < plan.slots.accumulators; ++i) {
        if (!is_narrow(plan.slots.accumulator[i], plan, plan.sources[i])) return narrow;
    }
    const int columns = static_cast<int>(plan.columns.size());
    int placed = 0;
    for (int c = 0; c < columns; ++c) {
        narrow.first_of[c] = static_cast<uint8_t>(placed);
        for (int i = 0; i < plan.slots.accumulators; ++i) {
            if (plan.sources[i] == c) narrow.slots.accumulator[placed++] = plan.slots.accumulator[i];
        }
    }
    narrow.first_of[columns] = static_cast<uint8_t>(placed);
    narrow.values = placed;
    for (int i = 0; i < plan.slots.accumulators; ++i) {
        if (plan.slots.accumulator[i].counts) narrow.slots.accumulator[placed++] = plan.slots.accumulator[i];
    }
    narrow.fits = true;
    return narrow;
}

}  // namespace spillway::cuda
