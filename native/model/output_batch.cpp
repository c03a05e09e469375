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

}  // namespace spillway
