// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "out_of_core_group_by/group_state.hpp"

namespace spillway::cuda {

// Brings the partitions that were spilled back, as many together as fit the pages, and gives their groups. A partition
// that is larger than all pages is aggregated as it comes; if it has more groups than the pages hold, half of its keys
// are left out, for which it comes once more later.
void give_spilled(GroupByState& state);

}  // namespace spillway::cuda
