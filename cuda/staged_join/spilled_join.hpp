// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "staged_join/join_state.hpp"

namespace spillway::cuda { inline namespace staged_join {

// Joins the partitions that were spilled, group by group: as many as fit the pages come back and are indexed, then
// their probe rows come back and are looked up. A build partition that is larger than all pages, or than what can be
// indexed, comes in parts, and its probe rows as often.
void join_spilled(JoinState& state);

}}  // namespace spillway::cuda::staged_join
