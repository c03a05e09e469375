// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/row/key_normalizer.hpp"
#include "model/column_view.hpp"
#include "model/row_layout.hpp"

namespace spillway {

// One key column of at most 8 bytes without the rows around it: normalized words, not mixed. One per worker.
class KeyWords {
  public:
    static constexpr int64_t kRowsMax = 1024;

    // column: index of the key's view in the views given to read().
    KeyWords(const KeyPart& part, int32_t column);

    // Words (of 8 bytes, perhaps not aligned) of rows [begin, begin + rows) that are not NULL, rows <= kRowsMax. They
    // live until the next call, or as long as the view.
    const uint8_t* read(const std::vector<ColumnView>& views, int64_t begin, int64_t rows);
    uint32_t count() const { return count_; }  // of the last read

  private:
    const KeyPart& part_;
    const size_t column_;
    const bool plain_;
    std::vector<uint64_t> words_;
    std::vector<int64_t> valid_;
    uint32_t count_ = 0;
};

}  // namespace spillway
