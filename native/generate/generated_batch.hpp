// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "memory/memory_budget.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// Bytes that one batch takes of the budget; text_bytes_max: per column, longest value of a utf8 column, else unused.
uint64_t generated_batch_bytes(const std::vector<TypePtr>& columns, const std::vector<uint32_t>& text_bytes_max,
                               int64_t rows);

// Buffers for `rows` rows without NULLs, not filled, taken from `memory` (at least generated_batch_bytes).
OutputBatch allocate_generated_batch(const std::vector<TypePtr>& columns, const std::vector<uint32_t>& text_bytes_max,
                                     int64_t rows, MemoryBudget& budget, Reservation& memory);

// Zeroes the padding behind the values, which is all that filling leaves undefined.
void zero_padding(OutputBatch& batch);

// Appends the values of a utf8 column of a generated batch, in order of the rows.
class TextWriter {
  public:
    explicit TextWriter(OutputColumn& column)
        : column_(column), offsets_(reinterpret_cast<int32_t*>(column.offsets.data())) {
        if (offsets_ != nullptr) offsets_[0] = 0;
    }
    void append(std::string_view text) {
        __builtin_memcpy(column_.data.data() + used_, text.data(), text.size());
        used_ += static_cast<int32_t>(text.size());
        *++offsets_ = used_;
    }
    void finish() { column_.data.set_size(static_cast<uint64_t>(used_)); }

  private:
    OutputColumn& column_;
    int32_t* offsets_;
    int32_t used_ = 0;
};

}  // namespace spillway
