// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/tables/merge_table.cuh"
#include "group_by/tables/operands.cuh"
#include "group_by/tables/slot_words.cuh"
#include "primitive/nearest_mean.cuh"
#include "primitive/warp.cuh"

// Finished groups: accumulators become values of the output columns. Bytes per group: the key and the values once; of
// `first` a random access per value.
namespace spillway::cuda { inline namespace grouping {

__device__ inline void store_bits(void* column, uint32_t width, uint64_t at, uint64_t bits) {
    switch (width) {
        case 1:
            static_cast<uint8_t*>(column)[at] = static_cast<uint8_t>(bits);
            return;
        case 2:
            static_cast<uint16_t*>(column)[at] = static_cast<uint16_t>(bits);
            return;
        case 4:
            static_cast<uint32_t*>(column)[at] = static_cast<uint32_t>(bits);
            return;
        default:
            static_cast<uint64_t*>(column)[at] = bits;
    }
}

// An exact sum of two or three words.
template <class Table, class Index>
__device__ inline __int128 integer_sum(const Table& table, const GroupOutput& output, Index slot) {
    const uint64_t low = table.get(output.word, slot) | static_cast<uint64_t>(table.get(output.word + 1, slot)) << 32;
    uint32_t high = output.is_signed && low >> 63 != 0 ? ~0U : 0;
    if (output.words == 3) high = table.get(output.word + 2, slot);
    const int64_t top = output.is_signed ? static_cast<int32_t>(high) : static_cast<int64_t>(high);
    const auto bits = static_cast<unsigned __int128>(static_cast<uint64_t>(top)) << 64 | low;
    return static_cast<__int128>(bits);
}

template <class Table, class Index>
__device__ inline double double_sum(const Table& table, const GroupOutput& output, Index slot) {
    return __longlong_as_double(static_cast<long long>(table.get_wide(output.word, slot)));
}

template <class Table, class Index>
__device__ inline void emit_integer(const GroupSink& sink, int number, const Table& table, Index slot, uint64_t at) {
    const GroupOutput& output = sink.output[number];
    const uint32_t middle = table.get(output.word + 1, slot);
    store_bits(output.values, 8, at, table.get(output.word, slot) | static_cast<uint64_t>(middle) << 32);
    if (output.words < 3) return;
    const uint32_t fits = output.is_signed && middle >> 31 != 0 ? ~0U : 0;
    if (table.get(output.word + 2, slot) != fits) atomicOr(sink.overflows, 1U << number);
}

template <class Table, class Index>
__device__ inline void emit_value(const GroupSink& sink, int number, const Table& table, Index slot, uint64_t at) {
    const GroupOutput& output = sink.output[number];
    switch (output.kind) {
        case OutputKind::kOrder32: {
            const uint32_t order = table.get(output.word, slot) ^ static_cast<uint32_t>(output.flip);
            return store_bits(output.values, output.width, at, output.is_float ? bits_of_order(order) : order);
        }
        case OutputKind::kOrder64: {
            const uint64_t order = table.get_wide(output.word, slot) ^ output.flip;
            return store_bits(output.values, output.width, at, output.is_float ? bits_of_order(order) : order);
        }
        case OutputKind::kInteger:
            return emit_integer(sink, number, table, slot, at);
        case OutputKind::kDouble:
            return store_bits(output.values, 8, at, table.get_wide(output.word, slot));
        case OutputKind::kGather: {
            const uint64_t row =
                ~(output.words == 1 ? table.get(output.word, slot) | ~0ULL << 32 : table.get_wide(output.word, slot));
            const uint64_t bits =
                output.column == nullptr ? row : load_bits(output.column + row * output.width, output.width);
            store_bits(output.values, output.width, at, bits);
            if (output.column_valid != nullptr) output.present[at] = output.column_valid[row / 32] >> (row % 32) & 1;
            return;
        }
        default: {
            const uint64_t count = table.get(output.count_word, slot) |
                                   static_cast<uint64_t>(table.get(output.count_word + 1, slot)) << 32;
            const double mean = output.kind == OutputKind::kMeanInteger
                                    ? nearest_mean(integer_sum(table, output, slot), count)
                                    : double_sum(table, output, slot) / static_cast<double>(count);
            store_bits(output.values, 8, at, static_cast<uint64_t>(__double_as_longlong(mean)));
        }
    }
}

template <int kKeyWords, class Table, class Index>
__device__ inline void emit_group(const GroupSink& sink, const Table& table, Index slot, uint64_t at) {
    if (at >= sink.capacity) return;
    store_bits(sink.keys, 4 * kKeyWords, at, MixedKey<kKeyWords>::unmix(table.key_of(slot)));
    for (int number = 0; number < sink.outputs; ++number) {
        emit_value(sink, number, table, slot, at);
        const GroupOutput& output = sink.output[number];
        if (output.valid_bit == kNoBit) continue;
        output.present[at] = table.get(output.flags_word, slot) >> output.valid_bit & 1;
    }
}

// What emit_table() shares, by which the groups of a block's table become rows of the result: of units whose keys no
// other unit has.
struct EmitShared {
    uint32_t warp_groups[kWarpThreads];  // a block has as many warps at most
    unsigned long long first_group;
};

// Places in the result for each warp's groups, with one reservation for the block.
__device__ inline uint64_t reserve_groups(const GroupSink& sink, EmitShared& shared, uint32_t groups) {
    const uint32_t warps = blockDim.x / kWarpThreads;
    if (lane_index() == 0) shared.warp_groups[warp_index()] = groups;
    __syncthreads();
    if (warp_index() == 0) {
        const uint32_t own = lane_index() < warps ? shared.warp_groups[lane_index()] : 0;
        const uint32_t inclusive = warp_inclusive_sum(own);
        if (lane_index() < warps) shared.warp_groups[lane_index()] = inclusive - own;
        if (lane_index() == kWarpThreads - 1) {
            shared.first_group = atomicAdd(sink.reserved, static_cast<unsigned long long>(inclusive));
        }
    }
    __syncthreads();
    return shared.first_group + shared.warp_groups[warp_index()];
}

// By all threads, with a barrier before it; ends with one. A warp has a range of slots; the ranges' groups lie one
// behind the other. merges(mixed key): the group goes to the table in GPU memory instead.
template <int kKeyWords, class Merges>
__device__ inline void emit_table(const AggregatePass& pass, const BlockSlots<kKeyWords>& table, EmitShared& shared,
                                  const Merges& merges) {
    using Key = typename MixedKey<kKeyWords>::Key;
    const uint32_t all = table.slots + 1;
    const uint32_t steps = (all + blockDim.x - 1) / blockDim.x;
    const uint32_t begin = warp_index() * steps * kWarpThreads;
    uint32_t groups = 0;
    for (uint32_t step = 0; step < steps; ++step) {
        const uint32_t slot = begin + step * kWarpThreads + lane_index();
        const bool is_taken = slot < all && table.is_taken(slot);
        const Key mixed = is_taken ? table.key_of(slot) : 0;
        const bool leaves = is_taken && merges(mixed);
        if (leaves) merge_group(pass, table, mixed, slot);
        groups += __popc(__ballot_sync(kFullWarp, is_taken && !leaves));
    }
    uint64_t place = reserve_groups(pass.sink, shared, groups);
    for (uint32_t step = 0; step < steps; ++step) {
        const uint32_t slot = begin + step * kWarpThreads + lane_index();
        const bool stays = slot < all && table.is_taken(slot) && !merges(table.key_of(slot));
        const uint32_t lanes = __ballot_sync(kFullWarp, stays);
        if (stays) emit_group<kKeyWords>(pass.sink, table, slot, place + __popc(lanes & lanes_below()));
        place += __popc(lanes);
    }
    __syncthreads();
}

}}  // namespace spillway::cuda::grouping
