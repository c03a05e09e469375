// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace stream {

// Takes what a plan's chunks will use from the driver at once, as one piece of the pool's memory that serves all of
// them. Blocks of many sizes come and go with every chunk; where the limit leaves no room for a segment more, each that
// does not fit a free one would give others back to the driver and take new ones, and that waits for all copies on
// their way. planned_bytes: of all; before_bytes: that the pool had handed out before any of it.
inline void take_working_memory(Device& device, uint64_t planned_bytes, uint64_t before_bytes) {
    MemoryPool& memory = device.memory();
    const uint64_t used_bytes = memory.used_bytes() - before_bytes;
    const uint64_t rest_bytes = planned_bytes - std::min(planned_bytes, used_bytes);
    const bool peak_is_now = memory.peak_bytes() == memory.used_bytes();
    memory.allocate(std::min(rest_bytes, memory.free_bytes()), "chunks").reset();
    if (peak_is_now) memory.reset_peak();  // it was not used
}

}}  // namespace spillway::cuda::stream
