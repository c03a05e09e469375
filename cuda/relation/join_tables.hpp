// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "equi_join/equi_join.hpp"
#include "relation/device_table.hpp"
#include "relation/key_columns.hpp"

namespace spillway::cuda { inline namespace relation {

// Payload columns travel packed in the rows of the join as far as a row has room for them (GFTR), others by row number
// (GFUR); NULLs travel as a field of bits.
DeviceTable join_tables(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join);
uint64_t count_join(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join);

}}  // namespace spillway::cuda::relation
