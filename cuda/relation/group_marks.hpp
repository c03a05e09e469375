// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace relation {

// Marks some of so many rows, each once. Enqueued on the device's stream.
void mark_rows(Device& device, const void* rows, uint32_t row_width, uint64_t count, uint64_t of_rows, uint8_t* marks);

}}  // namespace spillway::cuda::relation
