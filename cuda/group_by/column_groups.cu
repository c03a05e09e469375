// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "group_by/column_groups.cuh"
#include "group_by/column_groups.hpp"
#include "group_by/narrow_plan.hpp"

namespace spillway::cuda {

namespace {

template <int kValues>
void launch_values(Device& device, const AggregatePass& pass) {
    constexpr uint64_t kThreads = column_groups_threads(kValues);
    const auto multiprocessors = static_cast<uint64_t>(device.properties().multiprocessors);
    const uint64_t quads = pass.rows / kColumnGroupsRows;
    const uint64_t useful = std::max<uint64_t>((quads + kThreads - 1) / kThreads, 1);
    const uint64_t teams = std::min(std::max<uint64_t>(multiprocessors / pass.slices, 1), useful);
    launch(column_groups_kernel<kValues>, dim3(static_cast<unsigned>(teams * pass.slices)), dim3(kThreads),
           (pass.table_bytes(1) + 15) & ~15U, device.stream(), pass);
}

}  // namespace

bool has_column_groups(const GroupPlan& plan, const GroupByRequest& request) {
    const NarrowPlan narrow = NarrowPlan::make(plan, request);
    return narrow.fits && narrow.values <= kColumnGroupsValuesMax;
}

ColumnGroupsTable ColumnGroupsTable::make(const DeviceProperties& properties, const GroupPlan& plan, uint64_t groups) {
    const uint64_t slots = (properties.shared_bytes_per_block_optin - kColumnGroupsReservedBytes) / plan.slot_bytes();
    ColumnGroupsTable table;
    // What stands behind the last slot takes up to 4 more.
    table.slots = static_cast<uint32_t>((slots - 4) & ~1ULL);
    const auto most = static_cast<uint64_t>(static_cast<double>(table.slots) * kColumnGroupsFill);
    table.slices = std::max<uint64_t>((groups + most - 1) / most, 1);
    bool adds = false;
    for (int i = 0; i < plan.slots.accumulators; ++i) {
        const Accumulator& a = plan.slots.accumulator[i];
        adds = adds || (a.op == AccumulatorOp::kAdd && !a.counts);
    }
    table.is_worth_it = table.slices <= (adds ? kColumnGroupsSumSlicesMax : kColumnGroupsSlicesMax);
    return table;
}

void launch_column_groups(Device& device, const GroupPlan& plan, const GroupByRequest& request,
                          const AggregatePass& aggregate) {
    static_assert(kColumnGroupsValuesMax == 4);
    const NarrowPlan narrow = NarrowPlan::make(plan, request);
    AggregatePass pass = aggregate;
    pass.plan = narrow.slots;
    switch (narrow.values) {
        case 0:
            return launch_values<0>(device, pass);
        case 1:
            return launch_values<1>(device, pass);
        case 2:
            return launch_values<2>(device, pass);
        case 3:
            return launch_values<3>(device, pass);
        default:
            return launch_values<4>(device, pass);
    }
}

}  // namespace spillway::cuda
