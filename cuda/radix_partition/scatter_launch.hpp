// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device.hpp"
#include "radix_partition/regions.hpp"

namespace spillway::cuda {

uint32_t scatter_tile_rows(uint32_t row_words, bool from_rows);

// One pass, enqueued on the device's stream. from_rows: the input is rows in regions, not columns.
void launch_scatter(Device& device, const ScatterPass& pass, const RowLayout& layout, bool from_rows);

}  // namespace spillway::cuda
