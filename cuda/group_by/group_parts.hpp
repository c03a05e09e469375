// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "group_by/group_by.hpp"

namespace spillway::cuda { inline namespace grouping {

// A group-by of each part of the aggregates, by group_one. The first gives keys and order; what the others find is
// brought into that order by the keys.
GroupByResult group_in_parts(Device& device, const GroupByRequest& request,
                             const std::vector<std::vector<size_t>>& parts,
                             GroupByResult (*group_one)(Device&, const GroupByRequest&));

}}  // namespace spillway::cuda::grouping
