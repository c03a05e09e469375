// SPDX-License-Identifier: Apache-2.0
#include "group_by/plan/group_result.hpp"

namespace spillway::cuda { inline namespace grouping {

GroupByResult allocate_groups(MemoryPool& memory, const GroupPlan& plan, uint32_t key_bytes, uint64_t groups) {
    GroupByResult result;
    result.keys = memory.allocate(groups * key_bytes, "keys of groups");
    for (const GroupOutput& output : plan.outputs) {
        const bool has_nulls = output.valid_bit != kNoBit || output.column_valid != nullptr;
        result.values.push_back(memory.allocate(groups * output.width, "aggregates"));
        result.present.push_back(memory.allocate(has_nulls ? groups : 0, "validity of aggregates"));
    }
    return result;
}

GroupSink sink_of(const GroupPlan& plan, const GroupByResult& result, uint64_t capacity) {
    GroupSink sink;
    sink.keys = result.keys.as();
    sink.capacity = capacity;
    sink.outputs = static_cast<int32_t>(plan.outputs.size());
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
        sink.output[i] = plan.outputs[i];
        sink.output[i].values = result.values[i].as();
        sink.output[i].present = result.present[i].as<uint8_t>();
    }
    return sink;
}

}}  // namespace spillway::cuda::grouping
