// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/batch_writer.hpp"

#include <utility>

#include "base/error.hpp"
#include "model/type_size.hpp"

namespace spillway {

BatchWriter::BatchWriter(MemoryBudget& budget, BatchSink& sink, int worker)
    : budget_(budget),
      sink_(sink),
      worker_(worker),
      columns_wanted_(sink.wants_columns()),
      batch_size_{std::max<int64_t>(sink.batch_size().rows, 1), sink.batch_size().bytes} {}

void BatchWriter::add_column(const TypePtr& type, int64_t expected_rows) {
    const bool varies = type->is_bytes() || type->is_nested();
    if (varies) var_columns_.push_back({builders_.size()});
    fixed_row_bytes_ += varies ? sizeof(int32_t) : fixed_value_bytes(*type);
    builders_.emplace_back(type, budget_, std::min(expected_rows, batch_size_.rows));
}

bool BatchWriter::reserve(int64_t rows) {
    try {
        for (const VarColumn& var : var_columns_) builders_[var.column].reserve(rows, var.step_bytes);
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kBudgetTooSmall || (buffered_rows_ == 0 && rows <= 1)) throw;
        return false;
    }
}

uint64_t BatchWriter::buffered_bytes() const {
    uint64_t bytes = 0;
    for (const ColumnBuilder& builder : builders_) bytes += builder.bytes();
    return bytes;
}

void BatchWriter::flush() {
    OutputBatch batch = finish_batch(builders_, std::move(memory_), buffered_rows_);
    // There are more rows than were expected.
    if (buffered_rows_ == batch_size_.rows) {
        for (ColumnBuilder& builder : builders_) builder.expect(batch_size_.rows);
    }
    buffered_rows_ = 0;
    sink_.push(worker_, std::move(batch));
}

void BatchWriter::report_count() {
    sink_.add_rows(worker_, std::exchange(counted_, 0));
}

uint64_t BatchWriter::finish() {
    if (!columns_wanted_) {
        report_count();
    } else if (buffered_rows_ > 0) {
        flush();
    }
    return rows_;
}

}  // namespace spillway
