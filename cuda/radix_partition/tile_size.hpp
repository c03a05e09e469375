// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace spillway::cuda {

// What a block of a pass has in shared memory: the staged tile, and behind it the sorted one with left-over rows and
// what aligns runs.
struct TileSize {
    uint32_t rows = 0;
    uint32_t blocks = 1;  // per multiprocessor
    uint32_t shared_bytes = 0;
};

// Of a kernel for rows of so many words and passes of at most bits_max (scatter_bits_max()).
TileSize tile_size(const DeviceProperties& properties, int row_words, int bits_max);

}  // namespace spillway::cuda
