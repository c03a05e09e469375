// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "group_by/group_by.hpp"
#include "relation/device_table.hpp"
#include "relation/key_columns.hpp"

namespace spillway::cuda { inline namespace relation {

// Key columns in order (the values of a row of the group), then aggregates. Results and their NULLs are those of
// native/cpu/group_by, but for sums of floats, which are not compensated. Throws kInvalid, with a text that names it,
// for what has no implementation here (sums of decimals of 32 bytes; half floats): the CPU engine has. kOverflow: a sum
// of integers does not fit 64 bits, one of decimals 38 digits.
DeviceTable group_table(Device& device, const DeviceTable& table, const TableGroupBy& group);

}}  // namespace spillway::cuda::relation
