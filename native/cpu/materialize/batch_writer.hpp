// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/row/column_builder.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// The result batches of one worker: columns grow row by row, and a batch goes to the sink when it is full, in rows or
// in bytes. Whoever has the rows says how long their values are and appends them.
class BatchWriter {
  public:
    BatchWriter(MemoryBudget& budget, BatchSink& sink, int worker);

    // The next column. expected_rows: what it takes memory for at once. Only where !counting().
    void add_column(const TypePtr& type, int64_t expected_rows);
    bool counting() const { return !columns_wanted_; }
    void count(uint64_t rows) {
        rows_ += rows;
        counted_ += rows;
        if (counted_ >= static_cast<uint64_t>(batch_size_.rows)) report_count();
    }

    // Adds so many rows. bytes(column, begin, count): what values of these rows take in a column where they differ in
    // length; gather(column, builder, begin, count): appends these rows of the column.
    template <class ValueBytes, class Gather>
    void append(int64_t rows, ValueBytes&& bytes, Gather&& gather) {
        for (int64_t done = 0; done < rows;) {
            if (memory_ == nullptr) memory_ = begin_batch(builders_, budget_);
            const int64_t most = std::min({rows - done, batch_size_.rows - buffered_rows_, kStepRows});
            const int64_t step = var_columns_.empty() ? most : rows_with_room(done, most, bytes);
            for (size_t i = 0; i < builders_.size(); ++i) gather(i, builders_[i], done, step);
            rows_ += static_cast<uint64_t>(step);
            buffered_rows_ += step;
            done += step;
            if (step < most || buffered_rows_ >= batch_size_.rows) flush();
        }
    }
    // Hands the last batch (and the count) to the sink; returns all rows written.
    uint64_t finish();

    static constexpr int64_t kStepRows = 1024;  // that gather() is asked for at a time, at most

  private:
    // A column of values that differ in length.
    struct VarColumn {
        size_t column;
        uint64_t row_bytes = 0;
        uint64_t step_bytes = 0;
    };

    // How many of the rows the batch has room and gets memory for: a column whose buffer doubled may have taken what
    // another one needs. 0: the batch ends here. Throws when there is no memory for a single row.
    template <class ValueBytes>
    int64_t rows_with_room(int64_t begin, int64_t count, ValueBytes&& bytes) {
        for (int64_t step = rows_that_fit(begin, count, bytes);;) {
            if (reserve(step)) return step;
            if (buffered_rows_ > 0) return 0;
            step = rows_that_fit(begin, step / 2, bytes);
        }
    }

    // How many of the rows the batch has room for, and what their values take; none when it is full, but one at least
    // when it is empty.
    template <class ValueBytes>
    int64_t rows_that_fit(int64_t begin, int64_t count, ValueBytes&& value_bytes) {
        const uint64_t buffered = buffered_bytes();
        const uint64_t room = batch_size_.bytes > buffered ? batch_size_.bytes - buffered : 0;
        const auto bytes_of = [&](int64_t first, int64_t rows, uint64_t VarColumn::*sum) {
            uint64_t bytes = static_cast<uint64_t>(rows) * fixed_row_bytes_;
            for (VarColumn& var : var_columns_) bytes += var.*sum = value_bytes(var.column, first, rows);
            return bytes;
        };
        if (bytes_of(begin, count, &VarColumn::step_bytes) <= room) return count;
        for (VarColumn& var : var_columns_) var.step_bytes = 0;
        uint64_t bytes = 0;
        for (int64_t i = 0; i < count; ++i) {
            bytes += bytes_of(begin + i, 1, &VarColumn::row_bytes);
            const bool fits = bytes <= room;
            if (!fits && i + buffered_rows_ > 0) return i;
            for (VarColumn& var : var_columns_) var.step_bytes += var.row_bytes;
            if (!fits) return 1;
        }
        return count;
    }

    bool reserve(int64_t rows);
    void flush();
    void report_count();
    uint64_t buffered_bytes() const;

    MemoryBudget& budget_;
    BatchSink& sink_;
    const int worker_;
    const bool columns_wanted_;
    const BatchSize batch_size_;
    std::vector<ColumnBuilder> builders_;
    std::unique_ptr<BatchMemory> memory_;  // of the batch that has rows
    int64_t buffered_rows_ = 0;
    std::vector<VarColumn> var_columns_;
    uint64_t fixed_row_bytes_ = 0;  // of all columns, without the values of var_columns_
    uint64_t rows_ = 0;
    uint64_t counted_ = 0;  // of those, what the sink does not know yet: it may want no more
};

}  // namespace spillway
