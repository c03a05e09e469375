// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/group_by/value_order.hpp"
#include "model/column_view.hpp"

namespace spillway {

// Numbers of `count` rows from view row `begin` on as load_number() gives them; those of NULLs are anything.
void load_numbers(NumberKind kind, const ColumnView& view, int64_t begin, int64_t count, uint64_t* out);

}  // namespace spillway
