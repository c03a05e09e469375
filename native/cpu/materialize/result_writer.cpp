// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/result_writer.hpp"

#include <algorithm>

namespace spillway {

namespace {

// A batch with byte strings is handed on at this size whatever its rows: it bounds what queues and files hold.
constexpr uint64_t kBatchBytesMax = 64ULL << 20;

const RowField& output_field(const JoinOutput& output, const RowLayout& build, const RowLayout& probe) {
    if (output.side == OutputSide::kProbe) return probe.fields[static_cast<size_t>(output.probe_field)];
    if (output.side == OutputSide::kBuild) return build.fields[static_cast<size_t>(output.build_field)];
    // A coalesced key: both sides were normalized to the wider of the two types.
    const RowField& a = build.fields[static_cast<size_t>(output.build_field)];
    const RowField& b = probe.fields[static_cast<size_t>(output.probe_field)];
    return a.width > b.width ? a : b;
}

}  // namespace

ResultWriter::ResultWriter(const std::vector<JoinOutput>& outputs, const RowLayout& build, const RowLayout& probe,
                           MemoryBudget& budget, BatchSink& sink, int worker, int64_t expected_rows)
    : outputs_(outputs),
      build_(build),
      probe_(probe),
      sink_(sink),
      worker_(worker),
      columns_wanted_(sink.wants_columns()),
      batch_rows_(std::max<int64_t>(sink.batch_rows(), 1)) {
    if (!columns_wanted_) return;
    builders_.reserve(outputs.size());
    for (const JoinOutput& output : outputs) {
        const RowField& field = output_field(output, build, probe);
        builders_.emplace_back(field.type, budget, std::min(expected_rows, batch_rows_));
        var_width_ = var_width_ || field.kind == FieldKind::kBytes || field.kind == FieldKind::kNested;
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

void ResultWriter::append(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count) {
    static const std::vector<const uint8_t*> kAbsent(1024, nullptr);
    for (int64_t done = 0; done < count;) {
        const int64_t step = std::min({count - done, batch_rows_ - buffered_rows_, int64_t{1024}});
        rows_ += static_cast<uint64_t>(step);
        if (columns_wanted_) {
            for (size_t i = 0; i < outputs_.size(); ++i) {
                const JoinOutput& output = outputs_[i];
                const bool from_probe =
                    output.side == OutputSide::kProbe || (output.side == OutputSide::kEither && probe_rows != nullptr);
                const uint8_t* const* side = from_probe ? probe_rows : build_rows;
                const RowLayout& layout = from_probe ? probe_ : build_;
                const int32_t field = from_probe ? output.probe_field : output.build_field;
                const uint8_t* const* rows = side == nullptr ? kAbsent.data() : side + done;
                builders_[i].append(layout.fields[static_cast<size_t>(field)], layout, rows, step, side == nullptr);
            }
            buffered_rows_ += step;
            if (buffered_rows_ >= batch_rows_ || (var_width_ && buffered_bytes() >= kBatchBytesMax)) flush();
        }
        done += step;
    }
}

uint64_t ResultWriter::buffered_bytes() const {
    uint64_t bytes = 0;
    for (const ColumnBuilder& builder : builders_) bytes += builder.bytes();
    return bytes;
}

void ResultWriter::flush() {
    OutputBatch batch;
    batch.rows = buffered_rows_;
    batch.columns.reserve(builders_.size());
    for (ColumnBuilder& builder : builders_) batch.columns.push_back(builder.finish());
    buffered_rows_ = 0;
    sink_.push(worker_, std::move(batch));
}

uint64_t ResultWriter::finish() {
    if (!columns_wanted_) {
        sink_.add_rows(worker_, rows_);
    } else if (buffered_rows_ > 0) {
        flush();
    }
    return rows_;
}

}  // namespace spillway
