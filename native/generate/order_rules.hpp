// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "generate/random.hpp"
#include "generate/table_recipe.hpp"

namespace spillway {

// What TPC-H and the Star Schema Benchmark have in common.

// Rows of a table of which there are `per_unit` at scale 1.
inline int64_t scaled_count(double scale, double per_unit, int64_t at_least) {
    return std::max<int64_t>(at_least, std::llround(scale * per_unit));
}

// First and last day of an order, in days since 1970-01-01.
constexpr int32_t kFirstOrderDate = 8035;  // 1992-01-01
constexpr int32_t kLastOrderDate = 10440;  // 1998-08-02: 151 days before the end of 1998

// Of every 32 values, 8 are keys.
inline int64_t order_key(int64_t number) {
    return ((number >> 3) << 5) | (number & 7);
}

// In hundredths.
inline int64_t retail_price(int64_t part) {
    return 90000 + part / 10 % 20001 + 100 * (part % 1000);
}

// One of the customers 1 .. `customers` that have orders: every third one has none.
inline int64_t draw_customer(RandomSequence& random, int64_t customers) {
    const int64_t with_orders = customers - customers / 3;
    const int64_t customer = random.between(0, with_orders - 1);
    return customer / 2 * 3 + customer % 2 + 1;
}

inline int32_t draw_line_count(uint64_t stream, int64_t order) {
    return 1 + static_cast<int32_t>(random_below(random64(stream, static_cast<uint64_t>(order)), kLinesMax));
}

}  // namespace spillway
