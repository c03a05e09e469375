// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "group_by/plan/accumulators.hpp"
#include "group_by/sorted/runs.hpp"

namespace spillway::cuda { inline namespace grouping {

// A column of sorted words, a part of which is what accumulators take.
struct SortedField {
    const void* words = nullptr;  // [rows] at a multiple of 16 bytes; nullptr: none
    uint32_t word_bytes = 4;      // or 8
    uint32_t shift = 0;           // bits below the field
    uint32_t width = 4;           // bytes of the field
};

// The accumulators of all runs, as in the tables of groups: each word an array, zeros at first.
struct RunSlots {
    uint32_t* words = nullptr;
    uint64_t groups = 0;
    uint64_t entries = 0;  // groups, made even
};

// What the rows of each run add to an accumulator. masks: of 4-byte words, looked at where the accumulator has a
// valid_bit. value: none where it counts. Enqueued on the device's stream.
void reduce_runs(Device& device, const Runs& runs, const Accumulator& accumulator, const SortedField& value,
                 const SortedField& masks, const RunSlots& slots);

// What the first row of each run adds to an accumulator or, where it counts, all rows.
void fill_runs(Device& device, const Runs& runs, const Accumulator& accumulator, const SortedField& value,
               const RunSlots& slots);

}}  // namespace spillway::cuda::grouping
