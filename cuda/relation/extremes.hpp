// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "relation/device_table.hpp"
#include "relation/group_table.hpp"

namespace spillway::cuda { inline namespace relation {

// Whether min and max of such values are found here, by rows, and not by the group-by itself: byte strings, bytes of
// fixed width and decimals of 16 and 32 bytes.
bool compares_rows(const TableAggregate& aggregate, const TableColumn& column);

// best: in, a row of each group that has a value (any number where none has); out, the row with the least value of the
// group, or the greatest. group_of: the group of each row. Row numbers of 4 or 8 bytes. Enqueued on the device's
// stream.
void find_extremes(Device& device, const TableColumn& column, uint64_t rows, const TableAggregate& aggregate,
                   const uint32_t* group_of, void* best, uint32_t row_width, uint64_t groups);

}}  // namespace spillway::cuda::relation
