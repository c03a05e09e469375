// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/materialize/vector_gather.hpp"
#include "cpu/row/key_normalizer.hpp"

namespace spillway {

// A key column of at most 8 bytes of the rows of a vector: normalized words, not mixed, without rows around them. One
// per worker. KeyWords does the same for rows of a source that follow each other.
class VectorKeys {
  public:
    VectorKeys(const KeyPart& part, const VectorColumn& column, MemoryBudget& budget);

    // Words (of 8 bytes, perhaps not aligned) of the rows whose key is not NULL. They live until the next call, or as
    // long as `source`, the views of the rows that the vector names.
    const uint8_t* read(const RowVector& rows, const std::vector<ColumnView>& source);
    int64_t count() const { return count_; }  // of the last read
    // Makes positions of words positions of rows in the vector.
    void to_rows(int32_t* positions, int64_t count) const;

  private:
    const KeyPart& part_;
    const VectorColumn column_;
    const bool plain_;
    VectorGather gather_;  // of a column of build rows
    std::vector<uint64_t> words_;
    std::vector<int64_t> valid_;   // rows of the view
    std::vector<int32_t> places_;  // the same in the vector, where some are left out
    int64_t count_ = 0;
};

}  // namespace spillway
