// SPDX-License-Identifier: Apache-2.0
#include "memory/counted_array.hpp"
#include "support/test.hpp"

namespace spillway {
namespace {

using namespace test;

void fill(CountedArray<int64_t>& array, MemoryBudget& budget, int64_t count) {
    for (auto i = static_cast<int64_t>(array.size()); i < count; ++i) array.push_back(budget, i);
}

void expect_filled(const CountedArray<int64_t>& array, int64_t count) {
    EXPECT_EQ(array.size(), static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(array[static_cast<size_t>(i)], i);
}

}  // namespace

TEST(counted_array_takes_nothing_from_the_budget_up_to_4_kib) {
    MemoryBudget budget(64 * kMiB);
    CountedArray<int64_t> array("test");
    fill(array, budget, 512);
    expect_filled(array, 512);
    EXPECT_EQ(budget.used(), 0u);
    fill(array, budget, 513);
    EXPECT_EQ(budget.used(), array.counted_bytes());
    EXPECT(budget.used() >= 513 * 8);
    fill(array, budget, 1000000);
    expect_filled(array, 1000000);
    EXPECT_EQ(budget.used(), array.counted_bytes());
    array = CountedArray<int64_t>("test");
    EXPECT_EQ(budget.used(), 0u);
}

TEST(counted_array_gives_back_what_it_does_not_need) {
    MemoryBudget budget(64 * kMiB);
    CountedArray<int64_t> array("test");
    fill(array, budget, 600000);
    EXPECT(array.counted_bytes() > 600000 * 8 * 9 / 8);
    array.fit(budget);
    EXPECT(array.counted_bytes() <= 600000 * 8 * 9 / 8);
    EXPECT_EQ(budget.used(), array.counted_bytes());
    expect_filled(array, 600000);
    array.pop_back(100000);
    expect_filled(array, 500000);
}

TEST(counted_array_keeps_its_values_when_the_budget_has_no_more) {
    MemoryBudget budget(1 * kMiB);
    CountedArray<int64_t> array("numbers");
    try {
        fill(array, budget, 1 << 20);
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT(error.code() == ErrorCode::kBudgetTooSmall);
        EXPECT_EQ(detail(error, "purpose"), std::string("numbers"));
    }
    EXPECT(array.size() >= 64 * 1024);
    expect_filled(array, static_cast<int64_t>(array.size()));
    array.fit(budget);
    expect_filled(array, static_cast<int64_t>(array.size()));
}

}  // namespace spillway
