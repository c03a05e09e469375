// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/materialize/row_vector.hpp"
#include "memory/buffer.hpp"

namespace spillway {

// Values of some columns of a vector, one behind the other, as those who read columns want them. One per worker.
// Columns of the source whose rows follow each other are not copied. Nested columns are not for vectors.
class VectorGather {
  public:
    VectorGather(std::vector<VectorColumn> columns, MemoryBudget& budget);

    // source: views of the rows that the vector names. The result lives until the next call and as long as `source`.
    const std::vector<ColumnView>& gather(const RowVector& rows, const std::vector<ColumnView>& source);
    const std::vector<VectorColumn>& columns() const { return columns_; }

    // Can a column of that type be one of a vector? Wide values would make its memory large.
    static bool takes(const ColumnType& type);
    // Memory of a column.
    static uint64_t column_bytes(const ColumnType& type);

  private:
    struct Scratch {
        ColumnType text;  // as which gathered texts are read
        Buffer values;
        Buffer validity;
    };
    void gather_source(const VectorColumn& column, const RowVector& rows, const ColumnView& from, Scratch& scratch,
                       ColumnView& to);
    void gather_texts(const RowVector& rows, const ColumnView& from, Scratch& scratch, ColumnView& to);
    void gather_build(const VectorColumn& column, const RowVector& rows, Scratch& scratch, ColumnView& to);
    void gather_build_texts(const VectorColumn& column, const uint8_t* const* rows, int64_t count, Scratch& scratch,
                            ColumnView& to);

    const std::vector<VectorColumn> columns_;
    std::vector<Scratch> scratch_;
    std::vector<ColumnView> views_;
};

}  // namespace spillway
