// SPDX-License-Identifier: Apache-2.0
// Sizes of single values and rows that a file decides: no product wraps, and what they take comes from the budget.
#include <cstring>
#include <functional>
#include <string>

#include "cpu/materialize/column_gather.hpp"
#include "cpu/row/nested_codec.hpp"
#include "cpu/row/row_encoder.hpp"
#include "support/arrow_value.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

constexpr uint64_t kMebibyte = 1 << 20;

TypePtr shared(ColumnType type) {
    return std::make_shared<const ColumnType>(std::move(type));
}

// A column of one list of `count` values, which are all the same `length` bytes: as views, or as a dense union whose
// rows are all row 0 of its only member.
struct SameValues {
    SameValues(Layout layout, uint32_t count, uint32_t length) : data(length, 'v') {
        const bool views = layout == Layout::kView;
        const ColumnType text = type_of(Layout::kBinary, 4);
        type = type_of(Layout::kList, 4, {views ? type_of(layout, 16) : type_of(layout, 0, {text})});
        type.name = "p";
        ends = {0, count};
        column.type = &type;
        column.length = 1;
        column.offsets = reinterpret_cast<const uint8_t*>(ends.data());
        ColumnView items;
        items.type = &type.children[0];
        items.length = count;
        if (views) {
            for (uint32_t i = 0; i < count; ++i) words.insert(words.end(), {length, 0, 0, 0});
            items.data = reinterpret_cast<const uint8_t*>(words.data());
            items.view_buffers = {reinterpret_cast<const uint8_t*>(data.data())};
        } else {
            ids.assign(count, items.type->type_ids[0]);
            words.assign(count, 0);
            member_ends = {0, length};
            items.data = reinterpret_cast<const uint8_t*>(ids.data());
            items.offsets = reinterpret_cast<const uint8_t*>(words.data());
            ColumnView member;
            member.type = &items.type->children[0];
            member.length = 1;
            member.offsets = reinterpret_cast<const uint8_t*>(member_ends.data());
            member.data = reinterpret_cast<const uint8_t*>(data.data());
            items.children.push_back(member);
        }
        column.children.push_back(std::move(items));
    }
    SameValues(const SameValues&) = delete;

    std::string data;
    ColumnType type;
    std::vector<uint32_t> ends;
    std::vector<uint32_t> words;
    std::vector<int8_t> ids;
    std::vector<uint32_t> member_ends;
    ColumnView column;
};

// As planned for a file without rows: then items need no NULL bits, whose memory would be the first to be missing.
void hold_no_nulls(ColumnType& type) {
    type.nullable = false;
    for (ColumnType& child : type.children) hold_no_nulls(child);
}

RowLayout carried(const TypePtr& type) {
    return RowLayout::make({type}, {}, {0}, NullKeys::kDrop);
}

}  // namespace

// Types like these are refused when a relation is opened; here nothing but the builder itself sees them.
TEST(row_sizes_nulls_of_lists_whose_sizes_multiply_do_not_wrap) {
    const std::vector<std::vector<int64_t>> chains = {{65535, 65537, 641, 6700417},  // -1 modulo 2^64
                                                      {4, 1 << 30, 1 << 30},         // 2^62
                                                      {8, 1 << 30, 1 << 30},         // 2^63
                                                      {16, 1 << 30, 1 << 30},        // 2^64: no items
                                                      {65537, 1 << 16, 1 << 16, 1 << 16},
                                                      {1 << 30, 1 << 30}};
    for (const std::vector<int64_t>& sizes : chains) {
        Random random(5);
        for (int leaf = 0; leaf < 40; ++leaf) {
            ColumnType type = random_type(random, 2, true);
            for (const int64_t size : sizes) type = list_of_size(size, type);
            hold_no_nulls(type);
            MemoryBudget budget(kMebibyte);
            NestedBuilder builder(shared(type), budget);
            try {
                for (int i = 0; i < 5; ++i) builder.append_null();
            } catch (const Error& error) {
                EXPECT(error.code() == ErrorCode::kUnsupportedType || error.code() == ErrorCode::kBudgetTooSmall);
                continue;
            }
            // Lists of no bytes that can be counted.
            const OutputColumn column = builder.finish();
            const OutputColumn* items = &column;
            for (size_t i = sizes.size(); i-- > 0; items = &items->children[0]) {
                const __int128 wanted = static_cast<__int128>(items->length) * sizes[i];
                EXPECT(items->length >= 0 && items->children[0].length == wanted);
            }
        }
    }
}

TEST(row_sizes_counts_of_lists_without_bytes_do_not_wrap) {
    const ColumnType type = type_of(Layout::kList, 8, {type_of(Layout::kNull)});
    MemoryBudget budget(kMebibyte);
    NestedBuilder builder(shared(type), budget);
    const uint8_t many[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f};  // LEB128 of 2^53 - 1
    builder.append(many, sizeof many);
    EXPECT_ERROR(kUnsupportedType, builder.append(many, sizeof many));
    NestedBuilder beyond(shared(type), budget);
    const uint8_t most[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};  // of 2^64 - 1
    EXPECT_ERROR(kUnsupportedType, beyond.append(most, sizeof most));
}

