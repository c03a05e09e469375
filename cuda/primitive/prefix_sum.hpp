// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace primitive {

// In place: every value becomes the sum of those before it. A 0 behind the last value thus becomes the total. Reads and
// writes each value once, 16 bytes.
void exclusive_sum(Device& device, uint64_t* values, uint64_t count);

}}  // namespace spillway::cuda::primitive
