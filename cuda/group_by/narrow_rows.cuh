// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/group_policy.hpp"
#include "group_by/operands.cuh"
#include "group_by/slot_words.cuh"
#include "primitive/warp.cuh"

// Adds 4-byte values that are in registers, some rows per thread, to slots of a block's table (column_groups.cuh,
// packed_groups.cuh). Rows without a group have a slot behind that of the last key. All lanes of a warp take part.
namespace spillway::cuda {

// As max_rows() of add_rows.cuh: all states are loaded before the first is compared, and few rows change one.
template <int kRows>
__device__ inline void max_narrow(const BlockSlots<1>& table, const Accumulator& a, const uint32_t (&values)[kRows],
                                  const uint32_t (&slot)[kRows]) {
    uint32_t order[kRows];
    uint32_t state[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) state[r] = BlockSlots<1>::look(table.place(a.word, slot[r]));
#pragma unroll
    for (int r = 0; r < kRows; ++r) order[r] = a.is_float ? order_bits(values[r]) : values[r];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        order[r] ^= static_cast<uint32_t>(a.flip);
        if (order[r] > state[r]) atomicMax(table.place(a.word, slot[r]), order[r]);
    }
}

// A sum of two words: the low one, then what it carries and the sign into the high one, which most rows leave alone.
__device__ inline void add_wide(const BlockSlots<1>& table, const Accumulator& a, uint32_t slot, uint32_t low,
                                uint32_t high) {
    const uint32_t before = atomicAdd(table.place(a.word, slot), low);
    const uint32_t rest = high + (before + low < before ? 1 : 0);
    if (rest != 0) atomicAdd(table.place(a.word + 1, slot), rest);
}

// Atomic operations of n lanes on one word take n cycles: lanes with the first one's slot are added up before, when
// they are many.
template <int kRows>
__device__ inline void sum_narrow(const BlockSlots<1>& table, const Accumulator& a, const uint32_t (&values)[kRows],
                                  const uint32_t (&slot)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const uint32_t high = a.is_signed && values[r] >> 31 != 0 ? ~0U : 0;
        const uint32_t first = __shfl_sync(kFullWarp, slot[r], 0);
        const bool takes = slot[r] <= table.slots;
        const bool same = takes && slot[r] == first;
        if (__popc(__ballot_sync(kFullWarp, same)) < kHotLanes) {
            if (takes) add_wide(table, a, slot[r], values[r], high);
            continue;
        }
        // Halves of 16 bits, of which 32 fit a word; the upper one with its sign.
        const uint32_t value = same ? values[r] : 0;
        const auto upper = a.is_signed ? static_cast<int32_t>(value) >> 16 : static_cast<int32_t>(value >> 16);
        const uint32_t lower_sum = __reduce_add_sync(kFullWarp, value & 0xffffU);
        const int32_t upper_sum = __reduce_add_sync(kFullWarp, upper);
        const int64_t sum = static_cast<int64_t>(upper_sum) * 65536 + lower_sum;
        if (lane_index() == 0) {
            add_wide(table, a, first, static_cast<uint32_t>(sum), static_cast<uint32_t>(sum >> 32));
        }
        if (takes && !same) add_wide(table, a, slot[r], values[r], high);
        __syncwarp();
    }
}

// Rows of a block are fewer than 2^32: no count carries.
template <int kRows>
__device__ inline void count_narrow(const BlockSlots<1>& table, const Accumulator& a, const uint32_t (&slot)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const uint32_t first = __shfl_sync(kFullWarp, slot[r], 0);
        const bool takes = slot[r] <= table.slots;
        const uint32_t lanes = __ballot_sync(kFullWarp, takes && slot[r] == first);
        const bool is_hot = __popc(lanes) >= kHotLanes;
        if (is_hot && lane_index() == 0) atomicAdd(table.place(a.word, first), static_cast<uint32_t>(__popc(lanes)));
        if (takes && !(is_hot && slot[r] == first)) atomicAdd(table.place(a.word, slot[r]), 1U);
    }
}

template <int kRows>
__device__ inline void add_narrow(const BlockSlots<1>& table, const Accumulator& a, const uint32_t (&values)[kRows],
                                  const uint32_t (&slot)[kRows]) {
    if (a.op == AccumulatorOp::kMax32) {
        max_narrow(table, a, values, slot);
    } else {
        sum_narrow(table, a, values, slot);
    }
}

}  // namespace spillway::cuda
