// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/stream_spec.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace stream {

struct ResultColumn {
    void* data = nullptr;  // of the window's first row
    uint16_t width = 0;
    uint8_t side = 0;    // OutputSide
    uint8_t offset = 0;  // in the row of that side, in bytes
};

// Columns of a result that kernels write, and which of its rows: those at [first, first + rows).
struct ResultWindow {
    uint64_t first = 0;
    uint64_t rows = 0;
    int32_t columns = 0;
    uint32_t key_bytes = 8;
    ResultColumn column[kResultColumnsMax];

    // The columns of a join's result. Throws kInvalid for columns that do not exist, or cannot be summed.
    static ResultWindow make(const StagedJoinSpec& spec, const RowLayout& build, const RowLayout& probe);
    uint64_t row_bytes() const;
};

}}  // namespace spillway::cuda::stream
