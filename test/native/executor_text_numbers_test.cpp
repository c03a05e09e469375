// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "executor/streaming/short_text.hpp"
#include "executor/streaming/text_numbers.hpp"
#include "support/test.hpp"
#include "support/texts.hpp"

namespace spillway {
namespace {

using namespace test;

// Strings that differ in length, in their ends, or only between them, more of them than are remembered.
std::vector<std::string> many_strings() {
    std::vector<std::string> strings;
    for (size_t length = 0; length <= 40; ++length) {
        strings.emplace_back(length, 'a');
        strings.emplace_back(length, '\0');
        for (size_t at = 0; at < length; ++at) {
            strings.emplace_back(length, 'a');
            strings.back()[at] = 'b';
        }
    }
    for (int i = 0; i < 100'000; ++i) strings.push_back(nth(i));
    return strings;
}

// Texts one behind the other in a block of their size, which a sanitizer guards.
struct Column {
    explicit Column(const std::vector<std::string>& texts) {
        uint64_t all = 0;
        for (const std::string& text : texts) all += text.size();
        bytes.reset(new uint8_t[all]);
        offsets.push_back(0);
        for (const std::string& text : texts) {
            if (!text.empty()) std::memcpy(bytes.get() + offsets.back(), text.data(), text.size());
            offsets.push_back(offsets.back() + static_cast<int32_t>(text.size()));
        }
        type.layout = Layout::kBinary;
        type.byte_width = 4;
        view.type = &type;
        view.length = static_cast<int64_t>(texts.size());
        view.data = bytes.get();
        view.offsets = reinterpret_cast<const uint8_t*>(offsets.data());
    }
    std::unique_ptr<uint8_t[]> bytes;
    std::vector<int32_t> offsets;
    ColumnType type;
    ColumnView view;
};

std::vector<uint32_t> numbers_of(TextNumbers& numbers, const ColumnView& view, int64_t begin, int64_t rows,
                                 bool known_only = false) {
    constexpr uint32_t kNull = TextCodes::kNone - 1;
    std::vector<uint32_t> found(static_cast<size_t>(rows), kNull);
    numbers.number(view, begin, rows, known_only, [&](int64_t row, uint32_t number) {
        EXPECT_EQ(found[static_cast<size_t>(row)], kNull);
        found[static_cast<size_t>(row)] = number;
    });
    for (int64_t i = 0; i < rows; ++i) {
        EXPECT_EQ(found[static_cast<size_t>(i)] != kNull, view.is_valid(begin + i));
    }
    return found;
}

// Rows from `begin` on have the numbers of their texts, but for NULLs.
void expect_texts(const TextCodes& codes, const std::vector<uint32_t>& numbers, const ColumnView& view, int64_t begin,
                  const std::vector<std::string>& strings) {
    for (size_t i = 0; i < numbers.size(); ++i) {
        if (!view.is_valid(begin + static_cast<int64_t>(i))) continue;
        EXPECT(string_of(codes.text(numbers[i])) == strings[static_cast<size_t>(begin) + i]);
    }
}

}  // namespace

TEST(recent_texts_have_the_numbers_of_all) {
    MemoryBudget budget(256 * kMiB);
    TextCodes codes(budget);
    const std::vector<std::string> strings = many_strings();
    const std::set<std::string> different(strings.begin(), strings.end());
    {
        RecentTexts recent(codes, budget);
        // Alone, and many at a time, so that strings of one entry come together.
        for (const size_t together : {size_t{1}, size_t{31}, size_t{300}}) {
            for (size_t begin = 0; begin < strings.size(); begin += together) {
                std::vector<ByteString> texts;
                std::vector<uint32_t> known;
                for (size_t i = begin; i < std::min(begin + together, strings.size()); ++i) {
                    texts.push_back(bytes_of(strings[i]));
                    known.push_back(codes.find(texts.back()));
                }
                const TextBatch batch{texts.data(), texts.size(), nullptr};
                std::vector<uint32_t> found(texts.size());
                recent.find_all(batch, found.data());
                EXPECT(found == known);
                recent.add_all(batch, found.data());
                for (size_t i = 0; i < texts.size(); ++i) {
                    EXPECT(known[i] == TextCodes::kNone || known[i] == found[i]);
                    EXPECT_EQ(codes.find(texts[i]), found[i]);
                    EXPECT(string_of(codes.text(found[i])) == strings[begin + i]);
                }
                std::vector<uint32_t> again(texts.size());
                recent.find_all(batch, again.data());
                EXPECT(again == found);
            }
        }
        EXPECT_EQ(codes.size(), different.size());
    }
}

// What is remembered grows by the strings there are, and with less memory it does not.
TEST(recent_texts_grow_where_memory_is_to_spare) {
    for (const uint64_t limit : {16 * kMiB, 256 * kMiB}) {
        MemoryBudget budget(limit);
        TextCodes codes(budget);
        std::vector<std::string> strings;
        for (int i = 0; i < 20'000; ++i) strings.push_back(nth(i + 1));
        std::vector<ByteString> texts;
        for (const std::string& text : strings) texts.push_back(bytes_of(text));
        std::vector<uint32_t> added(texts.size());
        codes.add_all(texts.data(), texts.size(), added.data());
        const uint64_t before = budget.used();
        {
            RecentTexts recent(codes, budget);
            std::vector<uint32_t> found(texts.size());
            for (int i = 0; i < 3; ++i) {
                recent.add_all({texts.data(), texts.size(), nullptr}, found.data());
                EXPECT(found == added);
            }
            EXPECT_EQ(budget.used() > before, limit == 256 * kMiB);
        }
        EXPECT_EQ(budget.used(), before);
    }
}

TEST(text_numbers_of_rows_are_those_of_their_texts) {
    MemoryBudget budget(256 * kMiB);
    TextCodes codes(budget);
    std::vector<std::string> strings = many_strings();
    std::shuffle(strings.begin(), strings.end(), std::mt19937(7));  // NOLINT: the same order in each run
    Column column(strings);
    std::vector<uint8_t> validity(strings.size() / 8 + 1, 0x5b);
    TextNumbers numbers(codes, budget);
    TextNumbers others(codes, budget);
    const auto rows = static_cast<int64_t>(strings.size());
    // Before, all are unknown, when they are looked for again, too.
    TextNumbers before(codes, budget);
    for (int i = 0; i < 2; ++i) {
        for (const uint32_t number : numbers_of(before, column.view, 0, rows, true))
            EXPECT_EQ(number, TextCodes::kNone);
    }
    EXPECT_EQ(codes.size(), 0U);
    for (const uint8_t* const valid :
         {static_cast<const uint8_t*>(nullptr), static_cast<const uint8_t*>(validity.data())}) {
        column.view.validity = valid;
        for (const int64_t begin : {int64_t{0}, int64_t{77}, rows - 300, rows - 1, rows}) {
            const std::vector<uint32_t> found = numbers_of(numbers, column.view, begin, rows - begin);
            EXPECT(numbers_of(others, column.view, begin, rows - begin, true) == found);
            expect_texts(codes, found, column.view, begin, strings);
        }
    }
}

// Texts of a byte or two are numbered by a place for each, with longer ones among them, and not where some are NULL.
TEST(text_numbers_of_tiny_texts_are_those_of_their_texts) {
    MemoryBudget budget(256 * kMiB);
    TextCodes codes(budget);
    std::vector<std::string> strings;
    for (int i = 0; i < 70'000; ++i) {
        std::string text{static_cast<char>(i), static_cast<char>(i / 256)};
        text.resize(static_cast<size_t>(i % 5 < 3 ? 2 : i % 5 - 3));
        strings.push_back(i % 50 == 0 ? nth(i + 1) : text);
    }
    Column column(strings);
    std::vector<uint8_t> validity(strings.size() / 8 + 1, 0x5b);
    TextNumbers numbers(codes, budget);
    TextNumbers others(codes, budget);
    const auto rows = static_cast<int64_t>(strings.size());
    TextNumbers before(codes, budget);
    for (const uint32_t number : numbers_of(before, column.view, 0, rows, true)) EXPECT_EQ(number, TextCodes::kNone);
    for (int i = 0; i < 3; ++i) {
        column.view.validity = i < 2 ? nullptr : validity.data();
        const std::vector<uint32_t> found = numbers_of(numbers, column.view, 3, rows - 3);
        EXPECT(numbers_of(others, column.view, 3, rows - 3, true) == found);
        expect_texts(codes, found, column.view, 3, strings);
    }
}

// Equal texts have the same words, others have others, and each text comes back from its own.
TEST(short_texts_are_words_of_their_bytes) {
    MemoryBudget budget(256 * kMiB);
    TextCodes codes(budget);
    std::vector<std::string> strings = many_strings();
    std::shuffle(strings.begin(), strings.end(), std::mt19937(9));  // NOLINT: the same order in each run
    Column column(strings);
    std::vector<uint8_t> validity(strings.size() / 8 + 1, 0x6d);
    const std::vector<int64_t> large(column.offsets.begin(), column.offsets.end());
    const auto rows = static_cast<int64_t>(strings.size());
    for (const uint32_t key_bytes : {8U, 16U}) {
        for (const bool is_large : {false, true}) {
            column.type.byte_width = is_large ? 8 : 4;
            column.view.offsets = is_large ? reinterpret_cast<const uint8_t*>(large.data())
                                           : reinterpret_cast<const uint8_t*>(column.offsets.data());
            column.view.validity = is_large ? validity.data() : nullptr;
            TextNumbers numbers(codes, budget);
            for (const int64_t begin : {int64_t{0}, int64_t{77}, rows - 300, rows - 1, rows}) {
                const int64_t count = rows - begin;
                std::vector<uint64_t> words(static_cast<size_t>(2 * count + 1), 1);
                numbers.write_short(column.view, begin, count, false, {words.data(), count, key_bytes});
                for (int64_t i = 0; i < count; ++i) {
                    const auto at = static_cast<size_t>(i);
                    const uint64_t key[2] = {words[at], words[at + static_cast<size_t>(count)]};
                    const std::string& text = strings[static_cast<size_t>(begin) + at];
                    if (!column.view.is_valid(begin + i)) {
                        EXPECT_EQ(key[0], 0U);
                        EXPECT(key_bytes == 8 || key[1] == 0);
                        continue;
                    }
                    const auto* const bytes = reinterpret_cast<const uint8_t*>(key);
                    EXPECT(string_of(short_text(bytes, key_bytes, codes)) == text);
                    EXPECT_EQ(bytes[key_bytes - 1] == kNumberedText, text.size() >= key_bytes);
                    if (bytes[key_bytes - 1] == kNumberedText)
                        EXPECT_EQ(load<uint32_t>(bytes), codes.find(bytes_of(text)));
                }
            }
        }
    }
}

// Few values have their numbers in a list, many do not; what is not known is not remembered as a number.
TEST(text_numbers_of_dictionaries_are_those_of_their_values) {
    for (const int values : {0, 5, 70'000}) {
        MemoryBudget budget(256 * kMiB);
        TextCodes codes(budget);
        std::vector<std::string> strings;
        for (int i = 0; i < values; ++i) strings.push_back(nth(i + 1));
        const Column column(strings);
        auto dictionary = std::make_shared<Dictionary>();
        dictionary->type = column.type;
        dictionary->values = column.view;
        ColumnType type;
        type.layout = Layout::kDictionary;
        type.byte_width = 4;
        type.dictionary = dictionary;
        std::vector<int32_t> indices;
        for (int i = 0; i < 1000; ++i) indices.push_back(values == 0 ? 0 : i * 7919 % values);
        std::vector<uint8_t> validity(indices.size() / 8 + 1, values == 0 ? 0 : 0xb7);
        ColumnView view;
        view.type = &type;
        view.length = static_cast<int64_t>(indices.size());
        view.data = reinterpret_cast<const uint8_t*>(indices.data());
        view.validity = validity.data();
        TextNumbers numbers(codes, budget);
        const auto rows = static_cast<int64_t>(indices.size());
        for (const uint32_t number : numbers_of(numbers, view, 0, rows, true)) EXPECT(number >= TextCodes::kNone - 1);
        for (int i = 0; i < 2; ++i) {
            const std::vector<uint32_t> found = numbers_of(numbers, view, 0, rows);
            for (size_t row = 0; row < found.size(); ++row) {
                if (!view.is_valid(static_cast<int64_t>(row))) continue;
                EXPECT(string_of(codes.text(found[row])) == strings[static_cast<size_t>(indices[row])]);
            }
        }
    }
}

}  // namespace spillway
