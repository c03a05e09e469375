// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The names of the partitioners of this room. Without any CUDA.
namespace spillway::cuda {

// As in section 4 of the Triton join's paper (Lutz et al., SIGMOD 2022), each with its name there.
enum class FarPartitioner : uint8_t {
    kStandard,      // a store per tuple, and an atomic operation on the partition's cursor
    kLinear,        // a block sorts a batch in shared memory and stores its runs, which begin anywhere
    kShared,        // buffers in shared memory, used by all threads of a block; whole aligned lines are stored
    kHierarchical,  // the same with a larger buffer per block and partition in GPU memory behind them
    kBulk           // kShared, flushed by bulk copies that one thread issues (compute capability 9.0)
};
constexpr int kFarPartitioners = 5;

// By their numbers.
constexpr const char* kFarPartitionerNames[kFarPartitioners] = {"standard", "linear", "shared", "hierarchical", "bulk"};

}  // namespace spillway::cuda
