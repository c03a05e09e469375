// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/group_by/field_gather.hpp"
#include "cpu/group_by/group_plan.hpp"
#include "cpu/group_by/row_block.hpp"
#include "cpu/group_by/table_memory.hpp"

namespace spillway {

// Adds the rows of a block to the states of their records, one aggregate after the other; all but count distinct.
// Byte strings that a state keeps are copied to `arena`. Throws TableFull.
void update_states(const GroupPlan& plan, const RowBlock& block, FieldGather& gather, ByteArena& arena);

// Only some of the plan's aggregates.
void update_states(const GroupPlan& plan, const std::vector<const AggregatePlan*>& aggregates, const RowBlock& block,
                   FieldGather& gather, ByteArena& arena);

// Adds the states of from[i] to those of to[i], for records of equal keys. Byte strings stay where they are.
void combine_states(const GroupPlan& plan, uint8_t* const* to, uint8_t* const* from, uint64_t count);

}  // namespace spillway
