// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/result_writer.hpp"

#include <algorithm>

namespace spillway {

namespace {

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
    : outputs_(outputs), build_(build), probe_(probe), batches_(budget, sink, worker) {
    if (batches_.counting()) return;
    for (const JoinOutput& output : outputs) {
        batches_.add_column(output_field(output, build, probe).type, expected_rows);
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
    static const std::vector<const uint8_t*> kAbsent(BatchWriter::kStepRows, nullptr);
    if (counting()) {
        batches_.count(static_cast<uint64_t>(count));
        return;
    }
    struct Place {
        const uint8_t* const* rows;  // nullptr: this side is absent
        const RowLayout& layout;
        const RowField& field;
    };
    const auto place = [&](size_t column) {
        const JoinOutput& output = outputs_[column];
        const bool of_probe = from_probe(output, probe_rows != nullptr);
        const RowLayout& layout = of_probe ? probe_ : build_;
        const auto field = static_cast<size_t>(of_probe ? output.probe_field : output.build_field);
        return Place{of_probe ? probe_rows : build_rows, layout, layout.fields[field]};
    };
    const auto value_bytes = [&](size_t column, int64_t begin, int64_t rows) {
        const Place from = place(column);
        return from.rows == nullptr ? 0 : string_bytes(from.field, from.rows + begin, rows);
    };
    batches_.append(count, value_bytes, [&](size_t column, ColumnBuilder& builder, int64_t begin, int64_t rows) {
        const Place from = place(column);
        const bool absent = from.rows == nullptr;
        builder.append(from.field, from.layout, absent ? kAbsent.data() : from.rows + begin, rows, absent);
    });
}

}  // namespace spillway
