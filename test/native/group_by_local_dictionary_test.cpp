// SPDX-License-Identifier: Apache-2.0
// Codes of texts against a map: lengths around the steps of hashes and comparisons, texts that differ in one byte, NULL
// and empty ones, NUL bytes, texts made to have one hash, too many texts and too little memory.
#include <map>

#include "base/load.hpp"
#include "cpu/group_by/local_dictionary.hpp"
#include "support/group_by_inputs.hpp"

namespace spillway::test::grouping {

namespace {

constexpr std::pair<Layout, int32_t> kLayouts[] = {{Layout::kBinary, 4}, {Layout::kBinary, 8}, {Layout::kView, 16}};

// NULL rows of kBinary columns have garbage, as Arrow allows, which must not be read as a text.
InputColumn text_column(std::pair<Layout, int32_t> layout, std::vector<Cell> cells) {
    auto type = plain_type(layout.first, Order::kBytes, layout.second, "text");
    type->nullable = std::any_of(cells.begin(), cells.end(), [](const Cell& cell) { return !cell; });
    if (layout.first == Layout::kView) return input_column(std::move(type), std::move(cells));
    std::vector<Cell> stored;
    for (const Cell& cell : cells) stored.push_back(cell ? *cell : "garbage" + std::to_string(stored.size() % 7));
    InputColumn column = input_column(std::move(type), std::move(stored));
    for (size_t i = 0; i < cells.size(); ++i) {
        assign_bit(column.validity.data(), static_cast<int64_t>(i), cells[i].has_value());
    }
    column.cells = std::move(cells);
    if (layout.second == 4) return column;
    std::vector<uint8_t> offsets;
    for (size_t i = 0; i <= column.cells.size(); ++i) {
        const int64_t offset = load<int32_t>(column.offsets.data(), static_cast<int64_t>(i));
        append_raw(offsets, &offset, sizeof offset);
    }
    column.offsets = std::move(offsets);
    return column;
}

// In blocks of random rows. Returns how many rows were encoded before the dictionary gave up.
int64_t encoded_rows(LocalDictionary& dictionary, const InputColumn& column, Random& random) {
    const ColumnView view = column.view();
    std::map<std::string, uint32_t> codes;
    std::map<uint32_t, std::string> texts;
    for (int64_t begin = 0; begin < view.length;) {
        const int64_t count = std::min<int64_t>(1 + static_cast<int64_t>(random() % 1024), view.length - begin);
        if (!dictionary.encode(view, begin, count)) return begin;
        for (int64_t i = 0; i < count; ++i) {
            const Cell& cell = column.cells[static_cast<size_t>(begin + i)];
            const uint32_t code = dictionary.codes()[i];
            EXPECT_EQ(code == 0, !cell.has_value());
            if (!cell) continue;
            EXPECT_EQ(codes.emplace(*cell, code).first->second, code);
            EXPECT_EQ(texts.emplace(code, *cell).first->second, *cell);
            EXPECT(code <= LocalDictionary::kTextsMax && code <= begin + i + 2);
        }
        begin += count;
    }
    return view.length;
}

void expect_codes(const std::vector<std::string>& texts, uint32_t inline_width, double nulls, Random& random) {
    std::vector<Cell> cells;
    for (size_t i = 0; i < 6 * texts.size() + 1500; ++i) {
        const bool null = std::uniform_real_distribution<double>(0, 1)(random) < nulls;
        cells.push_back(null ? Cell() : Cell(texts[random() % texts.size()]));
    }
    for (const auto& layout : kLayouts) {
        MemoryBudget budget(256 << 20);
        TableMemory memory(budget, 64 << 20);
        {
            const InputColumn column = text_column(layout, cells);
            LocalDictionary dictionary(memory, inline_width);
            EXPECT_EQ(encoded_rows(dictionary, column, random), static_cast<int64_t>(cells.size()));
        }
        EXPECT_EQ(memory.used(), 0u);
    }
}

// One text, and for some of its bytes the text with another byte there.
void add_near_texts(size_t length, uint8_t fill, std::vector<std::string>& texts) {
    const std::string text(length, static_cast<char>(fill));
    texts.push_back(text);
    for (size_t at = 0; at<length; at += length> 100 ? 97 : 1) {
        texts.push_back(text);
        texts.back()[at] = static_cast<char>(fill ^ 0x80);
    }
}

std::string raw_words(std::initializer_list<uint64_t> words) {
    std::string bytes;
    for (const uint64_t word : words) bytes += raw(word);
    return bytes;
}

}  // namespace

TEST(group_by_local_dictionary_tells_texts_apart) {
    Random random(21);
    for (const uint8_t fill : {0x00, 0x61, 0xff}) {
        std::vector<std::string> texts;
        for (const size_t length :
             {0, 1, 2, 3, 4, 7, 8, 9, 12, 13, 15, 16, 17, 23, 24, 31, 32, 33, 63, 64, 65, 96, 97, 200}) {
            add_near_texts(length, fill, texts);
        }
        add_near_texts(4095, fill, texts);
        add_near_texts(4096, fill, texts);
        for (const double nulls : {0.0, 0.2}) expect_codes(texts, 0, nulls, random);
        // One text, and none.
        expect_codes({std::string(60, static_cast<char>(fill))}, 0, 0, random);
        expect_codes({""}, 0, 1, random);
    }
}

TEST(group_by_local_dictionary_of_inline_texts) {
    Random random(22);
    for (const uint32_t width : {3u, 4u, 7u, 8u, 9u, 15u, 16u, 17u, 18u, 23u, 24u, 25u, 33u, 64u}) {
        std::vector<std::string> texts;
        for (size_t length = 0; length < width; ++length) {
            add_near_texts(length, 0, texts);
            if (length > 0) texts.push_back(std::string(length, 'a'));
        }
        for (const double nulls : {0.0, 0.2}) expect_codes(texts, width, nulls, random);
    }
}

// The products of the hash are zero whatever the last bytes are, as the factors of local_dictionary.cpp are no secret.
TEST(group_by_local_dictionary_gives_up_on_texts_of_one_hash) {
    Random random(23);
    constexpr uint64_t kLengthFactor = 0xa0761d6478bd642fULL;
    constexpr uint64_t kSecondFactor = 0x8ebc6af09c88c6e3ULL;
    for (const uint32_t inline_width : {0u, 16u}) {
        std::vector<std::string> texts;
        for (uint64_t i = 0; i < 4000; ++i) {
            texts.push_back(inline_width == 0 ? raw_words({24 * kLengthFactor, kSecondFactor, i})
                                              : raw_words({kLengthFactor}) + raw(i).substr(0, 7));
        }
        // A few of them are told apart.
        expect_codes({texts.begin(), texts.begin() + 20}, inline_width, 0.1, random);
        MemoryBudget budget(64 << 20);
        TableMemory memory(budget, 64 << 20);
        LocalDictionary dictionary(memory, inline_width);
        const InputColumn column = text_column(kLayouts[0], {texts.begin(), texts.end()});
        EXPECT(encoded_rows(dictionary, column, random) < 1024);
    }
}

TEST(group_by_local_dictionary_ends_with_texts_and_memory) {
    Random random(24);
    const auto texts = [](size_t count, size_t bytes) {
        std::vector<Cell> cells;
        for (size_t i = 0; i < count; ++i) cells.push_back(std::to_string(i) + std::string(bytes, 'x'));
        return text_column(kLayouts[0], std::move(cells));
    };
    const auto rows_within = [&](uint64_t bytes, const InputColumn& column) {
        MemoryBudget budget(256 << 20);
        TableMemory memory(budget, bytes);
        int64_t rows = 0;
        {
            LocalDictionary dictionary(memory, 0);
            rows = encoded_rows(dictionary, column, random);
            EXPECT(memory.used() <= bytes);
        }
        EXPECT_EQ(memory.used(), 0u);
        return rows;
    };
    constexpr int64_t kMost = LocalDictionary::kTextsMax;
    EXPECT_EQ(rows_within(64 << 20, texts(kMost, 20)), kMost);
    EXPECT(rows_within(64 << 20, texts(kMost + 1, 20)) <= kMost);
    EXPECT(rows_within(64 << 20, texts(2 * kMost, 20)) > kMost - 1024);
    EXPECT_EQ(rows_within(1 << 10, texts(10, 20)), 0);
    const int64_t some = rows_within(1 << 20, texts(kMost, 200));
    EXPECT(some > 200 && some < 5000);
    EXPECT_EQ(rows_within(1 << 20, texts(1, 1 << 20)), 0);
}

}  // namespace spillway::test::grouping
