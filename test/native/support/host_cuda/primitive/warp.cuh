// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "block.hpp"

namespace spillway::cuda {

constexpr int kWarpThreads = host_cuda::kLanes;
constexpr uint32_t kFullWarp = (1U << kWarpThreads) - 1;

inline uint32_t lane_index() {
    return threadIdx.x % kWarpThreads;
}
inline uint32_t warp_index() {
    return threadIdx.x / kWarpThreads;
}

}  // namespace spillway::cuda
