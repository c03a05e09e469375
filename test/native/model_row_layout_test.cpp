// SPDX-License-Identifier: Apache-2.0
#include "model/row_layout.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

KeySpec key(int32_t column, int32_t width, KeyKind kind = KeyKind::kInteger) {
    KeySpec spec;
    spec.column = column;
    spec.width = width;
    spec.kind = kind;
    return spec;
}

}  // namespace

TEST(row_layout_stores_a_carried_integer_key_once) {
    const std::vector<TypePtr> types = {type_of(Kind::kInt64, false), type_of(Kind::kInt64, false)};
    const RowLayout layout = RowLayout::make(types, {key(0, 8)}, {0, 1}, NullKeys::kDrop);
    EXPECT(layout.mode == KeyMode::kWord);
    EXPECT(layout.fields[0].in_key_word);
    EXPECT_EQ(layout.fields[1].offset, 8u);
    EXPECT_EQ(layout.row_bytes, 16u);
    EXPECT_EQ(layout.null_bytes, 0u);
}

TEST(row_layout_packs_small_keys_into_one_word) {
    const std::vector<TypePtr> types = {type_of(Kind::kInt32, true), type_of(Kind::kInt8, true),
                                        type_of(Kind::kInt64, true)};
    const RowLayout drop = RowLayout::make(types, {key(0, 4), key(1, 1)}, {}, NullKeys::kDrop);
    EXPECT(drop.mode == KeyMode::kWord);
    EXPECT_EQ(drop.keys[1].offset, 32u);
    EXPECT_EQ(drop.row_bytes, 8u);
    // One mask byte more still fits, a ninth byte does not.
    EXPECT(RowLayout::make(types, {key(0, 4), key(1, 1)}, {}, NullKeys::kEqual).mode == KeyMode::kWord);
    const RowLayout wide = RowLayout::make(types, {key(2, 8)}, {}, NullKeys::kEqual);
    EXPECT(wide.mode == KeyMode::kWide);
    EXPECT(wide.has_mask);
    EXPECT_EQ(wide.key_end % 8, 0u);
}

TEST(row_layout_keeps_floats_beside_their_normalized_key) {
    const std::vector<TypePtr> types = {type_of(Kind::kFloat64, false)};
    const RowLayout layout = RowLayout::make(types, {key(0, 8, KeyKind::kFloat)}, {0}, NullKeys::kDrop);
    EXPECT(!layout.fields[0].in_key_word);  // -0 and NaN payloads cannot be recovered from the key
    EXPECT_EQ(layout.row_bytes, 16u);
}

TEST(row_layout_orders_fields_by_alignment_and_marks_nulls) {
    const std::vector<TypePtr> types = {type_of(Kind::kInt64, true), type_of(Kind::kInt8, true),
                                        type_of(Kind::kInt64, true), type_of(Kind::kText, true)};
    const RowLayout layout = RowLayout::make(types, {key(0, 8)}, {0, 1, 2, 3}, NullKeys::kKeep);
    EXPECT_EQ(layout.fields[2].offset % 8, 0u);
    EXPECT(layout.fields[1].offset > layout.fields[2].offset);
    EXPECT(layout.has_var);
    EXPECT_EQ(layout.null_bytes, 1u);
    EXPECT_EQ(layout.keys[0].null_bit, layout.fields[0].null_bit);
    EXPECT_EQ(layout.row_bytes % 8, 0u);
    // Rows with a NULL key are gone under kDrop: their column needs no bit.
    EXPECT_EQ(RowLayout::make(types, {key(0, 8)}, {0}, NullKeys::kDrop).fields[0].null_bit, -1);
}

