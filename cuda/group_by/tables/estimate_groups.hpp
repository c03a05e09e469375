// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/group_request.hpp"

namespace spillway::cuda { inline namespace grouping {

// About how many groups a request has, whatever their frequencies; waits for the device.
uint64_t estimate_groups(Device& device, const GroupByRequest& request);

}}  // namespace spillway::cuda::grouping
