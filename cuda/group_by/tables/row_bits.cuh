// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Arrays of which a thread has one element per row, in registers: an index that is not known when the code is compiled
// would move them to memory. row: a bit for the element, 1 for the first.
namespace spillway::cuda { inline namespace grouping {

template <class Value, int kRows>
__device__ inline Value value_of(const Value (&values)[kRows], uint32_t row) {
    Value value = values[0];
#pragma unroll
    for (int r = 1; r < kRows; ++r) {
        if (row == 1U << r) value = values[r];
    }
    return value;
}

template <class Value, int kRows>
__device__ inline void set_value(Value (&values)[kRows], uint32_t row, Value value) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        if (row == 1U << r) values[r] = value;
    }
}

// The first of some rows, a bit for each.
__device__ inline uint32_t first_row_of(uint32_t rows) {
    return rows & (~rows + 1);
}

}}  // namespace spillway::cuda::grouping
