// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/vector_writer.hpp"

#include <utility>

namespace spillway {

namespace {

std::vector<VectorColumn> of_source(const std::vector<VectorColumn>& outputs, bool wanted) {
    std::vector<VectorColumn> columns;
    for (const VectorColumn& output : outputs) {
        if (wanted && output.join < 0) columns.push_back(output);
    }
    return columns;
}

}  // namespace

VectorWriter::VectorWriter(std::vector<VectorColumn> outputs, MemoryBudget& budget, BatchSink& sink, int worker,
                           int64_t expected_rows)
    : outputs_(std::move(outputs)),
      gather_(of_source(outputs_, sink.wants_columns()), budget),
      batches_(budget, sink, worker) {
    size_t gathered = 0;
    for (const VectorColumn& output : outputs_) {
        gathered_.push_back(gathered);
        if (output.join < 0) ++gathered;
        if (!batches_.counting()) batches_.add_column(output.type, expected_rows);
    }
}

void VectorWriter::append(const RowVector& rows, const std::vector<ColumnView>& source) {
    if (counting()) return batches_.count(static_cast<uint64_t>(rows.rows));
    const std::vector<ColumnView>& views = gather_.gather(rows, source);
    const auto value_bytes = [&](size_t column, int64_t begin, int64_t count) {
        const VectorColumn& output = outputs_[column];
        if (output.join < 0) return string_bytes(views[gathered_[column]], begin, count);
        return string_bytes(*output.field, rows.build_rows[static_cast<size_t>(output.join)] + begin, count);
    };
    batches_.append(rows.rows, value_bytes, [&](size_t column, ColumnBuilder& builder, int64_t begin, int64_t count) {
        const VectorColumn& output = outputs_[column];
        if (output.join < 0) {
            builder.append_view(views[gathered_[column]], begin, count);
            return;
        }
        const uint8_t* const* build_rows = rows.build_rows[static_cast<size_t>(output.join)] + begin;
        builder.append(*output.field, *output.layout, build_rows, count, output.absent_rows);
    });
}

}  // namespace spillway
