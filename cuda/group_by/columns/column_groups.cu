// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "device/launch.hpp"
#include "group_by/columns/column_groups.cuh"
#include "group_by/columns/column_groups.hpp"
#include "group_by/plan/narrow_plan.hpp"
#include "group_by/tables/launch_narrow.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

static_assert(sizeof(ColumnPass) <= 4096, "parameters of a kernel");

ColumnPass pass_of(const GroupPlan& plan, const AggregatePass& aggregate) {
    ColumnPass pass;
    std::vector<uint32_t> words;
    uint32_t word = 0;
    for (const DeviceColumn& column : plan.columns) {
        words.push_back(word);
        for (uint32_t half = 0; half < column.width / 4; ++half) {
            pass.words[word++] = {static_cast<const unsigned char*>(column.data) + 16 * half, 4 * column.width};
        }
    }
    const NarrowPlan narrow = NarrowPlan::make(plan, words);
    pass.aggregate = aggregate;
    pass.aggregate.plan = narrow.slots;
    pass.columns = narrow.columns;
    return pass;
}

template <int kKeyWords, int kValueWords, bool kPairs, bool kSums>
void launch_kernel(Device& device, const ColumnPass& columns) {
    constexpr uint64_t kThreads = column_threads(kKeyWords, kValueWords, kSums);
    const AggregatePass& pass = columns.aggregate;
    const auto multiprocessors = static_cast<uint64_t>(device.properties().multiprocessors);
    const uint64_t quads = pass.rows / kColumnGroupsRows;
    const uint64_t useful = std::max<uint64_t>((quads + kThreads - 1) / kThreads, 1);
    const uint64_t teams = std::min(std::max<uint64_t>(multiprocessors / pass.slices, 1), useful);
    launch(column_groups_kernel<kKeyWords, kValueWords, kPairs, kSums>,
           dim3(static_cast<unsigned>(teams * pass.slices)), dim3(kThreads), (pass.table_bytes(kKeyWords) + 15) & ~15U,
           device.stream(), columns);
}

}  // namespace

bool has_column_groups(const GroupPlan& plan, const GroupByRequest& request) {
    return NarrowPlan::fits(plan, request);
}

ColumnGroupsTable ColumnGroupsTable::make(const DeviceProperties& properties, const GroupPlan& plan, uint64_t groups) {
    const uint64_t slots = (properties.shared_bytes_per_block_optin - kColumnGroupsReservedBytes) / plan.slot_bytes();
    ColumnGroupsTable table;
    // What stands behind the last slot takes up to 4 more.
    table.slots = whole_buckets(slots - 4);
    const auto most = static_cast<uint64_t>(static_cast<double>(table.slots) * narrow_fill(plan.key_words));
    table.slices = std::max<uint64_t>((groups + most - 1) / most, 1);
    const double fill = static_cast<double>(groups) / static_cast<double>(table.slots * table.slices);
    table.pairs = fill <= kPairsFillMax;
    table.is_worth_it = table.slices <= column_groups_slices_max(plan.key_words);
    return table;
}

void launch_column_groups(Device& device, const GroupPlan& plan, const AggregatePass& aggregate) {
    const ColumnPass pass = pass_of(plan, aggregate);
    launch_narrow(plan, aggregate.pairs, [&](auto shape) {
        // Only where it has more threads than the kernel for all.
        constexpr bool kSums = has_sums_kernel(shape.kKey, shape.kValues);
        if (kSums && pass.columns.sums) {
            launch_kernel<shape.kKey, shape.kValues, shape.kPairs, kSums>(device, pass);
        } else {
            launch_kernel<shape.kKey, shape.kValues, shape.kPairs, false>(device, pass);
        }
    });
}

}}  // namespace spillway::cuda::grouping
