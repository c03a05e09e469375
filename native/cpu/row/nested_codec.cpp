// SPDX-License-Identifier: Apache-2.0
#include "cpu/row/nested_codec.hpp"

#include <algorithm>
#include <cstring>

#include "base/bit_range.hpp"
#include "base/error.hpp"
#include "cpu/row/nested_encoding.hpp"
#include "cpu/row/nested_node.hpp"

namespace spillway {

namespace {

template <class T>
T load_at(const uint8_t* data, int64_t index) {
    T value;
    std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
}

// Thrown by Sizer, to leave the walk.
struct TooLong {};

// The two passes over a value, sizes and bytes, run the same walk with one of these. Each step of it takes a byte at
// least, so a limit of bytes is one of time, too.
class Sizer {
  public:
    explicit Sizer(uint64_t limit) : left_(limit), limit_(limit) {}
    void byte(uint8_t) { take(1); }
    void varint(uint64_t value) { take(static_cast<uint64_t>(varint_bytes(value))); }
    void bytes(const uint8_t*, uint64_t count) { take(count); }
    void bits(const uint8_t*, int64_t, int64_t count) { take(static_cast<uint64_t>(bitmap_bytes(count))); }
    uint64_t size() const { return limit_ - left_; }

  private:
    void take(uint64_t count) {
        if (count > left_) throw TooLong{};
        left_ -= count;
    }

    uint64_t left_;
    const uint64_t limit_;
};

Error too_long(const std::string& column, const MemoryBudget& budget) {
    if (budget.limit() >= kEncodedBytesMax) {
        return Error(ErrorCode::kUnsupportedType,
                     "column '" + column +
                         "' has a nested value of more than 2 GiB, which cannot be joined or grouped; drop the column "
                         "with 'select' or split its values",
                     {{"column", column}, {"largestBytes", std::to_string(kEncodedBytesMax)}});
    }
    return Error(ErrorCode::kBudgetTooSmall,
                 "column '" + column + "' has a nested value of more than the " + bytes_text(budget.limit()) +
                     " that the option 'memory.host' allows; raise it, or drop the column with 'select'",
                 {{"tier", "host"},
                  {"column", column},
                  {"wantedBytes", std::to_string(budget.limit() + 1)},
                  {"option", "memory.host"}});
}

class Writer {
  public:
    explicit Writer(uint8_t* out) : out_(out) {}
    void byte(uint8_t value) { *out_++ = value; }
    void varint(uint64_t value) { out_ = write_varint(out_, value); }
    void bytes(const uint8_t* from, uint64_t count) {
        if (count == 0) return;
        std::memcpy(out_, from, count);
        out_ += count;
    }
    void bits(const uint8_t* from, int64_t bit, int64_t count) {
        copy_bits_aligned(from, bit, count, out_);
        out_ += bitmap_bytes(count);
    }

