// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/memory_pool.hpp"
#include "group_by/plan/accumulators.hpp"
#include "group_by/plan/group_request.hpp"
#include "group_by/plan/tile_stream.cuh"

namespace spillway::cuda { inline namespace grouping {

// What an accumulator adds up: a column of GroupPlan::columns, or one of these.
enum FieldSource : int { kNoField = -1, kRowNumberField = -2, kMaskField = -3 };

// A request, as accumulators and outputs. Where the rows' fields lie depends on the algorithm: place_*() say it.
struct GroupPlan {
    SlotPlan slots;
    std::vector<int> sources;           // per accumulator
    std::vector<DeviceColumn> columns;  // each once, in the order of their first use
    Allocation mask;                    // validity of all columns, mask_width bytes per row; empty: no NULLs
    uint32_t mask_width = 0;
    bool needs_row_number = false;
    uint32_t row_number_width = 4;
    std::vector<GroupOutput> outputs;  // without their memory

    // Bits of the masks are gathered into a column on the device's stream. Throws kInvalid.
    static GroupPlan make(Device& device, const GroupByRequest& request);

    uint32_t key_words = 1;
    uint32_t slot_bytes() const { return 4 * (key_words + slots.words); }
};

// Rows as they are in their columns, tile after tile. staged_bytes: shared memory for two tiles, here and below.
StagedArrays place_columns(GroupPlan& plan, const GroupByRequest& request, uint32_t staged_bytes);

// The same rows, in no tile: every field is read at its row's number.
void place_unstaged(GroupPlan& plan, const GroupByRequest& request);

// Rows that radix_partition() packs: what it is to carry, and where the fields then are. Columns that do not fit 32
// bytes are gathered by row number; of kPartitionedGather all are.
DeviceRelation relation_to_pack(const GroupPlan& plan, const GroupByRequest& request);
StagedArrays place_packed(GroupPlan& plan, const DeviceRelation& relation, const std::vector<uint32_t>& offsets,
                          const void* rows, uint32_t row_bytes, uint32_t staged_bytes);

// Sorted keys with row numbers; all else is gathered.
StagedArrays place_sorted(GroupPlan& plan, const void* keys, const void* row_numbers, uint32_t staged_bytes);

// Memory for so many groups.
GroupByResult allocate_groups(MemoryPool& memory, const GroupPlan& plan, uint32_t key_bytes, uint64_t groups);

// GroupByResult::sum_overflows of what kernels found, a bit per aggregate.
std::vector<bool> overflow_flags(const GroupPlan& plan, uint32_t bits);

// The result as kernels get it, without its counters.
GroupSink sink_of(const GroupPlan& plan, const GroupByResult& result, uint64_t capacity);

}}  // namespace spillway::cuda::grouping
