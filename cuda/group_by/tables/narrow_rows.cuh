// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "group_by/plan/group_policy.hpp"
#include "group_by/plan/narrow_plan.hpp"
#include "group_by/tables/hot_sums.cuh"
#include "group_by/tables/operands.cuh"
#include "group_by/tables/row_bits.cuh"
#include "group_by/tables/slot_words.cuh"
#include "primitive/warp.cuh"

// Adds values of 4 or 8 bytes that are in registers, some rows per thread, to slots of a block's table
// (column_groups.cu, packed_groups.cu). Rows without a group have a slot behind that of the last key. All lanes of a
// warp take part. Value: uint32_t or unsigned long long, the bits of a value (types that atomic operations have).
namespace spillway::cuda { inline namespace grouping {

template <class Value, int kKeyWords>
__device__ inline Value* state_place(const BlockSlots<kKeyWords>& table, const Accumulator& a, uint32_t slot) {
    if constexpr (sizeof(Value) == 4) {
        return table.place(a.word, slot);
    } else {
        return table.wide_place(a.word, slot);
    }
}

// Works like max_rows() of add_rows.cuh: all states are loaded before the first is compared, and few rows change one.
template <class Value, int kKeyWords, int kRows>
__device__ inline void max_narrow(const BlockSlots<kKeyWords>& table, const Accumulator& a,
                                  const Value (&values)[kRows], const uint32_t (&slot)[kRows]) {
    using Bits = std::conditional_t<sizeof(Value) == 4, uint32_t, uint64_t>;
    Value order[kRows];
    Value state[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        state[r] = BlockSlots<kKeyWords>::look(state_place<Value, kKeyWords>(table, a, slot[r]));
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) order[r] = values[r];
    if (a.is_float) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) order[r] = order_bits(Bits{values[r]});
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        order[r] ^= static_cast<Value>(a.flip);
        if (order[r] > state[r]) atomicMax(state_place<Value, kKeyWords>(table, a, slot[r]), order[r]);
    }
}

// A row at a time, the lowest words of all rows first: no row waits for what another one's addition finds there.
template <class Value, int kKeyWords, int kRows>
__device__ inline void sum_each(const BlockSlots<kKeyWords>& table, const Accumulator& a, const Value (&values)[kRows],
                                const uint32_t (&slot)[kRows]) {
    uint32_t before[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        before[r] = 0;
        if (slot[r] <= table.slots) {
            before[r] = atomicAdd(table.place(a.word, slot[r]), static_cast<uint32_t>(values[r]));
        }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const auto low = static_cast<uint32_t>(values[r]);
        const uint32_t carry = before[r] + low < before[r] ? 1 : 0;
        if (slot[r] > table.slots) continue;
        add_upper(table, a, slot[r], middle_word(a, values[r]), sign_word(a, values[r]), carry);
    }
}

// Sum over all lanes, in each. Halves of 16 bits, of which 32 fit a word; the uppermost one with its sign.
__device__ inline Operand sum_of_lanes(const Accumulator& a, uint32_t value) {
    const auto upper = a.is_signed ? static_cast<int32_t>(value) >> 16 : static_cast<int32_t>(value >> 16);
    const uint32_t lower_sum = __reduce_add_sync(kFullWarp, value & 0xffffU);
    const int32_t upper_sum = __reduce_add_sync(kFullWarp, upper);
    const int64_t sum = static_cast<int64_t>(upper_sum) * 65536 + lower_sum;
    return Operand::of(static_cast<unsigned long long>(sum), sum < 0 ? ~0U : 0);
}
__device__ inline Operand sum_of_lanes(const Accumulator& a, unsigned long long value) {
    const auto low = static_cast<uint32_t>(value);
    const auto high = static_cast<uint32_t>(value >> 32);
    const uint32_t low_sum = __reduce_add_sync(kFullWarp, low & 0xffffU);
    const uint64_t below = low_sum + (static_cast<uint64_t>(__reduce_add_sync(kFullWarp, low >> 16)) << 16);
    // Its words and its sign are those of a value of 4 bytes.
    const Operand above = sum_of_lanes(a, high);
    const uint64_t upper = above.wide() + (below >> 32);
    return {{static_cast<uint32_t>(below), static_cast<uint32_t>(upper), static_cast<uint32_t>(upper >> 32)}};
}

