// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "api/table_spec.hpp"
#include "device/memory_pool.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace relation {

// A column of a query in device memory, in Arrow's layout with offset 0.
struct TableColumn {
    ColumnKind kind = ColumnKind::kFixed;
    uint32_t width = 4;  // kFixed: bytes of a value, any from 1; bools are bytes of 0 or 1
    // kFixed: rows * width bytes; kBytes: all values one behind the other, read in whole 32-bit words (blocks of the
    // pool have room for the last)
    Allocation values;
    Allocation offsets;   // kBytes: uint64_t[rows + 1], the first is 0
    Allocation validity;  // a bit per row in whole 32-bit words, 1 = there; empty: no NULLs
    uint64_t bytes = 0;   // kBytes: of all values
};

struct DeviceTable {
    uint64_t rows = 0;
    std::vector<TableColumn> columns;
};

}}  // namespace spillway::cuda::relation
