// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "materialize/row_list.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace materialize {

// out[i] = the column's value of the i-th row in the list; a column without data gives the row numbers themselves.
// valid: a bit per row of the column, 0 = its value is 0; nullptr: all values count. `out` lies at a multiple of the
// column's width. Per value: the row number in order (4 or 8 bytes), the value out in order, and an access of one
// sector of 32 bytes, which neighbours share where the row numbers rise (then the column once at most, as where the L2
// cache holds it): at random 42 G/s in an H200's memory, in order its bandwidth. `valid` takes the same of its bits.
void gather_rows(Device& device, const DeviceColumn& column, const RowNumbers& rows, void* out,
                 const uint32_t* valid = nullptr);

// Throws kInvalid for a width or a place that no column has.
void check_column(const DeviceColumn& column);

}}  // namespace spillway::cuda::materialize
