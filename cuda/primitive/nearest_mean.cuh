// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

// Means of exact sums, rounded once, as native/base/nearest_mean.hpp makes them: a query gives the same on CPU and GPU.
namespace spillway::cuda { inline namespace primitive {

// A number of several 64-bit words without a sign, the lowest word first. Words beyond the last are lost.
template <int kWords>
struct WideNumber {
    uint64_t word[kWords] = {};

    __host__ __device__ void multiply(uint64_t factor) {
        uint64_t carry = 0;
        for (uint64_t& own : word) {
            const unsigned __int128 product = static_cast<unsigned __int128>(own) * factor + carry;
            own = static_cast<uint64_t>(product);
            carry = static_cast<uint64_t>(product >> 64);
        }
    }

    __host__ __device__ void shift_left(int bits) {
        for (; bits >= 64; bits -= 64) {
            for (int i = kWords - 1; i > 0; --i) word[i] = word[i - 1];
            word[0] = 0;
        }
        if (bits == 0) return;
        for (int i = kWords - 1; i > 0; --i) word[i] = word[i] << bits | word[i - 1] >> (64 - bits);
        word[0] <<= bits;
    }

    // Below 0, 0 or above 0, as this number is to the other.
    __host__ __device__ int compare(const WideNumber& other) const {
        for (int i = kWords - 1; i >= 0; --i) {
            if (word[i] != other.word[i]) return word[i] < other.word[i] ? -1 : 1;
        }
        return 0;
    }

    __host__ __device__ double approximate() const {
        double value = 0;
        for (int i = kWords - 1; i >= 0; --i) value = value * 0x1p64 + static_cast<double>(word[i]);
        return value;
    }
};

// Is dividend / divisor nearer to the double behind this one than to this one? Ties go to the even of both.
// `bits`: of a positive, normal double.
template <int kWords>
__host__ __device__ bool rounds_behind(WideNumber<kWords> dividend, WideNumber<kWords> divisor, uint64_t bits) {
    // Half-way between both lies (2 mantissa + 1) * 2^exponent.
    const uint64_t mantissa = (bits & ((1ULL << 52) - 1)) | 1ULL << 52;
    const int exponent = static_cast<int>(bits >> 52) - 1076;
    divisor.multiply(2 * mantissa + 1);
    if (exponent < 0) {
        dividend.shift_left(-exponent);
    } else {
        divisor.shift_left(exponent);
    }
    const int order = dividend.compare(divisor);
    return order > 0 || (order == 0 && (bits & 1) != 0);
}

// Is the number a double? Larger ones may be too, and are taken for others.
template <int kWords>
__host__ __device__ bool is_double(const WideNumber<kWords>& number) {
    for (int i = 1; i < kWords; ++i) {
        if (number.word[i] != 0) return false;
    }
    return number.word[0] <= 1ULL << 53;
}

// The double nearest to dividend / divisor, ties to the even one. Words: for the dividend, and for the divisor and 55
// bits. The quotient of doubles is off by a few units in its last place, each of which costs a comparison.
template <int kWords>
__host__ __device__ double nearest_quotient(const WideNumber<kWords>& dividend, const WideNumber<kWords>& divisor) {
    double quotient = dividend.approximate() / divisor.approximate();
    if (quotient == 0 || (is_double(dividend) && is_double(divisor))) return quotient;
    uint64_t bits = 0;
    std::memcpy(&bits, &quotient, sizeof bits);
    while (rounds_behind(dividend, divisor, bits)) ++bits;
    while (!rounds_behind(dividend, divisor, bits - 1)) --bits;
    std::memcpy(&quotient, &bits, sizeof quotient);
    return quotient;
}

// A sum in two's complement becomes its size; returns whether it was negative.
template <int kWords>
__host__ __device__ bool take_sign(WideNumber<kWords>& sum) {
    if (sum.word[kWords - 1] >> 63 == 0) return false;
    bool carry = true;
    for (uint64_t& word : sum.word) {
        word = ~word + (carry ? 1 : 0);
        carry = carry && word == 0;
    }
    return true;
}

template <int kWords>
__host__ __device__ void multiply_by_power_of_ten(WideNumber<kWords>& number, int32_t digits) {
    while (digits > 0) {
        uint64_t power = 1;
        for (int32_t i = 0; i < 19 && digits > 0; ++i, --digits) power *= 10;
        number.multiply(power);
    }
}

// The mean of `count` decimals, whose unscaled values have this sum in two's complement: sum / count / 10^scale,
// rounded once. The scale has at most 76 digits, before the point or behind it.
template <int kWords>
__host__ __device__ double nearest_decimal_mean(const uint64_t (&sum)[kWords], uint64_t count, int32_t scale) {
    WideNumber<kWords> size;
    std::memcpy(size.word, sum, sizeof size.word);
    const bool is_negative = take_sign(size);
    // 10^76 has 253 bits.
    WideNumber<kWords + 4> dividend, divisor;
    std::memcpy(dividend.word, size.word, sizeof size.word);
    divisor.word[0] = count;
    multiply_by_power_of_ten(scale < 0 ? dividend : divisor, scale < 0 ? -scale : scale);
    const double mean = nearest_quotient(dividend, divisor);
    return is_negative ? -mean : mean;
}

// The mean of integers whose sum this is. count: above 0.
__host__ __device__ inline double nearest_mean(__int128 sum, uint64_t count) {
    const auto bits = static_cast<unsigned __int128>(sum);
    WideNumber<2> size = {{static_cast<uint64_t>(bits), static_cast<uint64_t>(bits >> 64)}};
    const bool is_negative = take_sign(size);
    const double mean = nearest_quotient<2>(size, {{count}});
    return is_negative ? -mean : mean;
}

}}  // namespace spillway::cuda::primitive
