// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "executor/streaming/text_codes.hpp"
#include "support/test.hpp"
#include "support/texts.hpp"

namespace spillway {

using namespace test;

TEST(text_codes_number_equal_strings_alike) {
    MemoryBudget budget(256 * kMiB);
    TextCodes codes(budget);
    EXPECT_EQ(codes.find(bytes_of("a")), TextCodes::kNone);
    const uint32_t empty = codes.add(bytes_of(""));
    const uint32_t zero = codes.add(bytes_of(std::string(1, '\0')));
    EXPECT(empty != zero);
    bool is_new = true;
    EXPECT_EQ(codes.add(bytes_of(""), &is_new), empty);
    EXPECT(!is_new);
    EXPECT_EQ(codes.find(bytes_of(std::string(1, '\0'))), zero);
    EXPECT_EQ(codes.size(), 2u);
    EXPECT_EQ(codes.add(bytes_of("another"), &is_new), 2u);
    EXPECT(is_new);
}

TEST(text_codes_of_many_strings_and_threads_are_dense_and_tell_the_strings) {
    MemoryBudget budget(256 * kMiB);
    constexpr int kStrings = 200'000;
    constexpr int kThreads = 4;
    {
        TextCodes codes(budget);
        std::vector<std::vector<uint32_t>> found(kThreads);
        std::vector<int> were_new(kThreads);
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
                for (int i = 0; i < kStrings; ++i) {
                    const int at = t % 2 == 0 ? i : kStrings - 1 - i;
                    bool is_new = false;
                    found[static_cast<size_t>(t)].push_back(codes.add(bytes_of(nth(at)), &is_new));
                    were_new[static_cast<size_t>(t)] += is_new ? 1 : 0;
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
        std::set<uint32_t> all;
        for (size_t i = 0; i < kStrings; ++i) {
            const uint32_t code = found[0][i];
            all.insert(code);
            EXPECT_EQ(found[1][kStrings - 1 - i], code);
            EXPECT_EQ(found[2][i], code);
            EXPECT_EQ(codes.find(bytes_of(nth(static_cast<int>(i)))), code);
            EXPECT(string_of(codes.text(code)) == nth(static_cast<int>(i)));
        }
        EXPECT_EQ(all.size(), codes.size());
        // Each was new to one thread alone.
        EXPECT_EQ(static_cast<size_t>(std::accumulate(were_new.begin(), were_new.end(), 0)), all.size());
        EXPECT_EQ(*all.rbegin() + uint64_t{1}, codes.size());
        EXPECT(budget.used() > 0);
    }
    EXPECT_EQ(budget.used(), 0u);
}

// More strings than are looked up together, some of them new and some twice among those.
TEST(text_codes_of_strings_that_come_together_are_those_of_each) {
    MemoryBudget budget(256 * kMiB);
    for (const uint64_t length : {uint64_t{0}, uint64_t{3}, uint64_t{17}}) {
        TextCodes codes(budget);
        TextCodes one_by_one(budget);
        for (const uint64_t count : {uint64_t{1}, uint64_t{31}, uint64_t{33}, uint64_t{5000}, uint64_t{0}}) {
            std::vector<uint8_t> strings(count * length + 1);
            for (uint64_t i = 0; i < count && length > 0; ++i) {
                strings[i * length] = static_cast<uint8_t>(i % 7);
                strings[(i + 1) * length - 1] = static_cast<uint8_t>(i % 301 % 256);
            }
            std::vector<uint32_t> found(count + 1, TextCodes::kNone);
            std::vector<uint8_t> is_new(count + 1, 2);
            codes.add_all(strings.data(), length, count, found.data(), is_new.data());
            for (uint64_t i = 0; i < count; ++i) {
                bool is_first = false;
                EXPECT_EQ(found[i], one_by_one.add({strings.data() + i * length, length}, &is_first));
                EXPECT_EQ(is_new[i], is_first ? 1 : 0);
            }
            EXPECT_EQ(found[count], TextCodes::kNone);
            EXPECT_EQ(is_new[count], 2);
            codes.add_all(strings.data(), length, count, found.data());
            EXPECT_EQ(codes.size(), one_by_one.size());
        }
    }
}

TEST(text_codes_that_are_looked_for_together_are_those_of_each) {
    MemoryBudget budget(64 << 20);
    TextCodes codes(budget);
    constexpr uint64_t kLength = 5;
    constexpr uint64_t kCount = 1000;
    const auto strings_from = [](uint64_t first) {
        std::vector<uint8_t> strings(kCount * kLength);
        for (uint64_t i = 0; i < kCount; ++i) {
            const uint64_t value = first + i;
            std::memcpy(strings.data() + i * kLength, &value, kLength);
        }
        return strings;
    };
    std::vector<uint32_t> found(kCount);
    const std::vector<uint8_t> known = strings_from(0);
    codes.find_all(known.data(), kLength, kCount, found.data());
    for (const uint32_t code : found) EXPECT_EQ(code, TextCodes::kNone);
    EXPECT_EQ(codes.size(), 0u);
    std::vector<uint32_t> given(kCount);
    codes.add_all(known.data(), kLength, kCount, given.data());
    // The second half of these is new to it.
    const std::vector<uint8_t> others = strings_from(kCount / 2);
    codes.find_all(others.data(), kLength, kCount, found.data());
    for (uint64_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(found[i], i < kCount / 2 ? given[i + kCount / 2] : TextCodes::kNone);
    }
    EXPECT_EQ(codes.size(), kCount);
}

TEST(text_codes_name_the_budget_that_is_too_small) {
    MemoryBudget budget(3 * kMiB);
    TextCodes codes(budget);
    const auto add_all = [&] {
        for (int i = 0; i < 1'000'000; ++i) codes.add(bytes_of("a string of some length, number " + nth(i)));
    };
    EXPECT_ERROR(kBudgetTooSmall, add_all());
    // What has a number keeps it.
    EXPECT_EQ(codes.find(bytes_of("a string of some length, number " + nth(1))), 1u);
}

}  // namespace spillway