  private:
    uint8_t* out_;
};

template <class Sink>
void write_rows(Sink& sink, const ColumnView& column, int64_t begin, int64_t rows);

template <class Sink>
void write_child(Sink& sink, const ColumnView& column, int64_t begin, int64_t rows) {
    if (rows == 0 || column.type->layout == Layout::kNull) return;
    const bool is_union = column.type->layout == Layout::kUnionSparse || column.type->layout == Layout::kUnionDense;
    if (is_union) return write_rows(sink, column, begin, rows);
    const int64_t valid =
        column.validity == nullptr ? rows : count_set_bits(column.validity, column.validity_bit + begin, rows);
    if (valid == rows) {
        sink.byte(static_cast<uint8_t>(NullFlag::kNone));
        return write_rows(sink, column, begin, rows);
    }
    if (valid == 0) return sink.byte(static_cast<uint8_t>(NullFlag::kAll));
    sink.byte(static_cast<uint8_t>(NullFlag::kSome));
    sink.bits(column.validity, column.validity_bit + begin, rows);
    const int64_t end = begin + rows;
    for (int64_t row = begin; row < end;) {
        while (row < end && !column.is_valid(row)) ++row;
        const int64_t run = row;
        while (row < end && column.is_valid(row)) ++row;
        if (row > run) write_rows(sink, column, run, row - run);
    }
}

template <class Offset, class Sink>
void write_binary(Sink& sink, const ColumnView& column, int64_t begin, int64_t rows) {
    const auto first = static_cast<int64_t>(load_at<Offset>(column.offsets, begin));
    int64_t previous = first;
    for (int64_t row = begin; row < begin + rows; ++row) {
        const auto next = static_cast<int64_t>(load_at<Offset>(column.offsets, row + 1));
        sink.varint(static_cast<uint64_t>(next - previous));
        previous = next;
    }
    sink.bytes(column.data + (first - column.offset_base), static_cast<uint64_t>(previous - first));
}

template <class Sink>
void write_views(Sink& sink, const ColumnView& column, int64_t begin, int64_t rows) {
    for (int64_t row = begin; row < begin + rows; ++row) sink.varint(load_at<uint32_t>(column.data + row * 16, 0));
    for (int64_t row = begin; row < begin + rows; ++row) {
        const uint8_t* view = column.data + row * 16;
        const auto length = load_at<uint32_t>(view, 0);
        constexpr uint32_t kInlineMax = 12;
        if (length <= kInlineMax) {
            sink.bytes(view + 4, length);
        } else {
            sink.bytes(column.view_buffers[load_at<uint32_t>(view, 2)] + load_at<uint32_t>(view, 3), length);
        }
    }
}

template <class Offset, class Sink>
void write_list(Sink& sink, const ColumnView& column, int64_t begin, int64_t rows) {
    const auto first = static_cast<int64_t>(load_at<Offset>(column.offsets, begin));
    int64_t previous = first;
    for (int64_t row = begin; row < begin + rows; ++row) {
        const auto next = static_cast<int64_t>(load_at<Offset>(column.offsets, row + 1));
        sink.varint(static_cast<uint64_t>(next - previous));
        previous = next;
    }
    write_child(sink, column.children[0], first - column.offset_base, previous - first);
}

template <class Sink>
void write_union(Sink& sink, const ColumnView& column, int64_t begin, int64_t rows) {
    sink.bytes(column.data + begin, static_cast<uint64_t>(rows));
    const bool dense = column.type->layout == Layout::kUnionDense;
    for (int64_t row = begin; row < begin + rows; ++row) {
        const int32_t child = union_child(*column.type, load_at<int8_t>(column.data, row));
        SPILLWAY_CHECK(child >= 0);
        const int64_t child_row = dense ? load_at<int32_t>(column.offsets, row) - column.offset_base : row;
        write_child(sink, column.children[static_cast<size_t>(child)], child_row, 1);
    }
}

template <class Sink>
void write_rows(Sink& sink, const ColumnView& column, int64_t begin, int64_t rows) {
    const ColumnType& type = *column.type;
    switch (type.layout) {
        case Layout::kNull:
            return;
        case Layout::kBool:
            return sink.bits(column.data, column.data_bit + begin, rows);
        case Layout::kFixed:
            return sink.bytes(column.data + begin * type.byte_width, static_cast<uint64_t>(rows * type.byte_width));
        case Layout::kDictionary:
            return sink.bytes(column.data + begin * 4, static_cast<uint64_t>(rows) * 4);
        case Layout::kBinary:
            return type.byte_width == 8 ? write_binary<int64_t>(sink, column, begin, rows)
                                        : write_binary<int32_t>(sink, column, begin, rows);
        case Layout::kView:
            return write_views(sink, column, begin, rows);
        case Layout::kList:
            return type.byte_width == 8 ? write_list<int64_t>(sink, column, begin, rows)
                                        : write_list<int32_t>(sink, column, begin, rows);
        case Layout::kFixedList:
            return write_child(sink, column.children[0], begin * type.list_size, rows * type.list_size);
        case Layout::kStruct:
            for (const ColumnView& child : column.children) write_child(sink, child, begin, rows);
            return;
        case Layout::kUnionSparse:
        case Layout::kUnionDense:
            return write_union(sink, column, begin, rows);
    }
}

bool contains_view(const ColumnType& type) {
    return type.layout == Layout::kView || std::any_of(type.children.begin(), type.children.end(), contains_view);
}

void replace_views(ColumnType& type) {
    if (type.layout == Layout::kView) {
        type.layout = Layout::kBinary;
        type.byte_width = 4;
    }
    for (ColumnType& child : type.children) replace_views(child);
}

}  // namespace

uint64_t encoded_bytes(const ColumnView& column, int64_t row, const MemoryBudget& budget) {
    Sizer sizer(std::min(kEncodedBytesMax, budget.limit()));
    try {
        write_rows(sizer, column, row, 1);
    } catch (const TooLong&) {
        throw too_long(column.type->name, budget);
    }
    return sizer.size();
}

void encode_value(const ColumnView& column, int64_t row, uint8_t* out) {
    Writer writer(out);
    write_rows(writer, column, row, 1);
}

TypePtr materialized_type(const TypePtr& type) {
    if (!contains_view(*type)) return type;
    auto copy = std::make_shared<ColumnType>(*type);
    replace_views(*copy);
    return copy;
}

struct NestedBuilder::State {
    State(TypePtr type, MemoryBudget& budget) : root(std::move(type), budget) {}
    NestedNode root;
};

NestedBuilder::NestedBuilder(TypePtr type, MemoryBudget& budget)
    : state_(std::make_unique<State>(materialized_type(type), budget)) {}
NestedBuilder::~NestedBuilder() = default;

void NestedBuilder::append_null() {
    state_->root.append_nulls(1);
}

void NestedBuilder::append(const uint8_t* bytes, uint64_t size) {
    const uint8_t* end = state_->root.read_rows(bytes, 1);
    SPILLWAY_CHECK(end == bytes + size);
}

int64_t NestedBuilder::length() const {
    return state_->root.length();
}

uint64_t NestedBuilder::bytes() const {
    return state_->root.bytes();
}

OutputColumn NestedBuilder::finish() {
    return state_->root.finish();
}

}  // namespace spillway
