// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

namespace spillway {

// Arithmetic of sizes that a file, a schema or a caller states: numbers of rows and items, widths, bytes. Operands are
// never negative.
//
// The functions that end in _or_max saturate. They are for a need that is compared with what is there, or that is asked
// of the budget: the largest number is more than any buffer, file or budget has, so the comparison fails as it should.
// The checked ones throw kUnsupportedType with `what` ("items of column 'a'"), for numbers that are used as they are.

template <std::integral T>
constexpr T add_or_max(T a, T b) {
    T sum;
    return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<T>::max() : sum;
}

template <std::integral T>
constexpr T multiply_or_max(T a, T b) {
    T product;
    return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<T>::max() : product;
}

// The next multiple of `unit`; the largest number where that is none of 64 bits.
constexpr uint64_t round_up_or_max(uint64_t value, uint64_t unit) {
    const uint64_t rest = value % unit;
    return rest == 0 ? value : add_or_max(value, unit - rest);
}

[[noreturn]] void fail_size(const char* what);

template <std::integral T>
T checked_add(T a, T b, const char* what) {
    T sum;
    if (__builtin_add_overflow(a, b, &sum)) fail_size(what);
    return sum;
}

template <std::integral T>
T checked_multiply(T a, T b, const char* what) {
    T product;
    if (__builtin_mul_overflow(a, b, &product)) fail_size(what);
    return product;
}

template <std::integral To, std::integral From>
To checked_cast(From value, const char* what) {
    if (!std::in_range<To>(value)) fail_size(what);
    return static_cast<To>(value);
}

}  // namespace spillway
