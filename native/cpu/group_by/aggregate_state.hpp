// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpu/group_by/group_plan.hpp"

namespace spillway {

// States lie in records at 8-byte aligned offsets.

// Sum of integers in 128 bits: no order of up to 2^64 rows overflows it, so only the final value is checked.
struct IntegerSum {
    uint64_t low;
    int64_t high;
    uint64_t count;

    __int128 value() const {
        return static_cast<__int128>((static_cast<unsigned __int128>(static_cast<uint64_t>(high)) << 64) | low);
    }
    void set(__int128 total) {
        low = static_cast<uint64_t>(total);
        high = static_cast<int64_t>(total >> 64);
    }
};

// Compensated sum: the rounding error of each addition is exact and summed apart. A. Neumaier, "Rundungsfehleranalyse
// einiger Verfahren zur Summation endlicher Summen" (ZAMM 54, 1974). The result hardly depends on the order of rows.
struct FloatSum {
    double sum;
    double compensation;
    uint64_t count;

    void add(double value) {
        const double total = sum + value;
        const double error = std::fabs(sum) >= std::fabs(value) ? (sum - total) + value : (value - total) + sum;
        compensation += error;
        sum = total;
    }
    // Infinities and NaN leave NaN in the compensation: then the plain sum is the answer.
    double value() const { return std::isfinite(compensation) ? sum + compensation : sum; }
};

// FloatSum::add() without its branch: the rounding error of an addition is exact whichever operand is larger (D. E.
// Knuth, "The Art of Computer Programming", volume 2, 4.2.2). Always inlined, into code for some processors too.
// Number: double, or a vector of them.
template <class Number>
[[gnu::always_inline]] inline void add_exactly(const Number& value, Number& sum, Number& compensation) {
    const Number total = sum + value;
    const Number added = total - sum;
    compensation += (sum - (total - added)) + (value - added);
    sum = total;
}

struct BytesState {
    uint8_t* bytes;
    uint64_t length;
    uint64_t capacity;
};

struct FirstBytesState {
    uint64_t row;
    BytesState value;
};

// Multi-word two's complement, little-endian words. The sum has one word more than the values: 2^64 values fit.
template <uint32_t kWords>
inline void add_decimal(uint64_t* sum, const uint8_t* value) {
    unsigned carry = 0;
    uint64_t word = 0;
    for (uint32_t i = 0; i < kWords; ++i) {
        std::memcpy(&word, value + i * 8, 8);
        const unsigned __int128 total = static_cast<unsigned __int128>(sum[i]) + word + carry;
        sum[i] = static_cast<uint64_t>(total);
        carry = static_cast<unsigned>(total >> 64);
    }
    sum[kWords] += static_cast<uint64_t>(static_cast<int64_t>(word) >> 63) + carry;
}

inline void add_words(uint64_t* sum, const uint64_t* other, uint32_t words) {
    unsigned carry = 0;
    for (uint32_t i = 0; i < words; ++i) {
        const unsigned __int128 total = static_cast<unsigned __int128>(sum[i]) + other[i] + carry;
        sum[i] = static_cast<uint64_t>(total);
        carry = static_cast<unsigned>(total >> 64);
    }
}

inline bool has_flag(StateKind kind) {
    switch (kind) {
        case StateKind::kMinWord:
        case StateKind::kMaxWord:
        case StateKind::kMinFixed:
        case StateKind::kMaxFixed:
        case StateKind::kMinBytes:
        case StateKind::kMaxBytes:
        case StateKind::kFirstFixed:
        case StateKind::kFirstBytes:
        case StateKind::kAnyFixed:
        case StateKind::kAnyBytes:
            return true;
        default:
            return false;
    }
}

inline uint32_t state_bytes(const AggregatePlan& aggregate) {
    switch (aggregate.state) {
        case StateKind::kSumInteger:
            return sizeof(IntegerSum);
        case StateKind::kSumFloat:
            return sizeof(FloatSum);
        case StateKind::kSumDecimal:
            return aggregate.value_bytes + 16;
        case StateKind::kMinFixed:
        case StateKind::kMaxFixed:
        case StateKind::kAnyFixed:
            return aggregate.value_bytes;
        case StateKind::kMinBytes:
        case StateKind::kMaxBytes:
        case StateKind::kAnyBytes:
            return sizeof(BytesState);
        case StateKind::kFirstFixed:
            return 8 + aggregate.value_bytes;
        case StateKind::kFirstBytes:
            return sizeof(FirstBytesState);
        case StateKind::kNull:
            return 0;
        default:
            return 8;
    }
}

template <class State>
State* state_at(uint8_t* record, const AggregatePlan& aggregate) {
    return reinterpret_cast<State*>(record + aggregate.offset);
}

}  // namespace spillway
