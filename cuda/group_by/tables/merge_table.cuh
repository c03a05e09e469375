// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/tables/aggregate_pass.cuh"
#include "group_by/tables/operands.cuh"
#include "group_by/tables/slot_words.cuh"
#include "primitive/warp.cuh"

// A block's table from beginning to end: cleared, rows that it has no place for, merged into the table in GPU memory.
namespace spillway::cuda { inline namespace grouping {

// By all threads, with a barrier behind it. Whole quads, into the padding behind keys and words.
template <int kKeyWords>
__device__ inline void clear_table(const AggregatePass& pass, const BlockSlots<kKeyWords>& table) {
    auto* const quads = reinterpret_cast<uint4*>(table.keys);
    const uint32_t keys = pass.keys_bytes(kKeyWords) / 16;
    const uint32_t all = (pass.table_bytes(kKeyWords) + 15) / 16;
    for (uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
        const uint32_t word = i < keys ? ~0U : 0;
        quads[i] = make_uint4(word, word, word, word);
    }
}

// A slot of the table in GPU memory; none: the whole result will be thrown away.
template <int kKeyWords>
__device__ inline uint64_t global_place(const GlobalGroups& groups, typename MixedKey<kKeyWords>::Key mixed) {
    const GlobalSlots<kKeyWords> table = groups.table<kKeyWords>();
    const uint64_t slot = table.find(mixed, global_slot<kKeyWords>(mixed, groups.slots), groups.walk_max);
    if (slot == GlobalSlots<kKeyWords>::kNoSlot) atomicExch(groups.failed, 1U);
    return slot;
}

// A row for whose key the block's table has no place. Not inlined, and no member: rare as it is, it shall not take
// registers from the others. elsewhere: such rows of the block so far.
template <int kKeyWords>
__device__ __noinline__ void add_elsewhere(const AggregatePass& pass, StagedRows tile, uint32_t row, uint32_t mask,
                                           typename MixedKey<kKeyWords>::Key mixed, uint32_t* elsewhere) {
    const uint64_t slot = global_place<kKeyWords>(pass.global, mixed);
    if (slot == GlobalSlots<kKeyWords>::kNoSlot) return;
    const GlobalSlots<kKeyWords> table = pass.global.table<kKeyWords>();
    for (int number = 0; number < pass.plan.accumulators; ++number) {
        const Accumulator& a = pass.plan.accumulator[number];
        if (a.valid_bit != kNoBit && (mask >> a.valid_bit & 1) == 0) continue;
        const uint64_t bits = a.counts ? 0 : tile.bits(a.value, pass.plan.row_number, row);
        table.apply(a, slot, operand_of(a, bits));
    }
    const uint32_t before = atomicAdd(elsewhere, 1U);
    if (pass.elsewhere_max != 0 && before == pass.elsewhere_max) atomicExch(pass.global.failed, 1U);
}

template <int kKeyWords>
__device__ inline void merge_group(const AggregatePass& pass, const BlockSlots<kKeyWords>& table,
                                   typename MixedKey<kKeyWords>::Key mixed, uint32_t slot) {
    const uint64_t to = global_place<kKeyWords>(pass.global, mixed);
    if (to == GlobalSlots<kKeyWords>::kNoSlot) return;
    const GlobalSlots<kKeyWords> global = pass.global.table<kKeyWords>();
    for (int number = 0; number < pass.plan.accumulators; ++number) {
        const Accumulator& a = pass.plan.accumulator[number];
        const Operand by = table.read(a, slot);
        if ((by.word[0] | by.word[1] | by.word[2]) != 0) global.apply(a, to, by);
    }
}

// All groups, by all threads, with a barrier before it. Each warp has a range of slots.
template <int kKeyWords>
__device__ inline void merge_table(const AggregatePass& pass, const BlockSlots<kKeyWords>& table) {
    const uint32_t all = table.slots + 1;
    const uint32_t steps = (all + blockDim.x - 1) / blockDim.x;
    const uint32_t begin = warp_index() * steps * kWarpThreads;
    for (uint32_t step = 0; step < steps; ++step) {
        // Blocks that merge the same keys at the same time begin at different ones.
        const uint32_t slot = begin + (step + blockIdx.x) % steps * kWarpThreads + lane_index();
        if (slot < all && table.is_taken(slot)) merge_group(pass, table, table.key_of(slot), slot);
    }
}

}}  // namespace spillway::cuda::grouping