// 1.5 MiB of views, 192 MiB of values; 4 GiB of them from 512 KiB.
TEST(row_sizes_values_that_share_their_bytes_are_counted_before_they_are_held) {
    for (const Layout layout : {Layout::kView, Layout::kUnionDense}) {
        const SameValues values(layout, 1536, 128 << 10);
        const TypePtr type = shared(values.type);
        const RowLayout row = carried(type);
        MemoryBudget small(64 * kMebibyte);
        RowEncoder encoder(row, {0}, small);
        try {
            encoder.encode({values.column}, 0, 1, 0);
            EXPECT(false);
        } catch (const Error& error) {
            EXPECT(error.code() == ErrorCode::kBudgetTooSmall);
            EXPECT(error.message().find("'p'") != std::string::npos);
        }
        EXPECT(small.peak() < kMebibyte);
        // In a larger one they are held, and counted.
        MemoryBudget large(512 * kMebibyte);
        RowEncoder roomy(row, {0}, large);
        const EncodedRows& encoded = roomy.encode({values.column}, 0, 1, 0);
        EXPECT(encoded.heap_bytes[0] >= 192 * kMebibyte);
        EXPECT(large.used() >= 192 * kMebibyte);
        // A buffer of the encoder for all rows of a block, of which each alone would fit.
        MemoryBudget tight(200 * kMebibyte);
        RowEncoder full(row, {0}, tight);
        const Reservation others = tight.reserve(100 * kMebibyte, "others");
        EXPECT_ERROR(kBudgetTooSmall, full.encode({values.column}, 0, 1, 0));
        ColumnGather gather(type, small);
        const ValuePlace place{&values.column, 0};
        EXPECT_ERROR(kBudgetTooSmall, gather.find(&place, 1));
    }
    const SameValues values(Layout::kView, 32768, 128 << 10);
    MemoryBudget budget(8192 * kMebibyte);
    const RowLayout row = carried(shared(values.type));
    RowEncoder encoder(row, {0}, budget);
    EXPECT_ERROR(kUnsupportedType, encoder.encode({values.column}, 0, 1, 0));
    EXPECT(budget.peak() < kMebibyte);
}

// Unions in one another, each level of which shows the next one 64 times: 64^6 values. The walk ends with the budget.
TEST(row_sizes_unions_that_multiply_end_with_the_budget) {
    constexpr uint32_t kTimes = 64;
    const std::vector<int8_t> ids(kTimes, 127);
    const std::vector<int32_t> zeros(kTimes, 0);
    const std::vector<int32_t> ends = {0, kTimes};
    ColumnType type = type_of(Layout::kNull);
    for (int level = 0; level < 6; ++level) {
        type = type_of(Layout::kList, 4, {type_of(Layout::kUnionDense, 0, {type})});
    }
    std::function<ColumnView(const ColumnType&)> view_of_list = [&](const ColumnType& list) {
        ColumnView view;
        view.type = &list;
        view.length = 1;
        if (list.layout == Layout::kNull) return view;
        view.offsets = reinterpret_cast<const uint8_t*>(ends.data());
        ColumnView items;
        items.type = &list.children[0];
        items.length = kTimes;
        items.data = reinterpret_cast<const uint8_t*>(ids.data());
        items.offsets = reinterpret_cast<const uint8_t*>(zeros.data());
        items.children.push_back(view_of_list(items.type->children[0]));
        view.children.push_back(std::move(items));
        return view;
    };
    const ColumnView view = view_of_list(type);
    const MemoryBudget budget(16 * kMebibyte);
    EXPECT_ERROR(kBudgetTooSmall, encoded_bytes(view, 0, budget));
}

TEST(row_sizes_scratch_rows_are_few_where_rows_are_wide) {
    const int32_t width = 48 << 20;
    const TypePtr type = shared(type_of(Layout::kFixed, width));
    const std::string data(static_cast<size_t>(width) * 2, 'd');
    ColumnView view;
    view.type = type.get();
    view.length = 2;
    view.data = reinterpret_cast<const uint8_t*>(data.data());
    MemoryBudget budget(64 * kMebibyte);
    {
        const RowLayout layout = carried(type);
        RowEncoder encoder(layout, {0}, budget);
        EXPECT_EQ(encoder.rows_max(), 1);
        EXPECT_EQ(encoder.encode({view}, 1, 1, 0).rows, 1);
        EXPECT(budget.used() >= static_cast<uint64_t>(width));
        EXPECT_ERROR(kBudgetTooSmall, RowEncoder(layout, {0}, budget));
    }
    ColumnGather gather(type, budget);
    EXPECT(budget.used() >= static_cast<uint64_t>(width) && budget.used() < 64 * kMebibyte);
    // Where there is room for fewer rows than wanted, fewer are encoded at a time.
    const RowLayout narrow = carried(shared(type_of(Layout::kFixed, 200)));
    MemoryBudget little(128 << 10);
    RowEncoder few(narrow, {0}, little);
    EXPECT(few.rows_max() >= 256 && few.rows_max() < 1024);
}

// Rows go to pages and spill files as they are: what a block held before is not part of them.
TEST(row_sizes_scratch_rows_are_padded_with_zeros) {
    const TypePtr type = shared(type_of(Layout::kFixed, 67));
    const RowLayout layout = carried(type);
    EXPECT(layout.row_bytes == 80 && layout.null_offset + layout.null_bytes < layout.row_bytes);
    MemoryBudget budget(kMebibyte);
    {
        Buffer used = Buffer::allocate(budget, RowEncoder::kRowsMax * layout.row_bytes, "before");
        std::memset(used.data(), 0xff, used.capacity());
    }
    EXPECT(budget.cached() > 0);
    const std::string data(6700, 'd');
    ColumnView view;
    view.type = type.get();
    view.length = 100;
    view.data = reinterpret_cast<const uint8_t*>(data.data());
    RowEncoder encoder(layout, {0}, budget);
    const EncodedRows& encoded = encoder.encode({view}, 0, view.length, 0);
    for (int64_t i = 0; i < encoded.rows; ++i) {
        const uint8_t* const row = encoded.data + i * encoded.row_bytes;
        for (uint32_t at = layout.null_offset + layout.null_bytes; at < layout.row_bytes; ++at) {
            EXPECT_EQ(int{row[at]}, 0);
        }
    }
}

}  // namespace spillway::test
