// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <random>

#include "base/nearest_mean.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

// Long division, bit by bit, of numbers below 2^120: so many bits that rounding sees what is left.
double divided(unsigned __int128 dividend, uint64_t divisor) {
    unsigned __int128 quotient = dividend / divisor;
    unsigned __int128 rest = dividend % divisor;
    int exponent = 0;
    for (; quotient >> 55 == 0; --exponent) {
        rest <<= 1;
        quotient <<= 1;
        if (rest >= divisor) {
            rest -= divisor;
            quotient |= 1;
        }
    }
    bool more = rest != 0;
    for (; quotient >> 56 != 0; ++exponent) {
        more = more || (quotient & 1) != 0;
        quotient >>= 1;
    }
    // A bit that stands for all that is less makes the one rounding of the conversion right.
    return std::ldexp(static_cast<double>(static_cast<uint64_t>(quotient << 1 | (more ? 1 : 0))), exponent - 1);
}

template <int kWords>
double negated_mean(const uint64_t (&sum)[kWords], uint64_t count, int32_t scale) {
    uint64_t negative[kWords];
    bool carry = true;
    for (int i = 0; i < kWords; ++i) {
        negative[i] = ~sum[i] + (carry ? 1 : 0);
        carry = carry && negative[i] == 0;
    }
    return nearest_decimal_mean(negative, count, scale);
}

}  // namespace

TEST(nearest_mean_of_integers_is_rounded_once) {
    constexpr int64_t kOdd = (1LL << 53) + 1;
    EXPECT_EQ(nearest_mean(__int128{3} * kOdd, 3, 0), 0x1p53);
    EXPECT_EQ(nearest_mean(__int128{-3} * kOdd, 3, 0), -0x1p53);
    EXPECT_EQ(nearest_mean(__int128{3} * (kOdd + 2), 3, 0), 0x1p53 + 4);  // a tie goes to the even one
    EXPECT_EQ(nearest_mean(__int128{2} * kOdd + 1, 2, 0), 0x1p53 + 2);    // a half more is no tie
    EXPECT_EQ(nearest_mean(0, 7, 0), 0.0);
    EXPECT(!std::signbit(nearest_mean(0, 7, 0)));
    EXPECT_EQ(nearest_mean(1, 3, 0), 1.0 / 3);
    EXPECT_EQ(nearest_mean(__int128{INT64_MIN} * 5, 5, 0), -0x1p63);
    EXPECT_EQ(nearest_mean(static_cast<__int128>(UINT64_MAX) * 9, 9, 0), 0x1p64);
    EXPECT_EQ(nearest_mean(1, UINT64_MAX, 0), 0x1p-64);
    EXPECT_EQ(nearest_mean(static_cast<__int128>(~static_cast<unsigned __int128>(0) >> 1), UINT64_MAX, 0), 0x1p63);
}

TEST(nearest_mean_of_integers_equals_a_long_division) {
    std::mt19937_64 random(20261125);
    for (int i = 0; i < 200000; ++i) {
        const auto dividend = (static_cast<unsigned __int128>(random()) << 64 | random()) >> (8 + random() % 119);
        const uint64_t divisor = (random() >> (random() % 63)) | 1;
        if (dividend == 0) continue;
        const double expected = divided(dividend, divisor);
        EXPECT_EQ(nearest_mean(static_cast<__int128>(dividend), divisor, 0), expected);
        EXPECT_EQ(nearest_mean(-static_cast<__int128>(dividend), divisor, 0), -expected);
        // As decimals they take the way of more words.
        const uint64_t words[3] = {static_cast<uint64_t>(dividend), static_cast<uint64_t>(dividend >> 64), 0};
        EXPECT_EQ(nearest_decimal_mean(words, divisor, 0), expected);
    }
}

TEST(nearest_mean_of_integers_rounds_ties_to_even) {
    std::mt19937_64 random(20261126);
    for (int i = 0; i < 20000; ++i) {
        const uint64_t mantissa = (random() >> 12) | 1ULL << 52;
        const uint64_t count = random() >> (random() % 40 + 1);
        const auto half = static_cast<__int128>(2 * mantissa + 1) * count;  // of a mean half-way between two doubles
        const double even = 2.0 * static_cast<double>(mantissa + (mantissa & 1));
        EXPECT_EQ(nearest_mean(half, count, 0), even);
        EXPECT_EQ(nearest_mean(half + 1, count, 0), 2.0 * static_cast<double>(mantissa + 1));
        EXPECT_EQ(nearest_mean(half - 1, count, 0), 2.0 * static_cast<double>(mantissa));
    }
}

// Calculated with rational numbers.
TEST(nearest_mean_of_decimals_of_all_widths_and_scales) {
    EXPECT_EQ(nearest_mean(4712128852136459333 + (static_cast<__int128>(15641616947986585) << 64), 759329574456, 3),
              0x1.499683512ed3ep+68);
    const uint64_t small[2] = {14313909076419087323U, 18446607549340832628U};
    EXPECT_EQ(nearest_decimal_mean(small, 58621899350, -5), -0x1.bc33ad2e0ca3cp+91);
    EXPECT_EQ(negated_mean(small, 58621899350, -5), 0x1.bc33ad2e0ca3cp+91);
    const uint64_t hundredths[3] = {7023743836218156456U, 1881095652490078568U, 18446647619799076677U};
    EXPECT_EQ(nearest_decimal_mean(hundredths, 803215209370, 2), -0x1.336ac093b7e0cp+128);
    const uint64_t fractions[3] = {7183850473961985349U, 14055043351701082718U, 18421081733439017815U};
    EXPECT_EQ(nearest_decimal_mean(fractions, 679200834283, 37), -0x1.39e3da24959a2p+20);
    const uint64_t large[3] = {3059511337525703479U, 3071096560362593664U, 9173127968843613U};
    EXPECT_EQ(nearest_decimal_mean(large, 218877881331, -38), 0x1.80e176a61e6d7p+269);
    const uint64_t wide[5] = {7069225725891199282U, 397900185494973936U, 7653677975526109578U, 17262327690598029440U,
                              1990507514083428U};
    EXPECT_EQ(nearest_decimal_mean(wide, 361057025793, 76), 0x1.f2b85db1674b4p+15);
    EXPECT_EQ(negated_mean(wide, 361057025793, 76), -0x1.f2b85db1674b4p+15);
    const uint64_t widest[5] = {15078374277573369523U, 10812397853203589807U, 10993871175345354573U,
                                13054320874516977994U, 18420230112466200761U};
    EXPECT_EQ(nearest_decimal_mean(widest, 387878315816, -76), -0x1.70f5f7e10dce3p+524);
    const uint64_t none[3] = {};
    EXPECT_EQ(nearest_decimal_mean(none, 3, 40), 0.0);
    EXPECT_EQ(nearest_mean(1005, 1, 3), 1.005);
}

}  // namespace spillway::test
