// SPDX-License-Identifier: Apache-2.0
#include "cpu/row/nested_node.hpp"

#include <algorithm>
#include <cstring>

#include "base/bit_range.hpp"
#include "base/error.hpp"
#include "cpu/row/nested_encoding.hpp"

namespace spillway {

namespace {

constexpr const char* kNestedPurpose = "result batches";
constexpr int64_t kRowsMax = int64_t{1} << 53;  // JavaScript counts rows exactly up to here
constexpr uint64_t kFirstBytes = 1024;          // nodes are many and often tiny: start small, Buffer::grow doubles

uint64_t padded_to_words(uint64_t bytes) {
    return round_up_or_max(bytes, 64);
}

// Sets the size and zeroes the padding behind it, so that files never carry stale memory.
void seal(Buffer& buffer, uint64_t bytes) {
    if (buffer.empty()) return;
    std::memset(buffer.data() + bytes, 0, std::min(padded_to_words(bytes), buffer.capacity()) - bytes);
    buffer.set_size(bytes);
}

}  // namespace

NestedNode::NestedNode(TypePtr type, MemoryBudget& budget) : type_(std::move(type)), budget_(&budget) {
    if (type_->layout == Layout::kDictionary) {
        width_ = sizeof(int32_t);
        return;  // child 0 is the value type and has no rows here
    }
    if (type_->layout == Layout::kFixed) width_ = static_cast<uint64_t>(type_->byte_width);
    children_.reserve(type_->children.size());
    for (const ColumnType& child : type_->children) children_.emplace_back(TypePtr(type_, &child), budget);
}

void NestedNode::ensure(Buffer& buffer, uint64_t used, uint64_t wanted) {
    if (wanted <= buffer.capacity()) return;
    buffer.set_size(std::min(used, buffer.capacity()));
    buffer.grow(*budget_, padded_to_words(std::max(wanted, kFirstBytes)), kNestedPurpose);
}

void NestedNode::fail_length() const {
    throw Error(ErrorCode::kUnsupportedType,
                "a result batch needs more than 2^53 values in column '" + type_->name +
                    "'; lower the option 'batchRows' or drop the column with 'select'",
                {{"column", type_->name}, {"option", "batchRows"}});
}

int64_t NestedNode::length_with(int64_t rows) const {
    const int64_t length = add_or_max(length_, rows);
    if (length > kRowsMax) fail_length();
    return length;
}

int64_t NestedNode::fixed_items(int64_t lists) const {
    const int64_t items = multiply_or_max(lists, type_->list_size);
    if (items > kRowsMax) fail_length();
    return items;
}

void NestedNode::check_offset(int64_t end, bool wide) const {
    if (wide || end <= INT32_MAX) return;
    const std::string unit = type_->layout == Layout::kBinary ? "bytes" : "items";
    throw Error(ErrorCode::kUnsupportedType,
                "a result batch needs more than 2147483647 " + unit + " in column '" + type_->name +
                    "', the most that its 32-bit offsets address; lower the option 'batchRows'",
                {{"column", type_->name}, {"option", "batchRows"}, {"wanted", std::to_string(end)}});
}

// Validity of the next `rows` rows.
void NestedNode::mark(int64_t rows, bool valid) {
    if (valid && validity_.empty()) return;
    const bool first = validity_.empty();
    ensure(validity_, static_cast<uint64_t>(bitmap_bytes(length_)),
           static_cast<uint64_t>(bitmap_bytes(length_ + rows)));
    if (first) fill_bits(validity_.data(), 0, length_, true);
    fill_bits(validity_.data(), length_, rows, valid);
    if (!valid) null_count_ += rows;
}

uint8_t* NestedNode::extend_data(uint64_t bytes) {
    const uint64_t used = data_.size();
    ensure(data_, used, add_or_max(used, bytes));
    data_.set_size(used + bytes);
    return data_.data() + used;
}

void NestedNode::extend_bits(int64_t rows) {
    const auto wanted = static_cast<uint64_t>(bitmap_bytes(length_ + rows));
    ensure(data_, static_cast<uint64_t>(bitmap_bytes(length_)), wanted);
    data_.set_size(wanted);
}

template <class Offset>
void NestedNode::write_offset(int64_t index, int64_t offset) {
    const auto value = static_cast<Offset>(offset);
    std::memcpy(offsets_.data() + index * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

template <class Offset>
void NestedNode::repeat_offset(int64_t rows, int64_t offset) {
    ensure(offsets_, static_cast<uint64_t>(length_ + 1) * sizeof(Offset),
           static_cast<uint64_t>(length_ + rows + 1) * sizeof(Offset));
    for (int64_t i = 0; i <= rows; ++i) write_offset<Offset>(length_ + i, offset);
}

// Rows nobody may look at (under a NULL parent, not the member in use): NULL, or the zero value where the type promises
// that there is no NULL. Index 0 need not exist in a dictionary, so those are NULL in any case.
void NestedNode::append_filler(int64_t rows) {
    append_blank(rows, !type_->nullable && type_->layout != Layout::kDictionary);
}

void NestedNode::append_blank(int64_t rows, bool valid) {
    if (rows == 0) return;
    const int64_t length = length_with(rows);
    if (is_union()) return append_blank_union(rows);
    if (type_->layout != Layout::kNull) mark(rows, valid);
    switch (type_->layout) {
        case Layout::kBool:
            extend_bits(rows);
            fill_bits(data_.data(), length_, rows, false);
            break;
        case Layout::kFixed:
        case Layout::kDictionary: {
            const uint64_t bytes = multiply_or_max(static_cast<uint64_t>(rows), width_);
            if (bytes > 0) std::memset(extend_data(bytes), 0, bytes);
            break;
        }
        case Layout::kBinary:
        case Layout::kList: {
            const auto end =
                type_->layout == Layout::kList ? children_[0].length() : static_cast<int64_t>(data_.size());
            type_->byte_width == 8 ? repeat_offset<int64_t>(rows, end) : repeat_offset<int32_t>(rows, end);
            break;
        }
        case Layout::kFixedList:
            children_[0].append_filler(fixed_items(rows));
            break;
        case Layout::kStruct:
            for (NestedNode& child : children_) child.append_filler(rows);
            break;
        default:
            break;
    }
    length_ = length;
}

void NestedNode::append_blank_union(int64_t rows) {
    SPILLWAY_CHECK(!children_.empty());
    size_t active = 0;
    while (active < children_.size() && !type_->children[active].nullable) ++active;
    if (active == children_.size()) active = 0;
    std::memset(extend_data(static_cast<uint64_t>(rows)), type_->type_ids[active], static_cast<size_t>(rows));
    if (type_->layout == Layout::kUnionDense) {
        check_offset(children_[active].length() + rows, false);
        ensure(offsets_, static_cast<uint64_t>(length_) * 4, static_cast<uint64_t>(length_ + rows) * 4);
        for (int64_t i = 0; i < rows; ++i) write_offset<int32_t>(length_ + i, children_[active].length() + i);
        children_[active].append_nulls(rows);
    } else {
        for (size_t k = 0; k < children_.size(); ++k) {
            k == active ? children_[k].append_nulls(rows) : children_[k].append_filler(rows);
        }
    }
    length_ += rows;
}

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

uint64_t NestedNode::bytes() const {
    uint64_t bytes = data_.size();
    if (!validity_.empty()) bytes += static_cast<uint64_t>(bitmap_bytes(length_));
    if (type_->layout == Layout::kBinary || type_->layout == Layout::kList) {
        bytes += static_cast<uint64_t>(length_ + 1) * static_cast<uint64_t>(type_->byte_width);
    } else if (type_->layout == Layout::kUnionDense) {
        bytes += static_cast<uint64_t>(length_) * 4;
    }
    for (const NestedNode& child : children_) bytes += child.bytes();
    return bytes;
}

OutputColumn NestedNode::finish() {
    if (length_ == 0 && (type_->layout == Layout::kBinary || type_->layout == Layout::kList)) {
        type_->byte_width == 8 ? repeat_offset<int64_t>(0, 0) : repeat_offset<int32_t>(0, 0);
    }
    const auto rows = static_cast<uint64_t>(length_);
    const auto bits = static_cast<uint64_t>(bitmap_bytes(length_));
    if (length_ % 8 != 0) {
        if (!validity_.empty()) fill_bits(validity_.data(), length_, 8 - length_ % 8, false);
        if (type_->layout == Layout::kBool) fill_bits(data_.data(), length_, 8 - length_ % 8, false);
    }
    seal(validity_, bits);
    seal(data_, data_.size());
    seal(offsets_,
         type_->layout == Layout::kUnionDense ? rows * 4 : (rows + 1) * static_cast<uint64_t>(type_->byte_width));
    OutputColumn column;
    column.type = type_;
    column.length = length_;
    column.null_count = type_->layout == Layout::kNull ? length_ : null_count_;
    column.validity = std::move(validity_);
    column.offsets = std::move(offsets_);
    column.data = std::move(data_);
    column.children.reserve(children_.size());
    for (NestedNode& child : children_) column.children.push_back(child.finish());
    length_ = 0;
    null_count_ = 0;
    return column;
}

}  // namespace spillway
