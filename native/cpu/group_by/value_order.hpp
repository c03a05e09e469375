// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "model/column_type.hpp"

namespace spillway {

// Order of values for min and max, and one bit pattern for equal floats. Values of at most 8 bytes are mapped to
// "order words": unsigned integers that compare as the values do, so that one loop serves every type.

enum class NumberKind : uint8_t { kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kF32, kF64, kNone };

// kNone: not a number of at most 8 bytes (decimals of 16 and 32 bytes, byte strings, nested types).
inline NumberKind number_kind(const ColumnType& type) {
    if (type.layout == Layout::kBool) return NumberKind::kU8;
    if (type.layout != Layout::kFixed || type.order == Order::kBytes) return NumberKind::kNone;
    const int step = std::countr_zero(static_cast<uint32_t>(type.byte_width));
    if (!std::has_single_bit(static_cast<uint32_t>(type.byte_width)) || step > 3) return NumberKind::kNone;
    if (type.order == Order::kFloat) {
        return step == 0 ? NumberKind::kNone : static_cast<NumberKind>(static_cast<int>(NumberKind::kF16) + step - 1);
    }
    const NumberKind first = type.order == Order::kUnsigned ? NumberKind::kU8 : NumberKind::kI8;
    return static_cast<NumberKind>(static_cast<int>(first) + step);
}

inline bool is_float(NumberKind kind) {
    return kind >= NumberKind::kF16 && kind <= NumberKind::kF64;
}
inline bool is_signed_integer(NumberKind kind) {
    return kind <= NumberKind::kI64;
}

inline double half_to_double(uint16_t half) {
    const int exponent = (half >> 10) & 0x1f;
    const int fraction = half & 0x3ff;
    double value = 0;
    if (exponent == 0) {
        value = std::ldexp(fraction, -24);
    } else if (exponent == 31) {
        value = fraction != 0 ? std::nan("") : HUGE_VAL;
    } else {
        value = std::ldexp(fraction + 1024, exponent - 25);
    }
    return (half & 0x8000) != 0 ? -value : value;
}

// Exact for every value that came from half_to_double (min and max never make new values).
inline uint16_t double_to_half(double value) {
    if (std::isnan(value)) return 0x7e00;
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return static_cast<uint16_t>(sign | 0x7c00);
    if (magnitude < std::ldexp(1.0, -14)) return static_cast<uint16_t>(sign | static_cast<int>(magnitude * 0x1p24));
    int exponent = 0;
    const double fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
    return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | (static_cast<int>(fraction * 2048) & 0x3ff));
}

inline uint64_t canonical_bits(double value) {
    if (std::isnan(value)) return 0x7ff8000000000000ULL;
    return std::bit_cast<uint64_t>(value + 0.0);  // -0.0 + 0.0 = +0.0
}

constexpr uint64_t kSignBit = 1ULL << 63;

// Every NaN above +infinity and equal, -0 equal to +0.
inline uint64_t order_word(double value) {
    const uint64_t bits = canonical_bits(value);
    return (bits & kSignBit) != 0 ? ~bits : bits | kSignBit;
}
inline double double_of_order_word(uint64_t word) {
    return std::bit_cast<double>((word & kSignBit) != 0 ? word ^ kSignBit : ~word);
}

// Little-endian two's complement numbers of `words` 64-bit words.
inline int compare_decimals(const uint8_t* a, const uint8_t* b, uint32_t words) {
    for (uint32_t i = words; i-- > 0;) {
        uint64_t x;
        uint64_t y;
        std::memcpy(&x, a + i * 8, 8);
        std::memcpy(&y, b + i * 8, 8);
        if (x == y) continue;
        if (i + 1 == words) return static_cast<int64_t>(x) < static_cast<int64_t>(y) ? -1 : 1;
        return x < y ? -1 : 1;
    }
    return 0;
}

inline int compare_bytes(const uint8_t* a, uint64_t a_length, const uint8_t* b, uint64_t b_length) {
    const uint64_t common = std::min(a_length, b_length);
    const int order = common == 0 ? 0 : std::memcmp(a, b, common);
    if (order != 0) return order;
    return a_length < b_length ? -1 : a_length > b_length ? 1 : 0;
}

// Fixed values that are not numbers of at most 8 bytes.
inline int compare_fixed(const ColumnType& type, const uint8_t* a, const uint8_t* b) {
    const auto width = static_cast<uint32_t>(type.byte_width);
    if (type.order == Order::kDecimal && width % 8 == 0) return compare_decimals(a, b, width / 8);
    return compare_bytes(a, width, b, width);
}

// A number of at most 8 bytes: integers sign- or zero-extended to 64 bits; floats as the bits of the double.
inline uint64_t load_number(NumberKind kind, const uint8_t* at) {
    const auto load = [at]<class T>(T) {
        T value;
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    switch (kind) {
        case NumberKind::kI8:
            return static_cast<uint64_t>(static_cast<int64_t>(load(int8_t{})));
        case NumberKind::kI16:
            return static_cast<uint64_t>(static_cast<int64_t>(load(int16_t{})));
        case NumberKind::kI32:
            return static_cast<uint64_t>(static_cast<int64_t>(load(int32_t{})));
        case NumberKind::kU8:
            return load(uint8_t{});
        case NumberKind::kU16:
            return load(uint16_t{});
        case NumberKind::kU32:
            return load(uint32_t{});
        case NumberKind::kF16:
            return std::bit_cast<uint64_t>(half_to_double(load(uint16_t{})));
        case NumberKind::kF32:
            return std::bit_cast<uint64_t>(static_cast<double>(load(float{})));
        default:
            return load(uint64_t{});
    }
}

// load_number() -> order word, and back to the number's own bytes.
inline uint64_t order_word_of_number(NumberKind kind, uint64_t number) {
    if (is_float(kind)) return order_word(std::bit_cast<double>(number));
    return is_signed_integer(kind) ? number ^ kSignBit : number;
}
inline void store_order_word(NumberKind kind, uint64_t word, uint8_t* at, uint32_t width) {
    uint64_t bits = is_signed_integer(kind) ? word ^ kSignBit : word;
    if (kind == NumberKind::kF64) bits = std::bit_cast<uint64_t>(double_of_order_word(word));
    if (kind == NumberKind::kF32) bits = std::bit_cast<uint32_t>(static_cast<float>(double_of_order_word(word)));
    if (kind == NumberKind::kF16) bits = double_to_half(double_of_order_word(word));
    std::memcpy(at, &bits, width);
}

}  // namespace spillway