// A row of each lane. Atomic operations of n lanes on one word take n cycles: lanes with the first one's slot are added
// up before, when they are many.
template <class Value, int kKeyWords>
__device__ inline void sum_hot(const BlockSlots<kKeyWords>& table, const Accumulator& a, Value value, uint32_t slot) {
    const uint32_t first = __shfl_sync(kFullWarp, slot, 0);
    bool takes = slot <= table.slots;
    const bool same = takes && slot == first;
    if (__popc(__ballot_sync(kFullWarp, same)) >= kWarpSumLanes) {
        const Operand sum = sum_of_lanes(a, same ? value : Value{0});
        if (lane_index() == 0) {
            const uint32_t before = atomicAdd(table.place(a.word, first), sum.word[0]);
            add_upper(table, a, first, sum.word[1], sum.word[2], before + sum.word[0] < before ? 1 : 0);
        }
        takes = takes && !same;
    }
    if (takes) sum_each<Value, kKeyWords, 1>(table, a, {value}, {slot});
    __syncwarp();
}

// In some row many lanes have the first one's slot.
template <int kKeyWords, int kRows>
__device__ inline bool has_hot_slot(const BlockSlots<kKeyWords>& table, const uint32_t (&slot)[kRows]) {
    bool is_hot = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const uint32_t first = __shfl_sync(kFullWarp, slot[r], 0);
        const bool same = slot[r] <= table.slots && slot[r] == first;
        is_hot |= __popc(__ballot_sync(kFullWarp, same)) >= kWarpSumLanes;
    }
    return is_hot;
}

template <class Value, int kKeyWords, int kRows>
__device__ inline void sum_narrow(const BlockSlots<kKeyWords>& table, const Accumulator& a,
                                  const Value (&values)[kRows], const uint32_t (&slot)[kRows], bool is_hot) {
    if (!is_hot) return sum_each(table, a, values, slot);
        // One copy of the code for all rows.
#pragma unroll 1
    for (int r = 0; r < kRows; ++r) sum_hot(table, a, value_of(values, 1U << r), value_of(slot, 1U << r));
}

// Atomic additions of doubles are loops in which one lane at a time succeeds: few lanes with one slot are worth a sum
// before, and where those of one lane are not, another lane is looked at.
template <int kKeyWords, int kRows>
__device__ inline void sum_doubles(const BlockSlots<kKeyWords>& table, const Accumulator& a,
                                   const double (&values)[kRows], const uint32_t (&slots)[kRows]) {
    const auto place = [&](uint32_t slot) { return reinterpret_cast<double*>(table.wide_place(a.word, slot)); };
#pragma unroll 1
    for (int r = 0; r < kRows; ++r) {
        const uint32_t row = 1U << r;
        const double value = value_of(values, row);
        const uint32_t slot = value_of(slots, row);
        bool takes = slot <= table.slots;
        uint32_t open = __ballot_sync(kFullWarp, takes);
        for (int misses = 0; open != 0 && misses < kHotMissesDouble;) {
            const uint32_t first = __shfl_sync(kFullWarp, slot, __ffs(static_cast<int>(open)) - 1);
            const bool same = slot == first;
            const uint32_t lanes = __ballot_sync(kFullWarp, same);
            open &= ~lanes;
            if (__popc(lanes) < kHotLanesDouble) {
                ++misses;
                continue;
            }
            double sum = same ? value : 0;
#pragma unroll
            for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
                sum += __shfl_down_sync(kFullWarp, sum, distance);
            }
            if (lane_index() == 0) atomicAdd(place(first), sum);
            takes = takes && !same;
        }
        if (takes) atomicAdd(place(slot), value);
        __syncwarp();
    }
}

// Rows of a block are fewer than 2^32: no count carries.
template <int kKeyWords, int kRows>
__device__ inline void count_narrow(const BlockSlots<kKeyWords>& table, const Accumulator& a,
                                    const uint32_t (&slot)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const uint32_t first = __shfl_sync(kFullWarp, slot[r], 0);
        const bool takes = slot[r] <= table.slots;
        const uint32_t lanes = __ballot_sync(kFullWarp, takes && slot[r] == first);
        const bool is_hot = __popc(lanes) >= kWarpSumLanes;
        if (is_hot && lane_index() == 0) atomicAdd(table.place(a.word, first), static_cast<uint32_t>(__popc(lanes)));
        if (takes && !(is_hot && slot[r] == first)) atomicAdd(table.place(a.word, slot[r]), 1U);
    }
}

