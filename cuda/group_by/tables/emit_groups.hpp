// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "group_by/tables/slot_words.cuh"

namespace spillway::cuda { inline namespace grouping {

// Appends the groups of the table in GPU memory to the result.
void emit_groups(Device& device, uint32_t key_words, const GlobalGroups& groups, const GroupSink& sink);

}}  // namespace spillway::cuda::grouping
