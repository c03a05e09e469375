// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/group_policy.hpp"
#include "group_by/plan/narrow_plan.hpp"
#include "group_by/tables/operands.cuh"
#include "group_by/tables/slot_words.cuh"
#include "primitive/warp.cuh"

// Atomic operations of n lanes on one word of shared memory are done one after the other, and a key that has a tenth or
// more of the rows of a partition takes some in every step. So each warp watches for one slot that many of its lanes
// have, and while it stays hot each lane adds the values of that slot up in its own registers, without an access to
// shared memory. The warp adds them to the slot when another one gets hotter, and at the end of its rows.
namespace spillway::cuda { inline namespace grouping {

// What a thread keeps of the hot slot. kWordsOf is the number of words of a row's columns, each of which is a value or
// half of one. Where kIsKept is false nothing is ever hot, and no register is taken.
template <int kWordsOf, bool kIsKept>
struct HotSums {
    static constexpr int kWords = kWordsOf;
    static constexpr bool kKept = kIsKept;
    static constexpr uint32_t kNone = ~0U;
    static constexpr int kSums = kWords > 0 ? kWords : 1;
    static constexpr int kTops = kWords > 1 ? kWords / 2 : 1;

    uint32_t slot = kNone;               // the same in all lanes of a warp
    unsigned long long sum[kSums] = {};  // per column: modulo 2^64, or the bits of a double
    uint32_t top[kTops] = {};            // columns of 8 bytes: what is above them
};

__device__ inline double double_of(uint32_t bits) {
    return __uint_as_float(bits);
}
__device__ inline double double_of(unsigned long long bits) {
    return __longlong_as_double(static_cast<long long>(bits));
}
__device__ inline unsigned long long bits_of_double(double value) {
    return static_cast<unsigned long long>(__double_as_longlong(value));
}

// What a value adds to the words of a sum above its lowest.
__device__ inline uint32_t sign_word(const Accumulator& a, uint32_t value) {
    return a.is_signed && value >> 31 != 0 ? ~0U : 0;
}
__device__ inline uint32_t sign_word(const Accumulator& a, unsigned long long value) {
    return a.is_signed && value >> 63 != 0 ? ~0U : 0;
}
__device__ inline uint32_t middle_word(const Accumulator& a, uint32_t value) {
    return sign_word(a, value);
}
__device__ inline uint32_t middle_word(const Accumulator&, unsigned long long value) {
    return static_cast<uint32_t>(value >> 32);
}

// The second word of a sum and the third, if it has one: with what the first carries, most rows leave them alone.
template <int kKeyWords>
__device__ inline void add_upper(const BlockSlots<kKeyWords>& table, const Accumulator& a, uint32_t slot,
                                 uint32_t middle, uint32_t top, uint32_t carry) {
    const uint32_t rest = middle + carry;
    if (a.words == 2) {
        if (rest != 0) atomicAdd(table.place(a.word + 1, slot), rest);
        return;
    }
    uint32_t over = rest < middle ? 1 : 0;  // then nothing is left to add
    if (rest != 0) {
        const uint32_t before = atomicAdd(table.place(a.word + 1, slot), rest);
        over = before + rest < before ? 1 : 0;
    }
    if (top + over != 0) atomicAdd(table.place(a.word + 2, slot), top + over);
}

// Adds column v of those of a thread's rows that are in the hot slot: floats of 4 bytes or of 8.
template <class Hot, class Value, int kRows>
__device__ inline void add_hot_doubles(Hot& hot, int v, const Value (&values)[kRows], const uint32_t (&slot)[kRows]) {
    double sum = double_of(hot.sum[v]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum += slot[r] == hot.slot ? double_of(values[r]) : 0;
    hot.sum[v] = bits_of_double(sum);
}

// The same of any column.
template <class Hot, int kRows>
__device__ inline void add_hot(Hot& hot, const Accumulator& a, int v, const uint32_t (&values)[kRows],
                               const uint32_t (&slot)[kRows]) {
    if (a.op == AccumulatorOp::kAddDouble) {
        add_hot_doubles(hot, v, values, slot);
    } else if (a.op == AccumulatorOp::kAdd) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const uint32_t value = slot[r] == hot.slot ? values[r] : 0;
            hot.sum[v] += static_cast<unsigned long long>(sign_word(a, value)) << 32 | value;
        }
    }
}
template <class Hot, int kRows>
__device__ inline void add_hot(Hot& hot, const Accumulator& a, int v, const unsigned long long (&values)[kRows],
                               const uint32_t (&slot)[kRows]) {
    if (a.op == AccumulatorOp::kAddDouble) {
        add_hot_doubles(hot, v, values, slot);
    } else if (a.op == AccumulatorOp::kAdd) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const unsigned long long value = slot[r] == hot.slot ? values[r] : 0;
            hot.sum[v] += value;
            hot.top[v] += sign_word(a, value) + (hot.sum[v] < value ? 1 : 0);
        }
    }
}

