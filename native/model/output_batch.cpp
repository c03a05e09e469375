// SPDX-License-Identifier: Apache-2.0
#include "model/output_batch.hpp"

namespace spillway {

namespace {

uint64_t column_bytes(const OutputColumn& column) {
    uint64_t bytes = column.validity.size() + column.offsets.size() + column.data.size();
    for (const auto& child : column.children) bytes += column_bytes(child);
    return bytes;
}

}  // namespace

uint64_t OutputBatch::bytes() const {
    uint64_t bytes = 0;
    for (const auto& column : columns) bytes += column_bytes(column);
    return bytes;
}

ColumnView view_of(const OutputColumn& column) {
    ColumnView view;
    view.type = column.type.get();
    view.length = column.length;
    view.validity = column.validity.empty() ? nullptr : column.validity.data();
    view.data = column.data.data();
    view.offsets = column.offsets.data();
    view.children.reserve(column.children.size());
    for (const auto& child : column.children) view.children.push_back(view_of(child));
    return view;
}

bool has_planned_layout(const ColumnType& planned, const ColumnType& actual) {
    const Layout layout = planned.layout == Layout::kView ? Layout::kBinary : planned.layout;
    if (layout != actual.layout || planned.children.size() != actual.children.size()) return false;
    // The index width of a dictionary type is the one of the source; rows always carry int32 indices.
    const bool width_matters = layout == Layout::kFixed || layout == Layout::kBinary || layout == Layout::kList;
    const int32_t width = planned.layout == Layout::kView ? 4 : planned.byte_width;
    if (width_matters && width != actual.byte_width) return false;
    if (layout == Layout::kFixedList && planned.list_size != actual.list_size) return false;
    if (layout == Layout::kDictionary) return true;
    for (size_t i = 0; i < planned.children.size(); ++i) {
        if (!has_planned_layout(planned.children[i], actual.children[i])) return false;
    }
    return true;
}

}  // namespace spillway
