// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "group_by/group_by.hpp"
#include "staged_group_by/group_shape.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// A group-by of rows into partial rows: `request` is GroupShape::of_chunk() or of_partials(), of rows whose keys may
// have been mixed since. Waits for the device. Throws kOverflow for groups of which a sum does not fit its accumulator,
// and what group_by() throws.
GroupByResult group_partials(Device& device, const GroupShape& shape, const GroupByRequest& request);

}}  // namespace spillway::cuda::staged_group_by
