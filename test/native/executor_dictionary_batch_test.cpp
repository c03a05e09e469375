// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/bitmap.hpp"
#include "cpu/row/column_builder.hpp"
#include "cpu/row/nested_codec.hpp"
#include "executor/dictionary_batch.hpp"
#include "support/test.hpp"

namespace spillway {
namespace {

struct Fixture {
    MemoryBudget budget{uint64_t{1} << 24};
    JobControl control;

    OutputColumn copy(const OutputColumn& values) {
        Dictionary dictionary;
        dictionary.type = *values.type;
        dictionary.values = view_of(values);
        OutputBatch batch = dictionary_batch(dictionary, budget, control);
        EXPECT_EQ(batch.rows, values.length);
        EXPECT_EQ(batch.columns.size(), size_t{1});
        return std::move(batch.columns[0]);
    }
};

TypePtr type_of(Layout layout, int32_t width) {
    ColumnType type;
    type.layout = layout;
    type.byte_width = width;
    return std::make_shared<const ColumnType>(type);
}

bool same_bytes(const Buffer& a, const Buffer& b) {
    return a.size() == b.size() && (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool same(const OutputColumn& a, const OutputColumn& b) {
    if (a.length != b.length || a.null_count != b.null_count || a.children.size() != b.children.size()) return false;
    if (!same_bytes(a.offsets, b.offsets) || !same_bytes(a.data, b.data)) return false;
    for (int64_t row = 0; row < a.length && a.null_count > 0; ++row) {
        if (get_bit(a.validity.data(), row) != get_bit(b.validity.data(), row)) return false;
    }
    for (size_t i = 0; i < a.children.size(); ++i) {
        if (!same(a.children[i], b.children[i])) return false;
    }
    return true;
}

}  // namespace

TEST(executor_dictionary_batch_copies_plain_values) {
    Fixture fixture;
    for (const int32_t width : {1, 4, 8, 16}) {
        ColumnBuilder builder(type_of(Layout::kFixed, width), fixture.budget, 8);
        std::vector<uint8_t> values(static_cast<size_t>(width) * 5);
        for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 7);
        builder.append_fixed(values.data(), nullptr, 5);
        const OutputColumn original = builder.finish();
        EXPECT(same(fixture.copy(original), original));
    }
}

TEST(executor_dictionary_batch_copies_strings_and_nulls) {
    Fixture fixture;
    for (const int32_t width : {4, 8}) {
        ColumnBuilder builder(type_of(Layout::kBinary, width), fixture.budget, 2);
        builder.append_bytes(reinterpret_cast<const uint8_t*>("pear"), 4);
        builder.append_null();
        builder.append_bytes(nullptr, 0);
        builder.append_bytes(reinterpret_cast<const uint8_t*>("fig"), 3);
        const OutputColumn original = builder.finish();
        EXPECT_EQ(original.null_count, int64_t{1});
        EXPECT(same(fixture.copy(original), original));
    }
}

TEST(executor_dictionary_batch_copies_nested_values) {
    Fixture fixture;
    ColumnType list;
    list.layout = Layout::kList;
    list.byte_width = 4;
    list.children.push_back(*type_of(Layout::kFixed, 8));
    const auto type = std::make_shared<const ColumnType>(list);
    // Values 10 20 30 as two lists: [10, 20] and [30].
    const int64_t numbers[] = {10, 20, 30};
    const int32_t offsets[] = {0, 2, 3};
    ColumnView child;
    child.type = &list.children[0];
    child.length = 3;
    child.data = reinterpret_cast<const uint8_t*>(numbers);
    ColumnView lists;
    lists.type = type.get();
    lists.length = 2;
    lists.offsets = reinterpret_cast<const uint8_t*>(offsets);
    lists.children.push_back(child);
    NestedBuilder builder(type, fixture.budget);
    for (int64_t row = 0; row < 2; ++row) {
        std::vector<uint8_t> encoded(encoded_bytes(lists, row, fixture.budget));
        encode_value(lists, row, encoded.data());
        builder.append(encoded.data(), encoded.size());
    }
    builder.append_null();
    const OutputColumn original = builder.finish();
    EXPECT(same(fixture.copy(original), original));
}

TEST(executor_dictionary_batch_of_nothing) {
    Fixture fixture;
    for (const Layout layout : {Layout::kFixed, Layout::kBool, Layout::kBinary}) {
        ColumnBuilder builder(type_of(layout, 4), fixture.budget, 8);
        const OutputColumn original = builder.finish();
        EXPECT_EQ(fixture.copy(original).length, int64_t{0});
    }
    fixture.control.cancelled = true;
    ColumnBuilder builder(type_of(Layout::kFixed, 4), fixture.budget, 8);
    const OutputColumn values = builder.finish();
    EXPECT_ERROR(kAborted, fixture.copy(values));
}

TEST(executor_dictionary_batch_counts_in_the_budget) {
    Fixture fixture;
    ColumnBuilder builder(type_of(Layout::kFixed, 8), fixture.budget, 8);
    const std::vector<int64_t> values(100000, 1);
    builder.append_fixed(values.data(), nullptr, static_cast<int64_t>(values.size()));
    const OutputColumn original = builder.finish();
    const uint64_t before = fixture.budget.used();
    {
        const OutputColumn copy = fixture.copy(original);
        EXPECT(fixture.budget.used() >= before + values.size() * sizeof(int64_t));
    }
    EXPECT_EQ(fixture.budget.used(), before);
}

}  // namespace spillway
