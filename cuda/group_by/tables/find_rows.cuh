// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/tables/find_pairs.cuh"
#include "group_by/tables/find_slots.cuh"

// Searches of a block's table as its fill asks for (kPairsFillMax): by pairs of slots or by buckets.
namespace spillway::cuda { inline namespace grouping {

template <int kKeyWords, bool kPairs>
struct RowSearch {
    using Key = typename MixedKey<kKeyWords>::Key;
    using Slots = BlockSlots<kKeyWords>;

    // Where the search for a key begins, among `slots`; shifted_key: without the bits that all keys have in common.
    __device__ static uint32_t first_place(Key shifted_key, uint32_t slots) {
        const auto top = static_cast<uint32_t>(shifted_key >> (32 * (kKeyWords - 1)));
        return kPairs ? __umulhi(top, slots) & ~1U : Slots::bucket_of(top, slots);
    }

    // find_pairs() or find_slots().
    template <int kRows>
    __device__ static uint32_t find(const Slots& table, uint32_t limit, uint32_t no_slot, const Key (&mixed)[kRows],
                                    const uint32_t (&at)[kRows], uint32_t (&slot)[kRows]) {
        if constexpr (kPairs) {
            return find_pairs<kKeyWords>(table, limit, no_slot, mixed, at, slot);
        } else {
            return find_slots<kKeyWords>(table, limit, no_slot, mixed, at, slot);
        }
    }
};

}}  // namespace spillway::cuda::grouping
