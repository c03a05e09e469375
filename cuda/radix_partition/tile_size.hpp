// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/gpu_facts.hpp"
#include "primitive/warp_threads.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

// What a block of a pass has in shared memory: the staged tile, and behind it the sorted one with left-over rows and
// what aligns runs.
struct TileSize {
    uint32_t rows = 0;
    uint32_t blocks = 1;  // per multiprocessor
    uint32_t shared_bytes = 0;
};

// Bits of a pass over rows of so many words, at most: kPassBitsMax, or kFewBits where more digits leave a block less
// room than for half of a tile. So it is with 96 KiB of shared memory and rows of 28 bytes, which leave over 70 KiB.
int pass_bits_max(const GpuFacts& gpu, int row_words);

// Words from one row of a tile of wide rows to the next in shared memory: an odd number, so that lanes that write the
// same field of neighbouring rows have banks of their own.
SPILLWAY_HOST_DEVICE constexpr uint32_t wide_row_stride(uint32_t row_words) {
    return row_words | 1;
}

// Returns the tile of a kernel for rows of so many words and passes of at most bits_max bits (scatter_bits_max()).
TileSize tile_size(const GpuFacts& gpu, int row_words, int bits_max);

}}  // namespace spillway::cuda::radix_partitioning
