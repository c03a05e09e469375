// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "relation/device_table.hpp"

namespace spillway::cuda {

// rows[i] of `from` for every i, of any kind and width, NULLs kept (GFUR materialization: one random access per value).
// row_width: 4 or 8 bytes per row number. present: a byte per row; where (present[i] & mask) == 0 the value is NULL and
// rows[i] is not looked at; nullptr: all are there.
TableColumn gather(Device& device, const TableColumn& from, uint64_t from_rows, const void* rows, uint32_t row_width,
                   uint64_t count, const uint8_t* present = nullptr, uint8_t mask = 0);

}  // namespace spillway::cuda
