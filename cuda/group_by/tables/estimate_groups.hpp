// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/group_request.hpp"

namespace spillway::cuda { inline namespace grouping {

// About how many groups a request has, whatever their frequencies; waits for the device.
uint64_t estimate_groups(Device& device, const GroupByRequest& request);

// What the caller expects, if a sample of the keys agrees with it, or else an estimate by all of them; waits for the
// device. A planner's sample is small, and of keys that are not equally frequent it has missed most.
uint64_t check_groups(Device& device, const GroupByRequest& request, uint64_t groups);

}}  // namespace spillway::cuda::grouping
