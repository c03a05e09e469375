// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "device/device.hpp"
#include "group_by/plan/group_request.hpp"
#include "group_by/tables/global_table.hpp"

namespace spillway::cuda { inline namespace grouping {

// The slot of a row without a key.
constexpr uint32_t kNoRowSlot = ~0U;

// Groups with numbers from 0 on.
struct NumberedGroups {
    uint64_t groups = 0;
    Allocation row_slots;  // uint32_t[rows]: where in the table the row's key is, or kNoRowSlot
    GlobalGroups table;    // of keys; a slot's only word is the number of its group
    GlobalTable memory;    // of the table

    const uint32_t* numbers() const { return table.words; }
};

// The table in GPU memory, at most kNumberedSlotsMax slots.
struct NumberTable {
    uint64_t slots = 0;
    uint32_t walk_max = 0;  // slots of other keys that a search comes to before the attempt fails
};

// The first step of HGB (Wu et al., GFTR, section 4.2, algorithm 1). The keys of so many rows as sampled_rows, from all
// parts of the input, have the first numbers, and with them those that many rows have. nullopt: the table is too small.
// Waits for the device.
std::optional<NumberedGroups> number_groups(Device& device, const GroupByRequest& request, const NumberTable& table,
                                            uint64_t sampled_rows);

// The key of each group, by its number. Enqueued on the device's stream.
void write_group_keys(Device& device, const NumberedGroups& numbered, uint32_t key_bytes, void* keys);

}}  // namespace spillway::cuda::grouping
