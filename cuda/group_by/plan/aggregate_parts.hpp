// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "group_by/plan/group_request.hpp"

namespace spillway::cuda { inline namespace grouping {

// The aggregates of a request, by their places there, in parts that a group-by each is made of. One part where the
// request does not allow for more or is not too wide for one. Aggregates that the kernels of the commonest shapes have
// (narrow_plan.hpp) are in parts that they take; other parts have rows that partitions carry and tiles stage whole.
// Values of one column are in one part, as far as that goes.
std::vector<std::vector<size_t>> aggregate_parts(const GroupByRequest& request);

}}  // namespace spillway::cuda::grouping
