// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "executor/streaming/text_extremes.hpp"
#include "support/test.hpp"

namespace spillway {
namespace {

using namespace test;

ByteString text_bytes(const std::string& text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

TEST(text_extremes_give_larger_words_to_texts_that_take_the_place_of_others) {
    MemoryBudget budget(64 * kMiB);
    TextCodes texts(budget);
    {
        TextExtremes extremes(texts, budget);
        const auto offer = [&](const std::string& group, const std::string& text, bool is_least) {
            return extremes.offer(text_bytes(group), texts.add(text_bytes(text)), is_least);
        };
        const uint64_t first = offer("a", "m", true);
        EXPECT_EQ(static_cast<uint32_t>(first), texts.find(text_bytes("m")));
        EXPECT_EQ(offer("a", "m", true), 0u);
        EXPECT_EQ(offer("a", "ma", true), 0u);
        const uint64_t second = offer("a", "", true);
        EXPECT(second > first);
        EXPECT_EQ(static_cast<uint32_t>(second), texts.find(text_bytes("")));
        // Bytes are compared without a sign, and of equal beginnings the shorter text comes first.
        const uint64_t largest = offer("", "m", false);
        EXPECT(largest != 0);
        EXPECT(offer("", "mm", false) > largest);
        EXPECT(offer("", "\xc3\xa4", false) > largest);
        EXPECT_EQ(offer("", "z", false), 0u);
    }
    EXPECT(budget.used() > 0);
}

TEST(text_extremes_of_many_groups_and_threads_are_those_of_all_texts) {
    MemoryBudget budget(256 * kMiB);
    constexpr int kThreads = 4;
    constexpr int kGroups = 70'000;
    constexpr int kTexts = 600'000;
    {
        TextCodes texts(budget);
        TextExtremes extremes(texts, budget);
        const auto text_of = [](int i) { return std::to_string(i * 7919LL % 1'000'003); };
        std::vector<std::vector<uint64_t>> largest_words(kThreads, std::vector<uint64_t>(kGroups));
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
                for (int i = t; i < kTexts; i += kThreads) {
                    const int group = i % kGroups;
                    const uint32_t code = texts.add(text_bytes(text_of(i)));
                    uint64_t& word = largest_words[static_cast<size_t>(t)][static_cast<size_t>(group)];
                    word = std::max(word, extremes.offer(text_bytes(std::to_string(group)), code, true));
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
        int wrong = 0;
        for (int group = 0; group < kGroups; ++group) {
            std::string least = text_of(group);
            for (int i = group; i < kTexts; i += kGroups) least = std::min(least, text_of(i));
            uint64_t word = 0;
            for (const std::vector<uint64_t>& words : largest_words) {
                word = std::max(word, words[static_cast<size_t>(group)]);
            }
            const bool known = word != 0 && static_cast<uint32_t>(word) == texts.find(text_bytes(least));
            wrong += known ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0);
    }
    EXPECT_EQ(budget.used(), 0u);
}

}  // namespace spillway
