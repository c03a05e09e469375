// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "device/published.hpp"
#include "group_by/tables/aggregate_pass.cuh"

namespace spillway::cuda { inline namespace grouping {

// What the kernels of an attempt tell the host.
struct GroupCounters {
    unsigned long long reserved = 0;  // groups
    uint32_t failed = 0;              // no place was left for one
    uint32_t overflows = 0;           // GroupByResult::sum_overflows

    // Zeroed, with the pass pointing to them.
    static Allocation make(Device& device, AggregatePass& pass) {
        Allocation memory = device.memory().allocate(sizeof(GroupCounters), "counters of a group-by");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, sizeof(GroupCounters), device.stream()));
        auto* const counters = memory.as<GroupCounters>();
        pass.sink.reserved = &counters->reserved;
        pass.sink.overflows = &counters->overflows;
        pass.global.failed = &counters->failed;
        return memory;
    }
    // Waits for the device.
    static GroupCounters read(Device& device, const Allocation& memory) {
        return read_published<GroupCounters>(device, memory.as());
    }
};

}}  // namespace spillway::cuda::grouping
