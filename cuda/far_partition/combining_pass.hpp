// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "far_partition/far_sizes.hpp"
#include "far_partition/far_target.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

// What kernels with buffers get. Buffers in GPU memory: with a second level those of the blocks, which stay where they
// are; without, room for what is left in shared memory at the end.
struct CombiningPass {
    uint32_t shift = 32;  // of the partition, 32 - radix bits
    uint32_t partitions = 1;
    uint32_t buffer_rows = 1;       // of a buffer in shared memory, a power of two
    uint32_t memory_rows = 1;       // of a buffer in GPU memory: buffer_rows, or those of the second level
    uint32_t memory_buffers = 0;    // of a block; 0: nothing is left over, there is nothing to drain
    char* memory = nullptr;         // [grid][memory_buffers][memory_rows]
    Leftover* leftovers = nullptr;  // [grid][partitions]
    FarTarget target;
};

}}  // namespace spillway::cuda::far_partitioning
