// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "group_by/sorted/sorted_policy.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace grouping {

// Runs of equal keys among sorted rows: the groups.
struct Runs {
    uint64_t rows = 0;
    uint64_t groups = 0;
    Allocation heads;      // uint8_t[tiles * kRunThreads]: a bit per row, 1 = first of its run
    Allocation tile_runs;  // uint64_t[tiles + 1]: runs that begin before the tile
    Allocation begin;      // uint64_t[groups + 1]: first row of the run, at last the number of rows

    uint64_t tiles() const { return (rows + kRunTileRows - 1) / kRunTileRows; }
};

// At least one row. Waits for the device.
Runs find_runs(Device& device, const DeviceColumn& sorted_keys, uint64_t rows);

// The key of each run. Enqueued on the device's stream.
void write_run_keys(Device& device, const Runs& runs, const DeviceColumn& sorted_keys, void* keys);

}}  // namespace spillway::cuda::grouping
