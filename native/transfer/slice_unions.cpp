// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "transfer/slice_reader.hpp"

namespace spillway {

void SliceReader::read_type_ids(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    view.validity = nullptr;
    view.data = fetch_structure(slice, slice.buffer(0), slice.row, slice.rows, scratch.data);
    const std::vector<int32_t>& child_of_id = slice.plan.child_of_id;
    for (int64_t i = 0; i < slice.rows; ++i) {
        if (!child_of_id.empty() && child_of_id[view.data[i]] >= 0) continue;
        throw slice.corrupt("has the unknown type id " + std::to_string(static_cast<int8_t>(view.data[i])) +
                            " in row " + std::to_string(slice.row + i));
    }
}

// Reads the child rows of the slice into scratch.offsets, checks them and finds the range used of every member.
void SliceReader::find_member_rows(const Slice& slice, NodeScratch& scratch, const ColumnView& view) {
    uint8_t* offsets = reserve(scratch.offsets, static_cast<uint64_t>(slice.rows) * 4);
    copy(slice, slice.buffer(1), slice.row * 4, slice.rows * 4, offsets);
    scratch.ranges.assign(slice.plan.children.size(), {});
    for (int64_t i = 0; i < slice.rows; ++i) {
        const auto member = static_cast<size_t>(slice.plan.child_of_id[view.data[i]]);
        int32_t row;
        std::memcpy(&row, offsets + i * 4, 4);
        const int64_t member_rows = slice.batch.node(slice.plan.children[member]).length;
        if (row < 0 || row >= member_rows) {
            throw slice.corrupt("points to row " + std::to_string(row) + " of member '" +
                                slice.plan.children[member].name + "', which has " + std::to_string(member_rows) +
                                " rows, in row " + std::to_string(slice.row + i));
        }
        NodeScratch::Range& range = scratch.ranges[member];
        if (range.end == 0) range.begin = row;
        range.begin = std::min<int64_t>(range.begin, row);
        range.end = std::max<int64_t>(range.end, row + int64_t{1});
    }
}

// Every member is read from its own first row on, so the offsets are made relative to that, in a copy.
void SliceReader::read_dense_union(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    read_type_ids(slice, scratch, view);
    find_member_rows(slice, scratch, view);
    uint8_t* offsets = scratch.offsets.data();
    for (int64_t i = 0; i < slice.rows; ++i) {
        const auto member = static_cast<size_t>(slice.plan.child_of_id[view.data[i]]);
        int32_t row;
        std::memcpy(&row, offsets + i * 4, 4);
        row -= static_cast<int32_t>(scratch.ranges[member].begin);
        std::memcpy(offsets + i * 4, &row, 4);
    }
    view.offsets = offsets;
    view.offset_base = 0;
    for (size_t k = 0; k < slice.plan.children.size(); ++k) {
        const NodeScratch::Range range = scratch.ranges[k];
        read(slice.child(k, range.begin, range.end - range.begin), scratch.children[k], view.children[k]);
    }
}

}  // namespace spillway
