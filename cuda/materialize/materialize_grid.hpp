// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/device.hpp"
#include "materialize/materialize_policy.hpp"

namespace spillway::cuda { inline namespace materialize {

// Blocks for kernels whose blocks go over tiles of `tile_items` in steps of the grid; none for no items.
inline dim3 materialize_grid(const Device& device, uint64_t items, uint64_t tile_items) {
    const auto most = static_cast<uint64_t>(device.properties().multiprocessors) * kMaterializeBlocksPerMultiprocessor;
    return dim3(static_cast<unsigned>(std::min(most, (items + tile_items - 1) / tile_items)));
}

}}  // namespace spillway::cuda::materialize
