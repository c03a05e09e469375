// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/bit_range.hpp"
#include "base/error.hpp"
#include "cpu/row/nested_encoding.hpp"
#include "cpu/row/nested_node.hpp"

namespace spillway {

// Lengths of the next rows become offsets from `end` on.
template <class Offset>
const uint8_t* NestedNode::read_lengths(const uint8_t* in, int64_t rows, int64_t end, int64_t* total) {
    repeat_offset<Offset>(0, end);
    ensure(offsets_, static_cast<uint64_t>(length_ + 1) * sizeof(Offset),
           static_cast<uint64_t>(length_ + rows + 1) * sizeof(Offset));
    const int64_t begin = end;
    bool wraps = false;
    for (int64_t i = 1; i <= rows; ++i) {
        uint64_t length;
        in = read_varint(in, &length);
        wraps |= __builtin_add_overflow(end, length, &end);
        write_offset<Offset>(length_ + i, end);
    }
    if (wraps) fail_length();
    check_offset(end, sizeof(Offset) == 8);
    *total = end - begin;
    return in;
}

template <class Offset>
const uint8_t* NestedNode::read_binary(const uint8_t* in, int64_t rows) {
    int64_t total = 0;
    in = read_lengths<Offset>(in, rows, static_cast<int64_t>(data_.size()), &total);
    if (total > 0) std::memcpy(extend_data(static_cast<uint64_t>(total)), in, static_cast<size_t>(total));
    return in + total;
}

template <class Offset>
const uint8_t* NestedNode::read_list(const uint8_t* in, int64_t rows) {
    int64_t total = 0;
    in = read_lengths<Offset>(in, rows, children_[0].length(), &total);
    return children_[0].read_child(in, total);
}

const uint8_t* NestedNode::read_union(const uint8_t* in, int64_t rows) {
    const uint8_t* ids = in;
    std::memcpy(extend_data(static_cast<uint64_t>(rows)), ids, static_cast<size_t>(rows));
    in += rows;
    const bool dense = type_->layout == Layout::kUnionDense;
    if (dense) {
        ensure(offsets_, static_cast<uint64_t>(length_) * 4, static_cast<uint64_t>(length_ + rows) * 4);
    }
    for (int64_t i = 0; i < rows; ++i) {
        const int32_t active = union_child(*type_, static_cast<int8_t>(ids[i]));
        SPILLWAY_CHECK(active >= 0);
        NestedNode& member = children_[static_cast<size_t>(active)];
        if (dense) {
            check_offset(member.length(), false);
            write_offset<int32_t>(length_ + i, member.length());
        }
        in = member.read_child(in, 1);
        for (size_t k = 0; !dense && k < children_.size(); ++k) {
            if (static_cast<int32_t>(k) != active) children_[k].append_filler(1);
        }
    }
    return in;
}

const uint8_t* NestedNode::read_rows(const uint8_t* in, int64_t rows) {
    const int64_t length = length_with(rows);
    if (!is_union()) mark(rows, true);
    switch (type_->layout) {
        case Layout::kNull:
            break;
        case Layout::kBool:
            extend_bits(rows);
            copy_bits(in, 0, rows, data_.data(), length_);
            in += bitmap_bytes(rows);
            break;
        case Layout::kFixed:
        case Layout::kDictionary: {
            const uint64_t bytes = multiply_or_max(static_cast<uint64_t>(rows), width_);
            if (bytes > 0) std::memcpy(extend_data(bytes), in, bytes);
            in += bytes;
            break;
        }
        case Layout::kBinary:
            in = type_->byte_width == 8 ? read_binary<int64_t>(in, rows) : read_binary<int32_t>(in, rows);
            break;
        case Layout::kList:
            in = type_->byte_width == 8 ? read_list<int64_t>(in, rows) : read_list<int32_t>(in, rows);
            break;
        case Layout::kFixedList:
            in = children_[0].read_child(in, fixed_items(rows));
            break;
        case Layout::kStruct:
            for (NestedNode& child : children_) in = child.read_child(in, rows);
            break;
        case Layout::kUnionSparse:
        case Layout::kUnionDense:
            in = read_union(in, rows);
            break;
        case Layout::kView:
            SPILLWAY_CHECK(false);  // replace_views() left none
    }
    length_ = length;
    return in;
}

const uint8_t* NestedNode::read_child(const uint8_t* in, int64_t rows) {
    if (rows == 0) return in;
    if (type_->layout == Layout::kNull || is_union()) return read_rows(in, rows);
    const auto flag = static_cast<NullFlag>(*in++);
    if (flag == NullFlag::kNone) return read_rows(in, rows);
    if (flag == NullFlag::kAll) {
        append_nulls(rows);
        return in;
    }
    SPILLWAY_CHECK(flag == NullFlag::kSome);
    const uint8_t* bitmap = in;
    in += bitmap_bytes(rows);
    for (int64_t row = 0; row < rows;) {
        const int64_t gap = row;
        while (row < rows && !get_bit(bitmap, row)) ++row;
        if (row > gap) append_nulls(row - gap);
        const int64_t run = row;
        while (row < rows && get_bit(bitmap, row)) ++row;
        if (row > run) in = read_rows(in, row - run);
    }
    return in;
}

}  // namespace spillway
