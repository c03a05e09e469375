// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/device.hpp"
#include "relation/relation_policy.hpp"

namespace spillway::cuda { inline namespace relation {

// Blocks of kRelationThreads threads for kernels whose threads go over `items` in steps of the grid; none for none.
inline dim3 relation_grid(const Device& device, uint64_t items) {
    const auto most = static_cast<uint64_t>(device.properties().multiprocessors) * kRelationBlocksPerMultiprocessor;
    return dim3(static_cast<unsigned>(std::min(most, (items + kRelationThreads - 1) / kRelationThreads)));
}

constexpr uint64_t bitmap_words(uint64_t rows) {
    return (rows + 31) / 32;
}

}}  // namespace spillway::cuda::relation
