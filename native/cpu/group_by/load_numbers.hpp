// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/group_by/value_order.hpp"
#include "model/column_view.hpp"

namespace spillway {

// Numbers of `count` rows from view row `begin` on as load_number() gives them; those of NULLs are anything.
void load_numbers(NumberKind kind, const ColumnView& view, int64_t begin, int64_t count, uint64_t* out);

// Is one of these rows NULL? As fast as a few loads, so that what is done for NULLs is done where there are any.
bool any_null(const ColumnView& view, int64_t begin, int64_t count);

}  // namespace spillway
