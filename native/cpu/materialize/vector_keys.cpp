// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/vector_keys.hpp"

namespace spillway {

namespace {

std::vector<VectorColumn> build_columns(const VectorColumn& column) {
    if (column.join < 0) return {};
    return {column};
}

}  // namespace

VectorKeys::VectorKeys(const KeyPart& part, const VectorColumn& column, MemoryBudget& budget)
    : part_(part),
      column_(column),
      plain_(are_own_words(part)),
      gather_(build_columns(column), budget),
      words_(static_cast<size_t>(RowVector::kRowsMax)) {
    valid_.reserve(static_cast<size_t>(RowVector::kRowsMax));
    places_.reserve(static_cast<size_t>(RowVector::kRowsMax));
}

const uint8_t* VectorKeys::read(const RowVector& rows, const std::vector<ColumnView>& source) {
    const bool in_source = column_.join < 0;
    const ColumnView& view = in_source ? source[column_.view] : gather_.gather(rows, source)[0];
    RowSelection selection{0, nullptr, rows.rows};
    if (in_source) selection = {rows.first_row, rows.source_rows, rows.rows};
    places_.clear();
    if (view.validity != nullptr) {
        valid_.clear();
        for (int64_t i = 0; i < rows.rows; ++i) {
            if (!view.is_valid(selection[i])) continue;
            valid_.push_back(selection[i]);
            places_.push_back(static_cast<int32_t>(i));
        }
        selection = {0, valid_.data(), static_cast<int64_t>(valid_.size())};
    }
    count_ = selection.count;
    if (plain_ && selection.rows == nullptr) return view.data + selection.begin * 8;
    normalize_words(part_, view, selection, words_.data());
    return reinterpret_cast<const uint8_t*>(words_.data());
}

void VectorKeys::to_rows(int32_t* positions, int64_t count) const {
    if (places_.empty()) return;
    for (int64_t i = 0; i < count; ++i) positions[i] = places_[static_cast<size_t>(positions[i])];
}

}  // namespace spillway