template <class Value, int kKeyWords, int kRows>
__device__ inline void add_narrow(const BlockSlots<kKeyWords>& table, const Accumulator& a,
                                  const Value (&values)[kRows], const uint32_t (&slot)[kRows]) {
    if (a.op == (sizeof(Value) == 4 ? AccumulatorOp::kMax32 : AccumulatorOp::kMax64)) {
        max_narrow(table, a, values, slot);
    } else if (a.op == AccumulatorOp::kAdd) {
        sum_narrow(table, a, values, slot, has_hot_slot(table, slot));
    } else {
        double numbers[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) numbers[r] = double_of(values[r]);
        sum_doubles(table, a, numbers, slot);
    }
}

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

// Sums of the hot slot's rows in registers, of the others in the table. cold[]: their slots; those of hot rows are
// behind the last one.
template <class Value, int kKeyWords, int kRows, class Hot>
__device__ inline void add_one(const BlockSlots<kKeyWords>& table, const Accumulator& a, Hot& hot, int v,
                               const Value (&values)[kRows], const uint32_t (&slot)[kRows],
                               const uint32_t (&cold)[kRows]) {
    if (a.op == (sizeof(Value) == 4 ? AccumulatorOp::kMax32 : AccumulatorOp::kMax64)) {
        return max_narrow(table, a, values, slot);
    }
    if (hot.slot != Hot::kNone) add_hot(hot, a, v, values, slot);
    if (a.op == AccumulatorOp::kAdd) return sum_each(table, a, values, cold);
    double numbers[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) numbers[r] = double_of(values[r]);
    sum_doubles(table, a, numbers, cold);
}

// The commonest: accumulators with a fixed place among the kernel's constants. kSums: NarrowColumns::sums.
template <class Value, bool kSums, class Rows, int kKeyWords, class Hot>
__device__ inline void add_one_each(const SlotPlan& plan, const NarrowColumns& columns,
                                    const BlockSlots<kKeyWords>& table, const Rows& rows,
                                    const uint32_t (&slot)[Rows::kRows], Hot& hot) {
    constexpr int kWords = sizeof(Value) / 4;
    if constexpr (!Hot::kKept) {
#pragma unroll
        for (int v = 0; v + kWords <= Rows::kValueWords; v += kWords) {
            add_values_at<Value>(table, plan.accumulator[v / kWords], rows, v, slot);
        }
        return;
    }
    uint32_t cold[Rows::kRows];
    if (kSums || columns.adds) watch_hot<kSums>(plan, columns, table, hot, slot[0]);
#pragma unroll
    for (int r = 0; r < Rows::kRows; ++r) cold[r] = slot[r] == hot.slot ? table.slots + 1 : slot[r];
#pragma unroll
    for (int v = 0; v + kWords <= Rows::kValueWords; v += kWords) {
        Value values[Rows::kRows];
        rows.values_at(v, values);
        Accumulator a = plan.accumulator[v / kWords];
        if constexpr (kSums) {
            // They are so: without the code for others no register spills.
            a.op = AccumulatorOp::kAdd;
            a.words = 2;
        }
        add_one(table, a, hot, v / kWords, values, slot, cold);
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

// What the columns of some rows per thread, in registers, add to the slots of those rows: accumulator by accumulator.
// Rows: with kRows, kValueWords and values_at(v, values), which takes the values that begin at word v behind the key,
// of 4 bytes or of 8. By all lanes of a warp. plan: accumulators in the order of their columns' words, then those that
// count rows. hot: the warp's, to be given away by give_hot().
template <bool kSums, class Rows, int kKeyWords, class Hot>
__device__ inline void add_values(const SlotPlan& plan, const NarrowColumns& columns,
                                  const BlockSlots<kKeyWords>& table, const Rows& rows,
                                  const uint32_t (&slot)[Rows::kRows], Hot& hot) {
    if constexpr (kSums) {
        add_one_each<uint32_t, true>(plan, columns, table, rows, slot, hot);
    } else if (columns.one_each_bytes == 4) {
        add_one_each<uint32_t, false>(plan, columns, table, rows, slot, hot);
    } else if (Rows::kValueWords % 2 == 0 && columns.one_each_bytes == 8) {
        add_one_each<unsigned long long, false>(plan, columns, table, rows, slot, hot);
    } else {
        add_any(plan, columns, table, rows, slot);
    }
    for (int i = columns.first_of[Rows::kValueWords]; i < plan.accumulators; ++i) {
        count_narrow(table, plan.accumulator[i], slot);
    }
}

}}  // namespace spillway::cuda::grouping
