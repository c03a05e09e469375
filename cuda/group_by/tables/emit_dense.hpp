// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "group_by/plan/accumulators.hpp"

namespace spillway::cuda { inline namespace grouping {

// Accumulators of groups by their numbers, as in the tables of groups: each word an array, zeros at first.
struct DenseGroups {
    const void* keys = nullptr;  // [groups], as they are in the result
    uint32_t* words = nullptr;
    uint64_t groups = 0;
    uint64_t entries = 0;  // groups, made even

    static uint64_t entries_for(uint64_t groups) { return (groups + 1) & ~1ULL; }
};

// Writes group by group to the result, which has room for all of them; its keys may be those that are read.
// Enqueued on the device's stream.
void emit_dense_groups(Device& device, uint32_t key_words, const DenseGroups& groups, const GroupSink& sink);

}}  // namespace spillway::cuda::grouping
