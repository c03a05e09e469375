// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/group_policy.hpp"
#include "group_by/tables/row_bits.cuh"
#include "group_by/tables/slot_words.cuh"
#include "primitive/warp.cuh"

// Searches of a block's table for some rows per thread at once, in buckets of 16 bytes (four keys of 4 bytes, two of 8)
// that one access looks at. A key that its bucket has no place for walks on in steps of its own (double hashing): with
// neighbouring buckets full ones would grow together, and at a fill of 0.85 walks were four times as long. Steps are
// short, so that none comes back to a bucket before the walk ends, whatever the number of buckets.
// A key is claimed at the first empty place of its sequence of places, none of which is ever freed: whoever walks the
// same sequence finds it there or at no place at all, so that no key is ever in two slots.
// For rows that are not in their first bucket the lanes of a warp walk on in rounds in which all take part, each
// through its rows one after the other: a loop per row would wait for the longest way of each and, where lanes are left
// apart, issue several times what follows. A round looks at two buckets of a row.
// Computed for random keys, 19,344 slots, 128 rows of a warp: share of keys in their first bucket, rounds, share of
// keys without a place:
//   fill            0.11   0.22   0.43   0.60   0.70   0.80   0.85   0.88   0.90   0.95
//   4 bytes, first  0.999  0.997  0.974  0.931  0.893  0.848  0.822  0.805  0.793  0.762
//            rounds 0.07   0.29   1.1    1.8    2.4    3.3    4.1    4.8    5.3    7.7
//            none   0      0      0      0      0      0      0      0      1e-5   6e-4
//   8 bytes, first  0.992  0.972  0.910  0.840  0.793  0.741  0.713  0.696  0.685  0.657
//            rounds 0.62   1.1    2.0    2.9    3.8    5.3    6.5    7.5    8.3    10.7
//            none   0      0      0      0      0      0      5e-5   9e-5   3e-4   3e-3
// (pairs of keys with linear probing: 3.4 rounds at 0.43, 5.8 at 0.55, 25 at 0.85.)
namespace spillway::cuda { inline namespace grouping {

// Where a key goes on from a bucket without it, by other bits than those that chose the first one.
template <int kKeyWords>
__device__ inline uint32_t next_bucket(const BlockSlots<kKeyWords>& table, typename MixedKey<kKeyWords>::Key mixed,
                                       uint32_t at) {
    constexpr uint32_t kSlots = BlockSlots<kKeyWords>::kBucketSlots;
    static_assert(kTableWalkMax <= 32, "steps of at most a 32nd of the buckets");
    const uint32_t step = 1 + __umulhi(static_cast<uint32_t>(mixed) * 0x9e3779b1U, table.slots / (32 * kSlots));
    const uint32_t next = at + step * kSlots;
    return next >= table.slots ? next - table.slots : next;
}

// From the key's first bucket on, place after place: its slot, claimed where it was empty, or kNoSlot. Not the marker.
template <int kKeyWords>
__device__ inline uint32_t claim_slot(const BlockSlots<kKeyWords>& table, typename MixedKey<kKeyWords>::Key mixed,
                                      uint32_t at) {
    for (uint32_t bucket = 0; bucket < kTableWalkMax; ++bucket) {
#pragma unroll 1
        for (uint32_t i = 0; i < BlockSlots<kKeyWords>::kBucketSlots; ++i) {
            if (table.take(at + i, mixed)) return at + i;
        }
        at = next_bucket<kKeyWords>(table, mixed, at);
    }
    return BlockSlots<kKeyWords>::kNoSlot;
}

// A place for a key in its first bucket, while that has one; kNoSlot where another key was faster, and claim_slot() is
// to look on.
template <int kKeyWords>
__device__ inline uint32_t claim_in_bucket(const BlockSlots<kKeyWords>& table, typename MixedKey<kKeyWords>::Key mixed,
                                           uint32_t at) {
    using Slots = BlockSlots<kKeyWords>;
    if (mixed == Slots::kEmpty) return table.find_marker();
    const typename Slots::Bucket there = table.look_bucket(at);
    uint32_t place = at;
#pragma unroll
    for (uint32_t i = Slots::kBucketSlots; i-- > 0;) {
        if (there.key[i] == Slots::kEmpty) place = at + i;
    }
#pragma unroll
    for (uint32_t i = 0; i < Slots::kBucketSlots; ++i) {
        if (there.key[i] == mixed) place = at + i;
    }
    return table.take(place, mixed) ? place : Slots::kNoSlot;
}

// Rows of `left`, a bit for each, that are not in their first bucket, which begins at slot[], from the second one on.
template <int kKeyWords, int kRows>
__device__ inline uint32_t walk_buckets(const BlockSlots<kKeyWords>& table, uint32_t no_slot,
                                        const typename MixedKey<kKeyWords>::Key (&mixed)[kRows],
                                        uint32_t (&slot)[kRows], uint32_t left) {
    using Slots = BlockSlots<kKeyWords>;
    constexpr uint32_t kLast = Slots::kBucketSlots - 1;
    uint32_t unplaced = 0;
    uint32_t walked = 0;  // buckets of the first row that is left
    uint32_t place = 0;
    auto key = mixed[0];
    while (__any_sync(kFullWarp, left != 0)) {
        if (left == 0) continue;
        const uint32_t row = first_row_of(left);
        if (walked == 0) {
            key = value_of(mixed, row);
            place = next_bucket<kKeyWords>(table, key, value_of(slot, row));
            walked = 1;
        }
        const uint32_t second = next_bucket<kKeyWords>(table, key, place);
        const typename Slots::Bucket here = table.look_bucket(place);
        const typename Slots::Bucket there = table.look_bucket(second);
        uint32_t found = Slots::kNoSlot;
#pragma unroll
        for (uint32_t i = 0; i < Slots::kBucketSlots; ++i) {
            if (here.key[i] == key) found = place + i;
            if (there.key[i] == key) found = second + i;
        }
        if (found == Slots::kNoSlot) {
            walked += 2;
            place = next_bucket<kKeyWords>(table, key, second);
            const bool is_open = (here.key[kLast] == Slots::kEmpty) | (there.key[kLast] == Slots::kEmpty);
            // Buckets were seen at different moments, their keys too: what claims a place looks at all places again.
            if (!is_open & (walked < kTableWalkMax)) continue;
            found = claim_slot<kKeyWords>(table, key, value_of(slot, row));
            if (found == Slots::kNoSlot) {
                unplaced |= row;
                found = no_slot;
            }
        }
        set_value(slot, row, found);
        left ^= row;
        walked = 0;
    }
    return unplaced;
}

// By all lanes of a warp. at[]: where a row's search begins, by bucket_of(); a row that begins at `limit` or behind it
// is not for this table. slot[]: what was found, no_slot (no slot that a key can have) for rows that have none. Returns
// a bit for each row for whose key the table has no place.
template <int kKeyWords, int kRows>
__device__ inline uint32_t find_slots(const BlockSlots<kKeyWords>& table, uint32_t limit, uint32_t no_slot,
                                      const typename MixedKey<kKeyWords>::Key (&mixed)[kRows],
                                      const uint32_t (&at)[kRows], uint32_t (&slot)[kRows]) {
    using Slots = BlockSlots<kKeyWords>;
    typename Slots::Bucket there[kRows];
    // Without branches: rows of others look behind the last slot.
#pragma unroll
    for (int r = 0; r < kRows; ++r) there[r] = table.look_bucket(at[r] < limit ? at[r] : table.slots);
    uint32_t left = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const bool is_ours = at[r] < limit;
        const bool is_sought = is_ours & (mixed[r] != Slots::kEmpty);
        uint32_t found = no_slot;
#pragma unroll
        for (uint32_t i = 0; i < Slots::kBucketSlots; ++i) {
            if (is_sought & (there[r].key[i] == mixed[r])) found = at[r] + i;
        }
        // For a row that is left, slot[] says where its first bucket begins.
        const bool is_left = is_ours & (found == no_slot);
        slot[r] = is_left ? at[r] : found;
        if (is_left) left |= 1U << r;
    }
    if (__all_sync(kFullWarp, left == 0)) return 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        // Keys that are new to a bucket with places left.
        const bool is_open = there[r].key[Slots::kBucketSlots - 1] == Slots::kEmpty;
        if ((left >> r & 1) == 0 || !(is_open | (mixed[r] == Slots::kEmpty))) continue;
        const uint32_t found = claim_in_bucket<kKeyWords>(table, mixed[r], slot[r]);
        if (found == Slots::kNoSlot) continue;
        slot[r] = found;
        left ^= 1U << r;
    }
    return walk_buckets<kKeyWords>(table, no_slot, mixed, slot, left);
}

}}  // namespace spillway::cuda::grouping