// Sums of all lanes to the slot, and 0 in their place. top: what is above the sum of each lane.
template <int kKeyWords>
__device__ inline void give_sum(const BlockSlots<kKeyWords>& table, const Accumulator& a, uint32_t slot,
                                unsigned long long& sum, uint32_t top) {
    if (a.op == AccumulatorOp::kAddDouble) {
        double total = double_of(sum);
#pragma unroll
        for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
            total += __shfl_down_sync(kFullWarp, total, distance);
        }
        if (lane_index() == 0) atomicAdd(reinterpret_cast<double*>(table.wide_place(a.word, slot)), total);
    } else if (a.op == AccumulatorOp::kAdd) {
        unsigned long long total = sum;
#pragma unroll
        for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
            const unsigned long long other = __shfl_down_sync(kFullWarp, total, distance);
            top += __shfl_down_sync(kFullWarp, top, distance);
            total += other;
            if (total < other) ++top;
        }
        if (lane_index() == 0) {
            const auto low = static_cast<uint32_t>(total);
            const uint32_t before = atomicAdd(table.place(a.word, slot), low);
            const uint32_t carry = before + low < before ? 1 : 0;
            add_upper(table, a, slot, static_cast<uint32_t>(total >> 32), top, carry);
        }
    }
    sum = 0;
}

// By all lanes of a warp, when no slot shall be hot any more. kSums: NarrowColumns::sums.
template <bool kSums, class Hot, int kKeyWords>
__device__ inline void give_hot(const SlotPlan& plan, const NarrowColumns& columns, const BlockSlots<kKeyWords>& table,
                                Hot& hot) {
    constexpr int kWords = Hot::kWords;
    if (!Hot::kKept || hot.slot == Hot::kNone) return;
    if (kSums || columns.one_each_bytes == 4) {
#pragma unroll
        for (int v = 0; v < kWords; ++v) {
            Accumulator a = plan.accumulator[v];
            if constexpr (kSums) {
                a.op = AccumulatorOp::kAdd;
                a.words = 2;
            }
            give_sum(table, a, hot.slot, hot.sum[v], sign_word(a, hot.sum[v]));
        }
    } else if (kWords % 2 == 0) {
#pragma unroll
        for (int v = 0; v < kWords / 2; ++v) {
            give_sum(table, plan.accumulator[v], hot.slot, hot.sum[v], hot.top[v]);
            hot.top[v] = 0;
        }
    }
    hot.slot = Hot::kNone;
}

// By all lanes of a warp, before each step's rows are added. The slot of one lane stands for the others: one that many
// lanes have is soon drawn. slot: of a row of each lane.
template <bool kSums, class Hot, int kKeyWords>
__device__ inline void watch_hot(const SlotPlan& plan, const NarrowColumns& columns, const BlockSlots<kKeyWords>& table,
                                 Hot& hot, uint32_t slot) {
    const uint32_t drawn = __shfl_sync(kFullWarp, slot, 0);
    const int lanes = __popc(__ballot_sync(kFullWarp, slot == drawn));
    if (lanes < kHotLanes || drawn == hot.slot || drawn > table.slots) return;
    if (lanes < __popc(__ballot_sync(kFullWarp, slot == hot.slot)) + kHotLanesMore) return;
    give_hot<kSums>(plan, columns, table, hot);
    hot.slot = drawn;
}

}}  // namespace spillway::cuda::grouping
