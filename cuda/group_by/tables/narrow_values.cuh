// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/narrow_columns.hpp"
#include "group_by/tables/narrow_rows.cuh"

// What the columns of some rows per thread, in registers, add to the slots of those rows: accumulator by accumulator
// (narrow_rows.cuh). Rows: with kRows, kValueWords and values_at(v, values), which takes the values that begin at word
// v behind the key, of 4 bytes or of 8.
namespace spillway::cuda { inline namespace grouping {

__device__ inline unsigned long long wide_of(uint32_t low, uint32_t high) {
    return static_cast<unsigned long long>(high) << 32 | low;
}

template <class Value, class Rows, int kKeyWords>
__device__ inline void add_values_at(const BlockSlots<kKeyWords>& table, const Accumulator& a, const Rows& rows, int v,
                                     const uint32_t (&slot)[Rows::kRows]) {
    Value values[Rows::kRows];
    rows.values_at(v, values);
    add_narrow(table, a, values, slot);
}

// The commonest: accumulators with a fixed place among the kernel's constants.
template <class Value, class Rows, int kKeyWords>
__device__ inline void add_one_each(const SlotPlan& plan, const BlockSlots<kKeyWords>& table, const Rows& rows,
                                    const uint32_t (&slot)[Rows::kRows]) {
    constexpr int kWords = sizeof(Value) / 4;
#pragma unroll
    for (int v = 0; v + kWords <= Rows::kValueWords; v += kWords) {
        add_values_at<Value>(table, plan.accumulator[v / kWords], rows, v, slot);
    }
}

template <class Rows, int kKeyWords>
__device__ inline void add_any(const SlotPlan& plan, const NarrowColumns& columns, const BlockSlots<kKeyWords>& table,
                               const Rows& rows, const uint32_t (&slot)[Rows::kRows]) {
#pragma unroll
    for (int v = 0; v < Rows::kValueWords; ++v) {
#pragma unroll 1
        for (int i = columns.first_of[v]; i < columns.first_of[v + 1]; ++i) {
            const Accumulator& a = plan.accumulator[i];
            if (a.value.width == 4) {
                add_values_at<uint32_t>(table, a, rows, v, slot);
            } else if (v + 1 < Rows::kValueWords) {
                add_values_at<unsigned long long>(table, a, rows, v, slot);
            }
        }
    }
}

// NarrowColumns::sums: which lanes have one slot is asked once for all of them.
template <class Rows, int kKeyWords>
__device__ inline void add_sums(const SlotPlan& plan, const BlockSlots<kKeyWords>& table, const Rows& rows,
                                const uint32_t (&slot)[Rows::kRows]) {
    const bool is_hot = has_hot_slot(table, slot);
#pragma unroll
    for (int v = 0; v < Rows::kValueWords; ++v) {
        uint32_t values[Rows::kRows];
        rows.values_at(v, values);
        Accumulator sum = plan.accumulator[v];
        sum.words = 2;  // as it is: without the code for three no register spills
        sum_narrow(table, sum, values, slot, is_hot);
    }
}

// By all lanes of a warp. plan: accumulators in the order of their columns' words, then those that count rows.
template <bool kSums, class Rows, int kKeyWords>
__device__ inline void add_values(const SlotPlan& plan, const NarrowColumns& columns,
                                  const BlockSlots<kKeyWords>& table, const Rows& rows,
                                  const uint32_t (&slot)[Rows::kRows]) {
    if constexpr (kSums) {
        add_sums(plan, table, rows, slot);
    } else if (columns.one_each_bytes == 4) {
        add_one_each<uint32_t>(plan, table, rows, slot);
    } else if (Rows::kValueWords % 2 == 0 && columns.one_each_bytes == 8) {
        add_one_each<unsigned long long>(plan, table, rows, slot);
    } else {
        add_any(plan, columns, table, rows, slot);
    }
    for (int i = columns.first_of[Rows::kValueWords]; i < plan.accumulators; ++i) {
        count_narrow(table, plan.accumulator[i], slot);
    }
}

}}  // namespace spillway::cuda::grouping
