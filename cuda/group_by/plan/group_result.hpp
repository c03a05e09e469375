// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/memory_pool.hpp"
#include "group_by/plan/group_plan.hpp"

namespace spillway::cuda { inline namespace grouping {

// Memory for so many groups.
GroupByResult allocate_groups(MemoryPool& memory, const GroupPlan& plan, uint32_t key_bytes, uint64_t groups);

// The result as kernels get it, without its counters.
GroupSink sink_of(const GroupPlan& plan, const GroupByResult& result, uint64_t capacity);

}}  // namespace spillway::cuda::grouping