TEST(row_layout_lists_byte_strings_once) {
    const std::vector<TypePtr> types = {type_of(Kind::kText, false), type_of(Kind::kInt64, false),
                                        type_of(Kind::kText, false)};
    const KeySpec text_key = key(0, 8, KeyKind::kBytes);
    const RowLayout layout = RowLayout::make(types, {text_key}, {0, 1, 2}, NullKeys::kDrop);
    const std::vector<uint32_t> offsets = {layout.var_keys[0], layout.fields[2].offset};
    EXPECT(layout.var_offsets == offsets);
    EXPECT(RowLayout::make(types, {key(1, 8)}, {1}, NullKeys::kDrop).var_offsets.empty());
}

TEST(row_layout_keeps_short_texts_in_the_row) {
    const std::vector<TypePtr> types = {type_of(Kind::kText, true), type_of(Kind::kText, false),
                                        type_of(Kind::kInt64, false)};
    const KeySpec two = key(0, 2, KeyKind::kInlineBytes);
    const KeySpec five = key(1, 5, KeyKind::kInlineBytes);
    const RowLayout word = RowLayout::make(types, {two, five}, {0, 1, 2}, NullKeys::kEqual);
    EXPECT(word.mode == KeyMode::kWord);
    EXPECT(!word.has_var);
    EXPECT(word.fields[0].kind == FieldKind::kInlineBytes && word.fields[0].in_key_word);
    EXPECT_EQ(word.fields[1].width, 5u);
    EXPECT_EQ(word.fields[1].key_shift, 16u);
    const RowLayout wide =
        RowLayout::make(types, {key(0, 19, KeyKind::kInlineBytes)}, {1, 2}, NullKeys::kDrop, {12, 0});
    EXPECT(wide.mode == KeyMode::kWide);
    EXPECT_EQ(wide.key_end, 32u);
    EXPECT(wide.fields[0].kind == FieldKind::kInlineBytes);
    EXPECT_EQ(wide.fields[0].width, 12u);
    EXPECT_EQ(wide.row_bytes, 56u);
    EXPECT(!wide.has_var);
}

// The sum of widths: beyond the bound, just below and above 2^32, and far beyond.
TEST(row_layout_refuses_rows_beyond_one_gibibyte) {
    const auto bytes_column = [](int32_t width, const std::string& name) {
        auto type = std::make_shared<ColumnType>();
        type->byte_width = width;
        type->order = Order::kBytes;
        type->nullable = false;
        type->name = name;
        return TypePtr(type);
    };
    const int32_t gibibyte = 1 << 30;
    const TypePtr number = type_of(Kind::kInt64, false);
    const TypePtr wide = bytes_column(gibibyte / 4, "wide");
    const std::vector<TypePtr> types = {number, wide, bytes_column(gibibyte - 16, "widest")};
    EXPECT_EQ(RowLayout::make(types, {key(0, 8)}, {0, 2}, NullKeys::kDrop).row_bytes,
              static_cast<uint32_t>(gibibyte - 8));
    for (const size_t copies : {4, 15, 16, 17, 31, 32, 64}) {
        std::vector<int32_t> carry(copies, 1);
        carry.push_back(0);
        try {
            RowLayout::make(types, {key(0, 8)}, carry, NullKeys::kDrop);
            EXPECT(false);
        } catch (const Error& error) {
            EXPECT(error.code() == ErrorCode::kUnsupportedType);
            const uint64_t wanted = 8 + copies * static_cast<uint64_t>(gibibyte / 4);
            EXPECT(error.message().find(std::to_string(wanted) + " bytes") != std::string::npos);
            EXPECT(error.message().find("'wide'") != std::string::npos);
        }
    }
    // Keys alone: of 16 parts of 2^28 bytes together 2^32, which 32 bits would take for a key of one word.
    const std::vector<KeySpec> keys(16, key(1, gibibyte / 4, KeyKind::kFixedBytes));
    EXPECT_ERROR(kUnsupportedType, RowLayout::make(types, keys, {}, NullKeys::kDrop));
    EXPECT_ERROR(kUnsupportedType, RowLayout::make(types, keys, {}, NullKeys::kEqual));
}

}  // namespace spillway::test
