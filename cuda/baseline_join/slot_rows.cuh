// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "baseline_join/baseline_join_policy.hpp"
#include "baseline_join/slot_table.hpp"
#include "radix_partition/row_layout.hpp"
#include "stream/row_tiles.cuh"

namespace spillway::cuda { inline namespace baseline_join {

// These are the reasons why a kernel could not insert a row, a bit each.
enum TableRefusal : uint64_t { kOutOfRange = 1, kKeyTwice = 2, kWalkTooLong = 4 };

// Words of one row from anywhere to anywhere, in as few accesses as its alignment allows: over the link each access is
// a packet of its own.
__device__ inline void copy_words(const uint32_t* from, uint32_t* to, uint32_t words) {
    if (words % 4 == 0) {
#pragma unroll
        for (uint32_t w = 0; w < kRowWordsMax; w += 4) {
            if (w < words) *reinterpret_cast<uint4*>(to + w) = *reinterpret_cast<const uint4*>(from + w);
        }
    } else if (words % 2 == 0) {
#pragma unroll
        for (uint32_t w = 0; w < kRowWordsMax; w += 2) {
            if (w < words) *reinterpret_cast<uint2*>(to + w) = *reinterpret_cast<const uint2*>(from + w);
        }
    } else {
#pragma unroll
        for (uint32_t w = 0; w < kRowWordsMax; ++w) {
            if (w < words) to[w] = from[w];
        }
    }
}

// Where the walk for a mixed key begins: the key as a fraction of all, times the slots, so that there may be any number
// of them.
template <int kKeyWords>
__device__ inline uint64_t first_slot(const SlotTableView& table, uint64_t mixed_key) {
    return __umul64hi(kKeyWords == 1 ? mixed_key << 32 : mixed_key, table.slot_count);
}

// The place of a mixed key in an array; slot_count or more: it has none.
template <int kKeyWords>
__device__ inline uint64_t perfect_slot(const SlotTableView& table, uint64_t mixed_key) {
    using Key = typename MixedKey<kKeyWords>::Key;
    return static_cast<Key>(MixedKey<kKeyWords>::unmix(static_cast<Key>(mixed_key)) -
                            static_cast<Key>(table.first_key));
}

__device__ inline bool claim_slot(const SlotTableView& table, uint64_t slot) {
    const uint32_t bit = 1U << (slot % 32);
    return (atomicOr(&table.taken[slot / 32], bit) & bit) == 0;
}

// Claims the first slot from the key's own that is not taken; slot_count: the walk is too long. Bits are set and never
// cleared, so what was seen as taken is taken: it may be passed over, 32 slots at a time.
template <int kKeyWords>
__device__ inline uint64_t claim_linear(const SlotTableView& table, uint64_t mixed_key) {
    uint64_t slot = first_slot<kKeyWords>(table, mixed_key);
    for (uint64_t walked = 0; walked <= kSlotWalkMax;) {
        const uint64_t word = slot / 32;
        const uint32_t at = static_cast<uint32_t>(slot % 32);
        const uint32_t free = ~__ldcg(&table.taken[word]) & (~0U << at);
        const uint32_t next = free != 0 ? static_cast<uint32_t>(__ffs(static_cast<int>(free))) - 1 : 32;
        walked += next - at;
        slot = word * 32 + next;
        // Bits behind the last slot are never set.
        if (slot >= table.slot_count) {
            slot = 0;
            ++walked;  // so that a walk through a short table ends as well
        } else if (next < 32 && claim_slot(table, slot)) {
            return slot;
        }
    }
    return table.slot_count;
}

// Build rows with the key of a probe row; visit(build row) for each, where a row is copied to before: from a table over
// the link each slot is read once. An array has no keys in it: the row gets that of the probe row.
template <int kKeyWords, class Visit>
__device__ inline uint64_t for_partners(const SlotTableView& table, const uint32_t* probe_row, const Visit& visit) {
    __align__(16) uint32_t row[kRowWordsMax + 4];
    const uint64_t key = row_key<kKeyWords>(probe_row);
    if (table.perfect != 0) {
        const uint64_t slot = perfect_slot<kKeyWords>(table, key);
        if (slot >= table.slot_count || (__ldg(&table.taken[slot / 32]) >> (slot % 32) & 1) == 0) return 0;
        // The columns at a multiple of 16 bytes, as slots may be: the key, of one or two words, right before them.
        copy_words(table.slots + slot * table.slot_words, row + 4, table.slot_words);
        uint32_t* const build = row + 4 - kKeyWords;
        for (int w = 0; w < kKeyWords; ++w) build[w] = probe_row[w];
        visit(build);
        return 1;
    }
    uint64_t partners = 0;
    uint64_t slot = first_slot<kKeyWords>(table, key);
    while ((__ldg(&table.taken[slot / 32]) >> (slot % 32) & 1) != 0) {
        copy_words(table.slots + slot * table.slot_words, row, table.slot_words);
        if (row_key<kKeyWords>(row) == key) {
            ++partners;
            visit(row);
        }
        ++slot;
        if (slot == table.slot_count) slot = 0;
    }
    return partners;
}

}}  // namespace spillway::cuda::baseline_join
