// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/column_view.hpp"
#include "model/row_layout.hpp"

namespace spillway {

// Rows on their way through the joins of a pipeline, named by where their values lie: in the columns of the source, and
// in the build row that each join found. Values are copied only where something asks for them.
struct RowVector {
    // A vector has no more rows: positions of 1,024 and the columns gathered from them stay in the L1 and L2 caches.
    static constexpr int64_t kRowsMax = 1024;

    int64_t rows = 0;
    int64_t first_row = 0;                 // of the source's views, where source_rows is null: those from there on
    const int64_t* source_rows = nullptr;  // of the source's views
    std::vector<const uint8_t* const*> build_rows;  // by join; a row without a partner has nullptr

    int64_t source_row(int64_t i) const { return source_rows == nullptr ? first_row + i : source_rows[i]; }
};

// A column of such rows.
struct VectorColumn {
    TypePtr type;
    int32_t join = -1;                  // -1: of the source
    size_t view = 0;                    // source: index of its view
    const RowField* field = nullptr;    // build rows
    const RowLayout* layout = nullptr;  // build rows
    bool absent_rows = false;           // build rows: some rows may have none
};

}  // namespace spillway
