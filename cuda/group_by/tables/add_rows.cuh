// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/group_policy.hpp"
#include "group_by/tables/operands.cuh"
#include "group_by/tables/slot_words.cuh"
#include "primitive/warp.cuh"

// Adds rows of a tile to the slots of a table, kGroupRowsAtOnce per thread: of a block's table, or of arrays by the
// numbers of groups (DenseWords). All lanes of a warp take part, also those without a row.
namespace spillway::cuda { inline namespace grouping {

// The rows that a thread adds together, with the slot of each in the table.
template <int kKeyWords>
struct TableRows {
    static constexpr uint32_t kNoSlot = BlockSlots<kKeyWords>::kNoSlot;
    uint32_t row[kGroupRowsAtOnce];   // of the tile
    uint32_t slot[kGroupRowsAtOnce];  // kNoSlot: the row is not for this table
    uint32_t mask[kGroupRowsAtOnce];  // validity

    __device__ bool takes(const Accumulator& a, int r) const {
        return slot[r] != kNoSlot && (a.valid_bit == kNoBit || (mask[r] >> a.valid_bit & 1) != 0);
    }
};

// Whether rows are added to this table as they are in their columns, row after row, and not from a tile in shared
// memory.
template <class Table>
constexpr bool kReadsColumns = false;

// max: all values and all states are loaded before the first is compared. Most rows change nothing and are done then:
// of n rows of a group some ln(n) are larger than all before them. So a hot group costs no more than others.
// Word: of 32 or of 64 bits, as wide as the state.
template <class Word, int kKeyWords, class Table>
__device__ inline void max_rows(const Accumulator& a, const SlotPlan& plan, const StagedRows& tile,
                                const TableRows<kKeyWords>& rows, const Table& table) {
    const auto place = [&](int r) {
        if constexpr (sizeof(Word) == 4) {
            return table.place(a.word, rows.slot[r]);
        } else {
            return table.wide_place(a.word, rows.slot[r]);
        }
    };
    Word order[kGroupRowsAtOnce];
    Word state[kGroupRowsAtOnce];
    constexpr bool kColumns = kReadsColumns<Table>;
    constexpr FieldPlace kPlace = kColumns ? FieldPlace::kGathered : FieldPlace::kStaged;
    const bool plain = a.value.place == kPlace && a.value.width == sizeof(Word);
    const unsigned char* const values =
        kColumns ? a.value.column + tile.first_row * sizeof(Word) : tile.staged + a.value.base_bytes;
    const uint32_t stride_bytes = kColumns ? sizeof(Word) : a.value.stride_bytes;
#pragma unroll
    for (int r = 0; r < kGroupRowsAtOnce; ++r) {
        order[r] = 0;
        state[r] = 0;
        if (!rows.takes(a, r)) continue;
        if (plain) {
            const auto bits = static_cast<Word>(load_bits(values + rows.row[r] * stride_bytes, sizeof(Word)));
            order[r] = order_word(a, bits);
        } else {
            order[r] = static_cast<Word>(operand_of(a, tile.bits(a.value, plan.row_number, rows.row[r])).wide());
        }
        state[r] = table.look(place(r));
    }
#pragma unroll
    for (int r = 0; r < kGroupRowsAtOnce; ++r) {
        if (order[r] > state[r]) atomicMax(place(r), order[r]);
    }
}

// Sum over the lanes that have something to add, in lane 0. Halves of the operand are added apart: 32 of them fit 64
// bits.
__device__ inline Operand warp_sum(const Accumulator& a, Operand own) {
    if (a.op == AccumulatorOp::kAddDouble) {
        double sum = __longlong_as_double(static_cast<long long>(own.wide()));
#pragma unroll
        for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
            sum += __shfl_down_sync(kFullWarp, sum, distance);
        }
        return Operand::of(static_cast<unsigned long long>(__double_as_longlong(sum)));
    }
    unsigned long long low = own.word[0];
    auto high = static_cast<long long>(static_cast<unsigned long long>(own.word[2]) << 32 | own.word[1]);
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        low += __shfl_down_sync(kFullWarp, low, distance);
        high += __shfl_down_sync(kFullWarp, high, distance);
    }
    high += static_cast<long long>(low >> 32);
    const auto bits = static_cast<unsigned long long>(high);
    return {{static_cast<uint32_t>(low), static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}};
}

// Sums and counts. Lanes with the same slot as the first one that is left are added up in the warp when they are many.
template <int kKeyWords, class Table>
__device__ inline void add_rows(const Accumulator& a, const SlotPlan& plan, const StagedRows& tile,
                                const TableRows<kKeyWords>& rows, const Table& table) {
    const int hot = a.op == AccumulatorOp::kAddDouble ? kHotLanesDouble : kWarpSumLanes;
#pragma unroll 1
    for (int r = 0; r < kGroupRowsAtOnce; ++r) {
        // The rows move up to the first place below: one copy of the code for all of them.
        uint32_t slot = rows.slot[0];
        uint32_t row = rows.row[0];
        bool takes = rows.takes(a, 0);
#pragma unroll
        for (int other = 1; other < kGroupRowsAtOnce; ++other) {
            if (r == other) {
                slot = rows.slot[other];
                row = rows.row[other];
                takes = rows.takes(a, other);
            }
        }
        Operand own = {{0, 0, 0}};
        if (takes) own = operand_of(a, a.counts ? 0 : tile.bits(a.value, plan.row_number, row));
        for (;;) {
            const uint32_t left = __ballot_sync(kFullWarp, takes);
            if (left == 0) break;
            const uint32_t first = __shfl_sync(kFullWarp, slot, __ffs(static_cast<int>(left)) - 1);
            const bool same = takes && slot == first;
            if (__popc(__ballot_sync(kFullWarp, same)) < hot) break;
            const Operand sum = warp_sum(a, same ? own : Operand{{0, 0, 0}});
            if (lane_index() == 0) table.apply(a, first, sum);
            if (same) takes = false;
        }
        if (takes) table.apply(a, slot, own);
        __syncwarp();
    }
}

template <int kKeyWords, class Table>
__device__ inline void apply_rows(const Accumulator& a, const SlotPlan& plan, const StagedRows& tile,
                                  const TableRows<kKeyWords>& rows, const Table& table) {
    if (a.op == AccumulatorOp::kMax32) return max_rows<uint32_t>(a, plan, tile, rows, table);
    if (a.op == AccumulatorOp::kMax64) return max_rows<unsigned long long>(a, plan, tile, rows, table);
    if (a.op == AccumulatorOp::kAdd || a.op == AccumulatorOp::kAddDouble) return add_rows(a, plan, tile, rows, table);
#pragma unroll
    for (int r = 0; r < kGroupRowsAtOnce; ++r) {
        if (!rows.takes(a, r)) continue;
        table.apply(a, rows.slot[r], operand_of(a, tile.bits(a.value, plan.row_number, rows.row[r])));
    }
}

}}  // namespace spillway::cuda::grouping
