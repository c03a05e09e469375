// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/device.hpp"
#include "sort_merge_join/sort_merge_policy.hpp"

namespace spillway::cuda { inline namespace sort_merge_joins {

// Blocks of kRowThreads threads for kernels that go over rows in steps of the grid; none for none.
inline dim3 row_grid(const Device& device, uint64_t rows) {
    const auto most = static_cast<uint64_t>(device.properties().multiprocessors) * kRowBlocksPerMultiprocessor;
    return dim3(static_cast<unsigned>(std::min(most, (rows + kRowThreads - 1) / kRowThreads)));
}

}}  // namespace spillway::cuda::sort_merge_joins
