// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/group_policy.hpp"
#include "group_by/tables/find_slots.cuh"
#include "group_by/tables/row_bits.cuh"
#include "group_by/tables/slot_words.cuh"
#include "primitive/warp.cuh"

// Searches of a block's table as its fill asks for (kPairsFillMax): by buckets (find_slots.cuh) or, where it is not
// full, by pairs of slots with linear probing, whose looks read half of the words. What pairs gain on a device was not
// told apart from the number of threads. At a fill of 0.43 of 100 keys 91 are found in their first pair, where 78 are
// in their first slot. For the others the lanes of a warp walk on in rounds in which all take part, each through its
// rows one after the other: a loop per row would wait for the longest way of each and, where lanes are left apart,
// issue several times what follows. Rounds for a warp's 128 rows, computed for random keys: 0.4 at a fill of 0.11, 1.2
// at 0.22, 3.4 at 0.43, 5.8 at 0.55; a round has some 40 instructions.
namespace spillway::cuda { inline namespace grouping {

// Rows that were not in their first pair: `left` has a bit for each, `full` one if that pair is full. All rows of a key
// have the same slots to look at, walk_max of them from at[] on: a key is either in this table or in the other.
template <int kKeyWords, int kRows>
__device__ inline uint32_t walk_pairs(const BlockSlots<kKeyWords>& table,
                                      const typename MixedKey<kKeyWords>::Key (&mixed)[kRows],
                                      const uint32_t (&at)[kRows], uint32_t (&slot)[kRows], uint32_t left,
                                      uint32_t full) {
    using Slots = BlockSlots<kKeyWords>;
    const uint32_t walk_max = min(kPairsWalkMax, table.slots);
    uint32_t unplaced = 0;
    uint32_t walked = 0;  // for the first row that is left
    while (__any_sync(kFullWarp, left != 0)) {
        if (left == 0) continue;
        const uint32_t row = first_row_of(left);
        const auto key = value_of(mixed, row);
        uint32_t place = value_of(at, row);
        if (walked == 0 && (full & row) != 0) walked = 2;
        place += walked;
        if (place >= table.slots) place -= table.slots;
        const typename Slots::Pair there = table.look_pair(place);
        const bool is_marker = key == Slots::kEmpty;
        const bool is_second = there.second == key;
        uint32_t found = Slots::kNoSlot;
        if ((is_second | (there.first == key)) & !is_marker) {
            found = is_second ? place + 1 : place;
        } else if ((there.first == Slots::kEmpty) | (there.second == Slots::kEmpty) | is_marker) {
            // The key is not there yet and gets the empty slot, unless another lane is faster.
            found = table.find(key, place, walk_max - walked);
            if (found == Slots::kNoSlot) walked = walk_max;
        }
        walked += 2;
        if (found == Slots::kNoSlot && walked < walk_max) continue;
        if (found == Slots::kNoSlot) unplaced |= row;
        if (found != Slots::kNoSlot) set_value(slot, row, found);
        left ^= row;
        walked = 0;
    }
    return unplaced;
}

// By all lanes of a warp. at[]: where a row's search begins, an even slot; a row that begins at `limit` or behind it is
// not for this table. slot[]: what was found, no_slot (no slot that a key can have) for rows that have none. Returns a
// bit for each row for whose key the table has no place. table.slots is even.
template <int kKeyWords, int kRows>
__device__ inline uint32_t find_pairs(const BlockSlots<kKeyWords>& table, uint32_t limit, uint32_t no_slot,
                                      const typename MixedKey<kKeyWords>::Key (&mixed)[kRows],
                                      const uint32_t (&at)[kRows], uint32_t (&slot)[kRows]) {
    using Slots = BlockSlots<kKeyWords>;
    typename Slots::Pair there[kRows];
    // Without branches: rows of others look behind the last slot.
#pragma unroll
    for (int r = 0; r < kRows; ++r) there[r] = table.look_pair(at[r] < limit ? at[r] : table.slots);
    bool is_done = true;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const bool is_ours = at[r] < limit;
        const bool is_second = there[r].second == mixed[r];
        const bool is_there = is_second | (there[r].first == mixed[r]);
        const bool is_found = is_there & is_ours & (mixed[r] != Slots::kEmpty);
        const uint32_t found = is_second ? at[r] + 1 : at[r];
        slot[r] = is_found ? found : no_slot;
        is_done &= is_found | !is_ours;
    }
    if (__all_sync(kFullWarp, is_done)) return 0;
    uint32_t left = 0;
    uint32_t full = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        if (at[r] < limit && slot[r] == no_slot) left |= 1U << r;
        const bool is_full = there[r].first != Slots::kEmpty && there[r].second != Slots::kEmpty;
        if (is_full && mixed[r] != Slots::kEmpty) full |= 1U << r;
    }
    return walk_pairs<kKeyWords>(table, mixed, at, slot, left, full);
}

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
