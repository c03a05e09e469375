// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "device/launch.hpp"
#include "group_by/packed/packed_groups.cuh"
#include "group_by/packed/packed_groups.hpp"
#include "group_by/plan/narrow_plan.hpp"
#include "group_by/tables/launch_narrow.hpp"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

static_assert(sizeof(PackedPass) <= 4096, "parameters of a kernel");

PackedPass pass_of(const GroupPlan& plan, const AggregatePass& aggregate, const void* rows) {
    // Where place_packed() says that the columns are.
    std::vector<uint32_t> words(plan.columns.size(), 0);
    for (int i = 0; i < plan.slots.accumulators; ++i) {
        if (plan.sources[i] < 0) continue;
        words[plan.sources[i]] = plan.slots.accumulator[i].value.base_bytes / 4 - plan.key_words;
    }
    const NarrowPlan narrow = NarrowPlan::make(plan, words);
    PackedPass pass;
    pass.aggregate = aggregate;
    pass.aggregate.plan = narrow.slots;
    pass.rows = static_cast<const unsigned char*>(rows);
    pass.columns = narrow.columns;
    return pass;
}

template <int kKeyWords, int kValueWords, bool kPairs>
void launch_kernel(Device& device, const PackedPass& pass, uint32_t blocks) {
    const auto multiprocessors = static_cast<uint32_t>(device.properties().multiprocessors);
    launch(packed_groups_kernel<kKeyWords, kValueWords, kPairs>, dim3(multiprocessors * blocks),
           dim3(packed_threads(kKeyWords, kValueWords) / blocks), (pass.aggregate.table_bytes(kKeyWords) + 15) & ~15U,
           device.stream(), pass);
}

uint32_t slots_for(const DeviceProperties& properties, const GroupPlan& plan, uint32_t blocks) {
    const uint64_t shared =
        std::min(properties.shared_bytes_per_block_optin, properties.shared_bytes_per_multiprocessor / blocks);
    // What stands behind the last slot takes up to 4 more.
    return whole_buckets((shared - kPackedGroupsReservedBytes) / plan.slot_bytes() - 4);
}

double fill_of(uint64_t groups, int bits, uint32_t slots) {
    return std::ldexp(static_cast<double>(groups), -bits) / static_cast<double>(slots);
}

}  // namespace

bool has_packed_groups(const GroupPlan& plan, const GroupByRequest& request) {
    if (request.algorithm == GroupByAlgorithm::kPartitionedGather) return false;  // values are not in the rows
    return NarrowPlan::fits(plan, request);
}

bool PackedGroupsShape::pairs(uint64_t groups) const {
    return fill_of(groups, bits, slots) <= kPairsFillMax;
}

PackedGroupsShape PackedGroupsShape::make(const DeviceProperties& properties, const GroupPlan& plan, uint64_t rows,
                                          uint64_t groups) {
    // As many bits as one pass has anyway, unless rows are few; the rest of what it has where tables want it.
    PackedGroupsShape shape;
    while (shape.bits < kGroupRadixBits && rows >> (shape.bits + 1) >= kGroupPartitionRowsMin) ++shape.bits;
    const uint32_t most = slots_for(properties, plan, 1);
    while (shape.bits < kPassBitsMax && fill_of(groups, shape.bits, most) > kPackedGroupsFillBetter) ++shape.bits;
    if (fill_of(groups, shape.bits, most) > narrow_fill(plan.key_words)) {
        // As many bits as two blocks per multiprocessor want, of which one has rows to look up while the other's groups
        // leave.
        shape.blocks = 2;
        shape.slots = slots_for(properties, plan, 2);
        const auto is_full = [&] { return fill_of(groups, shape.bits, shape.slots) > kPackedGroupsFillOfTwo; };
        while (shape.bits < radix_bits_max() && is_full()) ++shape.bits;
        if (rows / groups < kPackedGroupsFewRows) {
            const double wanted = std::ldexp(static_cast<double>(groups), -shape.bits) / kPackedGroupsFillBetter;
            const uint32_t fewer = std::max(kTableSlotsMin, whole_buckets(static_cast<uint64_t>(wanted)));
            shape.slots = std::min(shape.slots, fewer);
        }
        return shape;
    }
    // A large table has fewer keys that are not in their first bucket, and takes longer to clear and to scan, once per
    // partition.
    const auto each = static_cast<double>((groups >> shape.bits) + 1);
    const double few = std::min(each * kPackedGroupsSlotsPerGroup, static_cast<double>((rows >> shape.bits) / 8));
    const double slots = std::max({few, each * kSlotsPerGroup, static_cast<double>(kTableSlotsMin)});
    shape.slots = whole_buckets(static_cast<uint64_t>(std::min(slots, static_cast<double>(most))));
    return shape;
}

void launch_packed_groups(Device& device, const GroupPlan& plan, const AggregatePass& aggregate, const void* rows,
                          uint32_t blocks) {
    const PackedPass pass = pass_of(plan, aggregate, rows);
    launch_narrow(plan, aggregate.pairs,
                  [&](auto shape) { launch_kernel<shape.kKey, shape.kValues, shape.kPairs>(device, pass, blocks); });
}

}}  // namespace spillway::cuda::grouping
