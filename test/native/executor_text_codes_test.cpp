// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "executor/streaming/text_codes.hpp"
#include "support/test.hpp"

namespace spillway {
namespace {

using namespace test;

ByteString bytes_of(const std::string& text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string string_of(ByteString text) {
    return text.length == 0 ? std::string() : std::string(reinterpret_cast<const char*>(text.bytes), text.length);
}

std::string nth(int i) {
    return i % 1000 == 0 ? std::string(static_cast<size_t>(i / 1000), 'x') : "value " + std::to_string(i);
}

}  // namespace

TEST(text_codes_number_equal_strings_alike) {
    MemoryBudget budget(256 * kMiB);
    TextCodes codes(budget);
    EXPECT_EQ(codes.find(bytes_of("a")), TextCodes::kNone);
    const uint32_t empty = codes.add(bytes_of(""));
    const uint32_t zero = codes.add(bytes_of(std::string(1, '\0')));
    EXPECT(empty != zero);
    EXPECT_EQ(codes.add(bytes_of("")), empty);
    EXPECT_EQ(codes.find(bytes_of(std::string(1, '\0'))), zero);
    EXPECT_EQ(codes.size(), 2u);
}

TEST(text_codes_of_many_strings_and_threads_are_dense_and_tell_the_strings) {
    MemoryBudget budget(256 * kMiB);
    constexpr int kStrings = 200'000;
    constexpr int kThreads = 4;
    {
        TextCodes codes(budget);
        std::vector<std::vector<uint32_t>> found(kThreads);
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
                for (int i = 0; i < kStrings; ++i) {
                    const int at = t % 2 == 0 ? i : kStrings - 1 - i;
                    found[static_cast<size_t>(t)].push_back(codes.add(bytes_of(nth(at))));
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
        EXPECT_EQ(*all.rbegin() + uint64_t{1}, codes.size());
        EXPECT(budget.used() > 0);
    }
    EXPECT_EQ(budget.used(), 0u);
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
