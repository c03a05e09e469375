// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/buffer.hpp"
#include "model/column_type.hpp"
#include "model/column_view.hpp"

namespace spillway {

// Rows produced by the engine, owned, in Arrow layout with offset 0. Buffers are padded to 64 bytes, tails zeroed.
// kView inputs come out as kBinary (offset width 4 unless the type says 8); kDictionary as int32 indices into
// type->dictionary.
struct OutputColumn {
    TypePtr type;
    int64_t length = 0;
    int64_t null_count = 0;
    Buffer validity;  // empty when null_count == 0
    Buffer offsets;   // kBinary, kList, kUnionDense
    Buffer data;      // kFixed, kBool, kBinary, kDictionary, union type ids
    std::vector<OutputColumn> children;
};

struct OutputBatch {
    int64_t rows = 0;
    // Of which buffers of the columns may be slices; in use as far as the last one's padding.
    Buffer memory;
    std::vector<OutputColumn> columns;
    uint64_t bytes() const;  // sum over all buffers of columns
};

// Keeps the first rows, at most as many as there are. Buffers keep their memory.
void cut_batch(OutputBatch& batch, int64_t rows);

// Where buffers take less than half of the memory of their batch, as where few rows have come of those that there is
// room for, they get memory of their size: whoever keeps the batch keeps no more than that.
void shrink_batch(OutputBatch& batch);

// What a column of so many rows takes of the memory of its batch, NULLs included. Of nested values, and of the bytes of
// others whose length varies, nothing is known beforehand.
uint64_t expected_column_bytes(const ColumnType& type, uint64_t rows);

ColumnView view_of(const OutputColumn& column);  // borrowed; valid while the column lives

// Does a column of a result batch have the layout that the plan says? Views are planned but come out as kBinary.
bool has_planned_layout(const ColumnType& planned, const ColumnType& actual);

}  // namespace spillway
