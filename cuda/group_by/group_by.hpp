// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "group_by/plan/group_request.hpp"

namespace spillway::cuda { inline namespace grouping {

// One row per distinct key, in no particular order. Never wrong for a wrong guess of the number of groups, only slower.
// Waits for the device. Throws kInvalid, kOutOfMemory, kCancelled.
GroupByResult group_by(Device& device, const GroupByRequest& request);

}}  // namespace spillway::cuda::grouping
