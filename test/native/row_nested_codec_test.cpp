// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "cpu/row/nested_codec.hpp"
#include "support/arrow_body.hpp"
#include "support/test.hpp"

namespace spillway {
namespace {

using namespace test;

constexpr uint64_t kBudget = 1ULL << 30;

// Rows of one memory batch as a view, through the reader.
struct Rows {
    Rows(Random& random, const ColumnType& type, std::vector<Value> rows, MemoryBudget& budget)
        : values(std::move(rows)) {
        SourceSpec spec;
        BodyBuilder builder(random, spec.dictionaries);
        spec.columns.push_back(std::make_shared<ColumnType>(type));
        spec.batches.push_back(builder.batch({type}, {values}, static_cast<int64_t>(values.size()), nullptr, -1));
        kept = builder.kept;
        source = std::make_unique<Source>(std::move(spec));
        source->load_dictionaries({0}, budget, control);
        reader = std::make_unique<SourceReader>(*source, std::vector<int32_t>{0}, budget, control);
    }
    std::vector<Value> values;
    std::vector<std::shared_ptr<Body>> kept;
    JobControl control;
    std::unique_ptr<Source> source;
    std::unique_ptr<SourceReader> reader;
};

std::vector<uint8_t> encode(const ColumnView& view, int64_t row) {
    const MemoryBudget budget(kBudget);
    std::vector<uint8_t> bytes(encoded_bytes(view, row, budget) + 8, 0xa5);
    encode_value(view, row, bytes.data());
    for (int i = 0; i < 8; ++i) EXPECT_EQ(int{bytes[bytes.size() - 1 - static_cast<size_t>(i)]}, 0xa5);
    bytes.resize(bytes.size() - 8);
    return bytes;
}

void expect_padded(const Buffer& buffer) {
    for (uint64_t i = buffer.size(); i < (buffer.size() + 63) / 64 * 64; ++i) EXPECT_EQ(int{buffer.data()[i]}, 0);
}

// What the Arrow format promises about every column.
void expect_valid(const OutputColumn& column) {
    const ColumnType& type = *column.type;
    const bool has_offsets = type.layout == Layout::kBinary || type.layout == Layout::kList;
    EXPECT(type.layout != Layout::kView);
    for (const Buffer* buffer : {&column.validity, &column.offsets, &column.data}) {
        if (!buffer->empty()) expect_padded(*buffer);
    }
    if (has_offsets) {
        EXPECT_EQ(column.offsets.size(),
                  static_cast<uint64_t>(column.length + 1) * static_cast<uint64_t>(type.byte_width));
        const ColumnView view = view_of(column);
        EXPECT_EQ(offset_at(view, 0), 0);
        const int64_t last = offset_at(view, column.length);
        EXPECT_EQ(last,
                  type.layout == Layout::kList ? column.children[0].length : static_cast<int64_t>(column.data.size()));
    }
    int64_t nulls = 0;
    for (int64_t i = 0; i < column.length && !column.validity.empty(); ++i)
        nulls += !get_bit(column.validity.data(), i);
    if (type.layout == Layout::kNull) nulls = column.length;
    EXPECT_EQ(nulls, column.null_count);
    for (const OutputColumn& child : column.children) {
        if (type.layout == Layout::kStruct || type.layout == Layout::kUnionSparse)
            EXPECT_EQ(child.length, column.length);
        if (type.layout == Layout::kFixedList) EXPECT_EQ(child.length, column.length * type.list_size);
        expect_valid(child);
    }
}

void round_trip(Random& random, const ColumnType& type, int64_t rows, int64_t null_percent) {
    MemoryBudget budget(kBudget);
    Rows input(random, type, random_values(random, type, rows, null_percent), budget);
    NestedBuilder builder(input.source->columns()[0], budget);
    const int64_t first = below(random, rows);
    const ColumnView& view = input.reader->read(0, first, rows - first)[0];
    const bool is_union = type.layout == Layout::kUnionSparse || type.layout == Layout::kUnionDense;
    for (int round = 0; round < 2; ++round) {  // finish() leaves a usable builder
        for (int64_t i = 0; i < view.length; ++i) {
            if (type.layout == Layout::kNull || !view.is_valid(i)) {
                builder.append_null();
                continue;
            }
            const std::vector<uint8_t> bytes = encode(view, i);
            builder.append(bytes.data(), bytes.size());
        }
        if (!is_union) builder.append_null();  // also a NULL that the input never had
        EXPECT_EQ(builder.length(), view.length + !is_union);
        const OutputColumn column = builder.finish();
        EXPECT_EQ(builder.length(), 0);
        expect_valid(column);
        const ColumnView output = view_of(column);
        for (int64_t i = 0; i < view.length; ++i) {
            EXPECT_EQ(text_of(output, i), text_of(input.values[static_cast<size_t>(first + i)], type));
        }
        if (!is_union) EXPECT_EQ(text_of(output, view.length), std::string("null"));
    }
}

}  // namespace

TEST(row_nested_codec_round_trips_random_types) {
    for (uint64_t seed = 1; seed <= 400; ++seed) {
        Random random(seed);
        const ColumnType type = random_type(random, 3, true);
        try {
            round_trip(random, type, 1 + below(random, 40), seed % 3 == 0 ? 0 : 25);
        } catch (const std::exception& error) {
            throw Failure("seed " + std::to_string(seed) + ": " + error.what());
        }
    }
}

TEST(row_nested_codec_empty_columns_are_valid_arrow) {
    MemoryBudget budget(kBudget);
    for (uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        NestedBuilder builder(std::make_shared<ColumnType>(random_type(random, 3, true)), budget);
        const OutputColumn column = builder.finish();
        EXPECT_EQ(column.length, 0);
        expect_valid(column);
    }
}

TEST(row_nested_codec_is_compact_for_lists_of_integers) {
    Random random(7);
    MemoryBudget budget(kBudget);
    const ColumnType type = type_of(Layout::kList, 4, {type_of(Layout::kFixed, 8)});
    Value list;
    for (int i = 0; i < 100; ++i) list.items.push_back(random_value(random, type.children[0], 0));
    Rows input(random, type, {list}, budget);
    const ColumnView& view = input.reader->read(0, 0, 1)[0];
    EXPECT_EQ(encoded_bytes(view, 0, budget), 100u * 8 + 2);  // count, NULL flag
}

// The encoding tells values apart whatever lies under NULLs, before the first offset or in inactive union members.
TEST(row_nested_codec_equal_values_have_equal_bytes) {
    for (uint64_t seed = 1; seed <= 100; ++seed) {
        Random random(seed);
        MemoryBudget budget(kBudget);
        const ColumnType type = random_type(random, 3, false);
        const std::vector<Value> values = random_values(random, type, 20, 30);
        Rows one(random, type, values, budget);
        Rows two(random, type, values, budget);
        const ColumnView& left = one.reader->read(0, 0, 20)[0];
        const ColumnView& right = two.reader->read(0, 3, 17)[0];
        for (int64_t i = 0; i < right.length; ++i) {
            if (type.layout == Layout::kNull || !right.is_valid(i)) continue;
            EXPECT(encode(left, i + 3) == encode(right, i));
        }
    }
}

TEST(row_nested_codec_null_union_is_null_of_a_nullable_member) {
    MemoryBudget budget(kBudget);
    for (const Layout layout : {Layout::kUnionSparse, Layout::kUnionDense}) {
        ColumnType type = type_of(layout, 0, {type_of(Layout::kFixed, 4), type_of(Layout::kBinary, 4)});
        type.children[0].nullable = false;
        NestedBuilder builder(std::make_shared<ColumnType>(type), budget);
        builder.append_null();
        builder.append_null();
        const OutputColumn column = builder.finish();
        expect_valid(column);
        EXPECT_EQ(text_of(view_of(column), 1), std::string("<1:null>"));
        if (layout == Layout::kUnionSparse) EXPECT_EQ(column.children[0].null_count, 0);
    }
}

TEST(row_nested_codec_fillers_keep_non_nullable_promises) {
    MemoryBudget budget(kBudget);
    ColumnType type =
        type_of(Layout::kStruct, 0, {type_of(Layout::kFixed, 4), type_of(Layout::kBool), type_of(Layout::kBinary)});
    for (ColumnType& child : type.children) child.nullable = false;
    NestedBuilder builder(std::make_shared<ColumnType>(type), budget);
    for (int i = 0; i < 9; ++i) builder.append_null();
    const OutputColumn column = builder.finish();
    expect_valid(column);
    EXPECT_EQ(column.null_count, 9);
    for (const OutputColumn& child : column.children) EXPECT_EQ(child.null_count, 0);
}

TEST(row_nested_codec_rejects_more_items_than_offsets_reach) {
    MemoryBudget budget(kBudget);
    // Items without bytes of their own: a count alone makes two billion rows.
    const ColumnType type = type_of(Layout::kList, 4, {type_of(Layout::kNull)});
    NestedBuilder builder(std::make_shared<ColumnType>(type), budget);
    const uint8_t billion[] = {0x80, 0x94, 0xeb, 0xdc, 0x03};  // LEB128 of 10^9
    builder.append(billion, sizeof billion);
    builder.append(billion, sizeof billion);
    EXPECT_ERROR(kUnsupportedType, builder.append(billion, sizeof billion));
}

TEST(row_nested_codec_counts_its_memory) {
    MemoryBudget budget(1 << 20);
    const ColumnType type = type_of(Layout::kList, 4, {type_of(Layout::kBinary, 4)});
    NestedBuilder builder(std::make_shared<ColumnType>(type), budget);
    Random random(3);
    MemoryBudget input_budget(kBudget);
    Value list;
    list.items.resize(1);
    list.items[0].bytes = std::string(100000, 'x');
    Rows input(random, type, {list}, input_budget);
    const std::vector<uint8_t> bytes = encode(input.reader->read(0, 0, 1)[0], 0);
    builder.append(bytes.data(), bytes.size());
    EXPECT(builder.bytes() >= 100000 && builder.bytes() < 101000);
    EXPECT(budget.used() >= 100000);
    EXPECT_ERROR(kBudgetTooSmall, for (int i = 0; i < 20; ++i) builder.append(bytes.data(), bytes.size()));
}

}  // namespace spillway
