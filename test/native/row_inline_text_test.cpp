// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "cpu/row/inline_text.hpp"
#include "cpu/row/row_encoder.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

// A column of strings, as offsets of 4 or 8 bytes or as views. Nothing lies behind its last byte.
struct Strings {
    Strings(const std::vector<std::string>& values, const std::vector<bool>& valid, Layout layout, int32_t width)
        : bits((values.size() + 7) / 8) {
        type.layout = layout;
        type.order = Order::kBytes;
        type.byte_width = width;
        type.name = "text";
        int64_t end = 0;
        const auto offset = [&] {
            if (width == 8) return put(structure, end);
            put(structure, static_cast<int32_t>(end));
        };
        if (layout == Layout::kBinary) offset();
        for (size_t i = 0; i < values.size(); ++i) {
            const std::string& value = values[i];
            const auto place = static_cast<int32_t>(end);
            bytes.insert(bytes.end(), value.begin(), value.end());
            end += static_cast<int64_t>(value.size());
            if (valid[i]) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1U << (i % 8));
            if (layout == Layout::kBinary) {
                offset();
                continue;
            }
            put(structure, static_cast<int32_t>(value.size()));
            std::string entry = value.size() <= 12 ? value : value.substr(0, 4);
            entry.resize(12);
            if (value.size() > 12) std::memcpy(&entry[8], &place, sizeof place);
            structure.insert(structure.end(), entry.begin(), entry.end());
        }
        bytes.shrink_to_fit();
        view.type = &type;
        view.length = static_cast<int64_t>(values.size());
        view.validity = bits.data();
        (layout == Layout::kView ? view.data : view.offsets) = structure.data();
        if (layout == Layout::kBinary) view.data = bytes.data();
        view.view_buffers = {bytes.data()};
    }
    template <class T>
    static void put(std::vector<uint8_t>& to, T value) {
        const auto* from = reinterpret_cast<const uint8_t*>(&value);
        to.insert(to.end(), from, from + sizeof value);
    }

    ColumnType type;
    std::vector<uint8_t> bits;
    std::vector<uint8_t> structure;
    std::vector<uint8_t> bytes;
    ColumnView view;
};

struct Form {
    Layout layout;
    int32_t width;
};
constexpr Form kForms[] = {{Layout::kBinary, 4}, {Layout::kBinary, 8}, {Layout::kView, 4}};

// Strings of all lengths that fit, some of zero bytes alone, and every fifth NULL.
std::vector<std::string> strings_for(uint32_t width) {
    std::vector<std::string> values;
    for (uint32_t length = 0; length < width; ++length) {
        values.push_back(std::string(length, '\0'));
        values.push_back(std::string(length, static_cast<char>('a' + length % 26)));
    }
    return values;
}

std::string padded(const std::string& value, uint32_t width) {
    std::string whole = value;
    whole.resize(width);
    whole[width - 1] = static_cast<char>(value.size());
    return whole;
}

}  // namespace

TEST(inline_text_is_padded_with_its_length_behind_it) {
    for (const Form& form : kForms) {
        for (uint32_t width = 2; width <= static_cast<uint32_t>(kInlineWidthMax); ++width) {
            const auto values = strings_for(width);
            std::vector<bool> valid(values.size(), true);
            for (size_t i = 0; i < valid.size(); i += 5) valid[i] = false;
            const Strings column(values, valid, form.layout, form.width);
            const auto count = static_cast<int64_t>(values.size());
            const uint32_t row_bytes = width + 3;
            std::vector<uint8_t> rows(values.size() * row_bytes, 0xee);
            inline_bytes(column.view, {0, nullptr, count}, width, rows.data(), row_bytes);
            std::vector<uint64_t> words(values.size());
            if (width <= 8) inline_words(column.view, {0, nullptr, count}, width, words.data());
            for (size_t i = 0; i < values.size(); ++i) {
                const uint8_t* row = rows.data() + i * row_bytes;
                const std::string wanted = valid[i] ? padded(values[i], width) : std::string(width, '\0');
                EXPECT(std::string(row, row + width) == wanted);
                EXPECT(row[width] == 0xee && row[width + 2] == 0xee);  // nothing beside it is touched
                if (width <= 8) EXPECT(std::memcmp(&words[i], wanted.data(), width) == 0);
                std::string copy(width, 'x');
                const uint32_t length = copy_inline(row, width, reinterpret_cast<uint8_t*>(copy.data()));
                EXPECT(copy.substr(0, length) == (valid[i] ? values[i] : ""));
            }
        }
    }
}

TEST(inline_text_takes_rows_in_any_order) {
    const std::vector<std::string> values = {"abc", "", "de", std::string("a\0b", 3)};
    const Strings column(values, std::vector<bool>(values.size(), true), Layout::kBinary, 4);
    const int64_t rows[] = {3, 0, 0, 2};
    uint64_t words[4];
    inline_words(column.view, {0, rows, 4}, 4, words);
    for (int i = 0; i < 4; ++i) {
        const std::string wanted = padded(values[static_cast<size_t>(rows[i])], 4);
        EXPECT(std::memcmp(&words[i], wanted.data(), 4) == 0);
    }
}

TEST(inline_text_refuses_a_longer_value_and_says_so) {
    for (const Form& form : kForms) {
        for (const size_t length : {9U, 40U, 300U}) {
            const std::vector<std::string> values = {"abc", std::string(length, 'x')};
            const Strings long_one(values, {true, true}, form.layout, form.width);
            std::vector<uint8_t> rows(2 * 9, 0);
            try {
                inline_bytes(long_one.view, {0, nullptr, 2}, 9, rows.data(), 9);
                EXPECT(false);
            } catch (const Error& error) {
                EXPECT(detail(error, "reason") == "longText");
            }
            // What stands for NULL may be anything.
            const Strings null_one(values, {true, false}, form.layout, form.width);
            inline_bytes(null_one.view, {0, nullptr, 2}, 9, rows.data(), 9);
            EXPECT_EQ(rows[17], 0);
        }
    }
}

}  // namespace spillway::test
