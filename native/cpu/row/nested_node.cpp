// SPDX-License-Identifier: Apache-2.0
#include "cpu/row/nested_node.hpp"

#include <algorithm>
#include <cstring>

#include "base/bit_range.hpp"
#include "base/error.hpp"

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
