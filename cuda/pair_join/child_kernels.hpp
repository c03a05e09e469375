// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "pair_join/tuple_join.cuh"

// Oversized partitions in the way of R. Rui and Y.-C. Tu (SSDBM 2017, section 3.2.3): a block that comes upon one
// launches a kernel that joins it alone (CUDA dynamic parallelism), and goes on with the next partition. Beside it,
// join_tuples.cu cuts partitions into units before the kernel begins.
namespace spillway::cuda { inline namespace pair_join {

struct ChildPass {
    TuplePass tuples;                            // next_unit counts partitions here
    unsigned long long* blocks_taken = nullptr;  // by kernels launched so far
    uint64_t blocks_budget = 0;                  // for all of them
    uint64_t blocks_max = 0;                     // of one of them
};

// Launches the kernel for partitions of SmallParts and for any use but marks alone.
void launch_with_children(Device& device, const ChildPass& pass, uint32_t key_width, uint32_t row_width, PairUse use);

}}  // namespace spillway::cuda::pair_join
