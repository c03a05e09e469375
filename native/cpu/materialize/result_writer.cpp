// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/result_writer.hpp"

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

constexpr int64_t kStepRows = 1024;

const RowField& output_field(const JoinOutput& output, const RowLayout& build, const RowLayout& probe) {
    if (output.side == OutputSide::kProbe) return probe.fields[static_cast<size_t>(output.probe_field)];
    if (output.side == OutputSide::kBuild) return build.fields[static_cast<size_t>(output.build_field)];
    // A coalesced key: both sides were normalized to the wider of the two types.
    const RowField& a = build.fields[static_cast<size_t>(output.build_field)];
    const RowField& b = probe.fields[static_cast<size_t>(output.probe_field)];
    // A probe side without rows that was no relation never learned its dictionary.
    if (b.type->layout == Layout::kDictionary && b.type->dictionary == nullptr) return a;
    return a.width > b.width ? a : b;
}

}  // namespace

ResultWriter::ResultWriter(const std::vector<JoinOutput>& outputs, const RowLayout& build, const RowLayout& probe,
                           MemoryBudget& budget, BatchSink& sink, int worker, int64_t expected_rows)
    : outputs_(outputs),
      build_(build),
      probe_(probe),
      budget_(budget),
      sink_(sink),
      worker_(worker),
      columns_wanted_(sink.wants_columns()),
      batch_size_{std::max<int64_t>(sink.batch_size().rows, 1), sink.batch_size().bytes} {
    if (!columns_wanted_) return;
    builders_.reserve(outputs.size());
    for (const JoinOutput& output : outputs) {
        const RowField& field = output_field(output, build, probe);
        builders_.emplace_back(field.type, budget, std::min(expected_rows, batch_size_.rows));
        const bool is_var = field.kind == FieldKind::kBytes || field.kind == FieldKind::kNested;
        if (is_var) var_outputs_.push_back({&output, builders_.size() - 1});
        fixed_row_bytes_ += is_var ? sizeof(int32_t) : field.width;
    }
}

void ResultWriter::pairs(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count) {
    append(build_rows, probe_rows, count);
}
void ResultWriter::build_only(const uint8_t* const* build_rows, int64_t count) {
    append(build_rows, nullptr, count);
}
void ResultWriter::probe_only(const uint8_t* const* probe_rows, int64_t count) {
    append(nullptr, probe_rows, count);
}

bool ResultWriter::from_probe(const JoinOutput& output, bool has_probe_rows) {
    return output.side == OutputSide::kProbe || (output.side == OutputSide::kEither && has_probe_rows);
}

void ResultWriter::append(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count) {
    static const std::vector<const uint8_t*> kAbsent(kStepRows, nullptr);
    if (!columns_wanted_) {
        this->count(static_cast<uint64_t>(count));
        return;
    }
    for (int64_t done = 0; done < count;) {
        const uint8_t* const* build = build_rows == nullptr ? nullptr : build_rows + done;
        const uint8_t* const* probe = probe_rows == nullptr ? nullptr : probe_rows + done;
        if (memory_ == nullptr) memory_ = begin_batch(builders_, budget_);
        const int64_t most = std::min({count - done, batch_size_.rows - buffered_rows_, kStepRows});
        const int64_t step = var_outputs_.empty() ? most : rows_with_room(build, probe, most);
        for (size_t i = 0; i < outputs_.size(); ++i) {
            const JoinOutput& output = outputs_[i];
            const bool of_probe = from_probe(output, probe != nullptr);
            const uint8_t* const* side = of_probe ? probe : build;
            const RowLayout& layout = of_probe ? probe_ : build_;
            const RowField& field =
                layout.fields[static_cast<size_t>(of_probe ? output.probe_field : output.build_field)];
            builders_[i].append(field, layout, side == nullptr ? kAbsent.data() : side, step, side == nullptr);
        }
        rows_ += static_cast<uint64_t>(step);
        buffered_rows_ += step;
        done += step;
        if (step < most || buffered_rows_ >= batch_size_.rows) flush();
    }
}

// How many of the rows the batch has room and gets memory for: a column whose buffer doubled may have taken what
// another one needs. 0: the batch ends here. Throws when there is no memory for a single row.
int64_t ResultWriter::rows_with_room(const uint8_t* const* build_rows, const uint8_t* const* probe_rows,
                                     int64_t count) {
    for (int64_t step = rows_that_fit(build_rows, probe_rows, count);;) {
        try {
            for (size_t v = 0; v < var_outputs_.size(); ++v) {
                builders_[var_outputs_[v].builder].reserve(step, var_outputs_[v].step_bytes);
            }
            return step;
        } catch (const Error& error) {
            if (error.code() != ErrorCode::kBudgetTooSmall || (buffered_rows_ == 0 && step <= 1)) throw;
        }
        if (buffered_rows_ > 0) return 0;
        step = rows_that_fit(build_rows, probe_rows, step / 2);
    }
}

// How many of the rows the batch has room for, and what their values take; none when it is full, but one at least when
// it is empty.
int64_t ResultWriter::rows_that_fit(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count) {
    const uint64_t buffered = buffered_bytes();
    const uint64_t room = batch_size_.bytes > buffered ? batch_size_.bytes - buffered : 0;
    for (VarOutput& var : var_outputs_) var.step_bytes = 0;
    uint64_t bytes = 0;
    for (int64_t i = 0; i < count; ++i) {
        bytes += fixed_row_bytes_;
        for (VarOutput& var : var_outputs_) {
            var.row_bytes = 0;
            const bool of_probe = from_probe(*var.output, probe_rows != nullptr);
            const uint8_t* const* side = of_probe ? probe_rows : build_rows;
            if (side == nullptr || side[i] == nullptr) continue;
            const auto field = static_cast<size_t>(of_probe ? var.output->probe_field : var.output->build_field);
            var.row_bytes = var_ref(side[i], (of_probe ? probe_ : build_).fields[field].offset).length;
            bytes += var.row_bytes;
        }
        const bool fits = bytes <= room;
        if (!fits && i + buffered_rows_ > 0) return i;
        for (VarOutput& var : var_outputs_) var.step_bytes += var.row_bytes;
        if (!fits) return 1;
    }
    return count;
}

uint64_t ResultWriter::buffered_bytes() const {
    uint64_t bytes = 0;
    for (const ColumnBuilder& builder : builders_) bytes += builder.bytes();
    return bytes;
}

void ResultWriter::flush() {
    OutputBatch batch = finish_batch(builders_, std::move(memory_), buffered_rows_);
    // There are more rows than were expected.
    if (buffered_rows_ == batch_size_.rows) {
        for (ColumnBuilder& builder : builders_) builder.expect(batch_size_.rows);
    }
    buffered_rows_ = 0;
    sink_.push(worker_, std::move(batch));
}

void ResultWriter::report_count() {
    sink_.add_rows(worker_, std::exchange(counted_, 0));
}

uint64_t ResultWriter::finish() {
    if (!columns_wanted_) {
        report_count();
    } else if (buffered_rows_ > 0) {
        flush();
    }
    return rows_;
}

}  // namespace spillway
