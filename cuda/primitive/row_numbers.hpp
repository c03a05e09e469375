// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace primitive {

// Writes the row numbers 0, 1, 2, ... below `rows`, of `width` bytes each (4 or 8).
void number_rows(Device& device, uint64_t rows, uint32_t width, void* numbers);

// Writes a bit per row in whole 32-bit words: 1 for the first `keyed` rows, 0 for the others.
void mark_first_rows(Device& device, uint64_t rows, uint64_t keyed, uint32_t* words);

}}  // namespace spillway::cuda::primitive
