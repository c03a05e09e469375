// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "relation/device_table.hpp"

namespace spillway::cuda { inline namespace relation {

// rows[i] of `from` for every i, of any kind and width, NULLs kept (GFUR materialization: one random access per value).
// row_width: 4 or 8 bytes per row number. present: a byte per row; where (present[i] & mask) == 0 the value is NULL and
// rows[i] is not looked at; nullptr: all are there. Waits for the device where values are byte strings.
TableColumn gather(Device& device, const TableColumn& from, uint64_t from_rows, const void* rows, uint32_t row_width,
                   uint64_t count, const uint8_t* present = nullptr, uint8_t mask = 0);

struct GatherSide {
    const TableColumn& column;
    uint64_t from_rows;
    const void* rows;
    uint32_t row_width;
    uint8_t mask;
};

// rows[i] of the first side whose bit of present[i] is set, NULL where none is. Columns of equal kind and width.
TableColumn gather_either(Device& device, const GatherSide& first, const GatherSide& second, uint64_t count,
                          const uint8_t* present);

// The strings of fields (text_fields.hpp), without validity. Waits for the device.
TableColumn gather_texts(Device& device, const Allocation& fields, uint32_t width, uint64_t count);

}}  // namespace spillway::cuda::relation
