// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "device/phase_times.hpp"
#include "device/published.hpp"
#include "group_by/dense/dense_aggregates.hpp"
#include "group_by/dense/numbered_group_by.hpp"
#include "group_by/plan/moved_bytes.hpp"
#include "group_by/tables/emit_dense.hpp"

namespace spillway::cuda { inline namespace grouping {

std::optional<GroupByResult> group_by_numbers(Device& device, const GroupByRequest& request, GroupPlan& plan,
                                              const NumberTable& table) {
    const PhaseScope match(device, Phase::kMatch);
    std::optional<NumberedGroups> numbered = number_groups(device, request, table, own_groups(device, plan));
    if (!numbered.has_value()) return std::nullopt;
    const uint64_t groups = numbered->groups;
    GroupByResult result = allocate_groups(device.memory(), plan, request.key.width, groups);
    result.groups = groups;
    if (groups == 0) return result;  // no row has a key
    write_group_keys(device, *numbered, request.key.width, result.keys.as());

    DenseGroups dense;
    dense.keys = result.keys.as<const void>();
    dense.groups = groups;
    dense.entries = DenseGroups::entries_for(groups);
    const uint64_t words_bytes = dense.entries * 4 * plan.slots.words;
    const Allocation words = device.memory().allocate(words_bytes, "accumulators of groups");
    if (words_bytes > 0) SPILLWAY_CUDA_CHECK(cudaMemsetAsync(words.as(), 0, words_bytes, device.stream()));
    count_moved(device, words_bytes);
    dense.words = words.as<uint32_t>();
    place_unstaged(plan, request);
    aggregate_dense(device, request, plan, *numbered, dense);

    const PhaseScope materialize(device, Phase::kMaterialize);
    const Allocation overflows = device.memory().allocate(sizeof(uint64_t), "sums that overflow");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(overflows.as(), 0, overflows.bytes(), device.stream()));
    GroupSink sink = sink_of(plan, result, groups);
    sink.overflows = overflows.as<uint32_t>();
    count_moved(device, groups * plan.slot_bytes() + result_bytes(device, request, plan, groups));
    emit_dense_groups(device, plan.key_words, dense, sink);
    result.sum_overflows =
        overflow_flags(plan, static_cast<uint32_t>(read_published<uint64_t>(device, overflows.as())));
    return result;
}

}}  // namespace spillway::cuda::grouping
