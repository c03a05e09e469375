// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "staged_group_by/group_state.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// Gives the groups of all partitions. Those that were spilled come back some at a time, while groups of the resident
// ones leave. A partition that is larger than all pages is aggregated as it comes; if it has more groups than the pages
// hold, half of its keys are left out, for which it comes once more later.
void give_groups(GroupByState& state, const std::vector<uint64_t>& resident, StreamReport& report);

}}  // namespace spillway::cuda::staged_group_by
