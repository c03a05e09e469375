// SPDX-License-Identifier: Apache-2.0
// Order words, exact and compensated sums: the arithmetic below the group-by.
#include <cmath>
#include <vector>

#include "base/decimal_fits.hpp"
#include "base/nearest_mean.hpp"
#include "cpu/group_by/aggregate_state.hpp"
#include "cpu/group_by/value_order.hpp"
#include "support/test.hpp"

namespace spillway::test {

TEST(group_by_order_words_keep_the_order) {
    const double values[] = {-HUGE_VAL, -1e300, -1.5, -1e-310, 0.0, 1e-310, 1.5, 1e300, HUGE_VAL, NAN};
    for (size_t i = 1; i < std::size(values); ++i) EXPECT(order_word(values[i - 1]) < order_word(values[i]));
    for (double value : values) {
        const double back = double_of_order_word(order_word(value));
        EXPECT(back == value || (std::isnan(back) && std::isnan(value)));
    }
    EXPECT_EQ(order_word(-0.0), order_word(0.0));
    EXPECT_EQ(order_word(-NAN), order_word(NAN));
}

TEST(group_by_half_floats_round_trip) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<uint16_t>(bits);
        const double value = half_to_double(half);
        if (std::isnan(value)) {
            EXPECT_EQ(double_to_half(value), 0x7e00);
        } else {
            EXPECT_EQ(double_to_half(value), half);
        }
    }
}

TEST(group_by_numbers_round_trip_through_order_words) {
    const auto check = [](NumberKind kind, const void* bytes, uint32_t width) {
        uint8_t back[8] = {};
        const auto* at = static_cast<const uint8_t*>(bytes);
        store_order_word(kind, order_word_of_number(kind, load_number(kind, at)), back, width);
        EXPECT(std::memcmp(back, bytes, width) == 0);
    };
    const int8_t i8 = -100;
    const int16_t i16 = -30000;
    const int32_t i32 = -2000000000;
    const int64_t i64 = INT64_MIN;
    const uint64_t u64 = UINT64_MAX;
    const float f32 = -1.25f;
    const double f64 = 1e-300;
    check(NumberKind::kI8, &i8, 1);
    check(NumberKind::kU8, &i8, 1);
    check(NumberKind::kI16, &i16, 2);
    check(NumberKind::kU16, &i16, 2);
    check(NumberKind::kI32, &i32, 4);
    check(NumberKind::kU32, &i32, 4);
    check(NumberKind::kI64, &i64, 8);
    check(NumberKind::kU64, &u64, 8);
    check(NumberKind::kF32, &f32, 4);
    check(NumberKind::kF64, &f64, 8);
}

TEST(group_by_compensated_sum) {
    FloatSum sum{};
    for (double value : {1e100, 1.0, -1e100, 1.0}) sum.add(value);
    EXPECT_EQ(sum.value(), 2.0);
    FloatSum infinite{};
    for (double value : {1.0, HUGE_VAL, 2.0}) infinite.add(value);
    EXPECT_EQ(infinite.value(), HUGE_VAL);
    infinite.add(-HUGE_VAL);
    EXPECT(std::isnan(infinite.value()));
}

TEST(group_by_decimal_sums) {
    __int128 limit = 1;
    for (int i = 0; i < 38; ++i) limit *= 10;
    uint64_t sum[3] = {};
    const auto add = [&](__int128 value) { add_decimal<2>(sum, reinterpret_cast<const uint8_t*>(&value)); };
    add(limit - 1);
    EXPECT(decimal_fits(sum, 2));
    add(1);
    EXPECT(!decimal_fits(sum, 2));
    for (int i = 0; i < 1000; ++i) add(limit - 1);
    EXPECT(!decimal_fits(sum, 2));
    for (int i = 0; i < 1000; ++i) add(1 - limit);
    add(-limit);
    EXPECT(decimal_fits(sum, 2));
    EXPECT_EQ(nearest_decimal_mean(sum, 1, 0), 0.0);
    add(1 - limit);
    EXPECT(decimal_fits(sum, 2));
    EXPECT_EQ(nearest_decimal_mean(sum, 1, 0), -1e38);
    add(-1);
    EXPECT(!decimal_fits(sum, 2));
    uint64_t small[3] = {};
    const __int128 minus_three = -3;
    add_decimal<2>(small, reinterpret_cast<const uint8_t*>(&minus_three));
    EXPECT_EQ(nearest_decimal_mean(small, 1, 0), -3.0);
}

// Most sums are told to fit by their highest bits alone.
TEST(group_by_decimals_fit_as_they_do_digit_by_digit) {
    for (const uint32_t words : {2U, 4U}) {
        for (uint32_t bit = 0; bit < 64 * words; ++bit) {
            for (const int more : {-1, 0, 1}) {
                // Plus and minus 2^bit, and the numbers beside it.
                for (const bool negative : {false, true}) {
                    uint64_t sum[5] = {};
                    sum[bit / 64] = uint64_t{1} << bit % 64;
                    for (uint32_t i = 0; negative && i <= words; ++i) sum[i] = i < bit / 64 ? 0 : ~sum[i];
                    if (negative) sum[bit / 64] += 1;
                    const uint64_t before = sum[0];
                    sum[0] += static_cast<uint64_t>(more);
                    const bool carries = (more > 0 && sum[0] < before) || (more < 0 && sum[0] > before);
                    for (uint32_t i = 1; carries && i <= words; ++i) {
                        sum[i] += static_cast<uint64_t>(more);
                        if (sum[i] != (more > 0 ? 0 : ~0ULL)) break;
                    }
                    EXPECT_EQ(decimal_fits(sum, words), decimal_fits_exactly(sum, words));
                }
            }
        }
    }
}

TEST(group_by_decimals_of_several_words) {
    // A negative number whose lowest words are 0: the one that is added to its complement goes through them.
    const uint64_t low_words_zero[5] = {0, 0, ~0ULL, ~0ULL, ~0ULL};
    EXPECT_EQ(nearest_decimal_mean(low_words_zero, 1, 0), -0x1p128);
    // 76 digits are as many as a decimal of 256 bits may have.
    uint64_t sum[5] = {1};
    const auto multiply = [&](uint64_t factor) {
        uint64_t over = 0;
        for (uint64_t& word : sum) {
            const unsigned __int128 product = static_cast<unsigned __int128>(word) * factor + over;
            word = static_cast<uint64_t>(product);
            over = static_cast<uint64_t>(product >> 64);
        }
    };
    const auto minus_one = [&](uint64_t* words) {
        for (int i = 0; i < 5 && words[i]-- == 0; ++i) {
        }
    };
    const auto negated = [&](std::vector<uint64_t> words) {
        minus_one(words.data());
        for (uint64_t& word : words) word = ~word;
        return words;
    };
    for (int digit = 0; digit < 76; ++digit) {
        EXPECT(decimal_fits(sum, 4));
        EXPECT(decimal_fits(negated({sum, sum + 5}).data(), 4));
        multiply(10);
    }
    EXPECT(!decimal_fits(sum, 4));
    EXPECT(!decimal_fits(negated({sum, sum + 5}).data(), 4));
    minus_one(sum);
    EXPECT(decimal_fits(sum, 4));
    EXPECT(decimal_fits(negated({sum, sum + 5}).data(), 4));
}

}  // namespace spillway::test
