// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "base/checked_size.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr uint64_t kUint64Max = std::numeric_limits<uint64_t>::max();

}  // namespace

TEST(checked_size_sums_and_products_end_at_the_largest_number) {
    EXPECT_EQ(add_or_max(int64_t{1} << 62, (int64_t{1} << 62) - 1), kInt64Max);
    EXPECT_EQ(add_or_max(int64_t{1} << 62, int64_t{1} << 62), kInt64Max);
    EXPECT_EQ(multiply_or_max(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
    EXPECT_EQ(multiply_or_max(int64_t{1} << 32, int64_t{1} << 32), kInt64Max);  // 0 modulo 2^64
    EXPECT_EQ(multiply_or_max(uint64_t{641}, uint64_t{6700417}), (uint64_t{1} << 32) + 1);
    EXPECT_EQ(multiply_or_max((uint64_t{1} << 32) - 1, (uint64_t{1} << 32) + 1), kUint64Max);  // exactly
    EXPECT_EQ(multiply_or_max(uint64_t{1} << 33, uint64_t{1} << 33), kUint64Max);
    EXPECT_EQ(multiply_or_max<uint64_t>(0, kUint64Max), 0u);
}

TEST(checked_size_rounds_up_without_wrapping) {
    EXPECT_EQ(round_up_or_max(0, 64), 0u);
    EXPECT_EQ(round_up_or_max(1, 64), 64u);
    EXPECT_EQ(round_up_or_max(64, 64), 64u);
    EXPECT_EQ(round_up_or_max(kUint64Max - 63, 64), kUint64Max - 63);
    EXPECT_EQ(round_up_or_max(kUint64Max - 62, 64), kUint64Max);
}

TEST(checked_size_throws_what_it_cannot_count) {
    EXPECT_EQ(checked_add(1, 2, "rows"), 3);
    EXPECT_EQ(checked_multiply(int64_t{3}, int64_t{5}, "rows"), 15);
    EXPECT_EQ(checked_cast<uint32_t>(int64_t{7}, "rows"), 7u);
    EXPECT_ERROR(kUnsupportedType, checked_add(kInt64Max, int64_t{1}, "rows"));
    EXPECT_ERROR(kUnsupportedType, checked_multiply(kUint64Max, uint64_t{2}, "rows"));
    EXPECT_ERROR(kUnsupportedType, checked_cast<uint32_t>(int64_t{-1}, "rows"));
    EXPECT_ERROR(kUnsupportedType, checked_cast<int32_t>(int64_t{1} << 31, "rows"));
}

}  // namespace spillway::test
