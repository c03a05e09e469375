// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/key_rows.cuh"
#include "primitive/mix.cuh"

// The tables of the no-partitioning join. All are cleared to ones: a slot is empty as long as its row number is all
// ones, which no row has, and no key is reserved. Build and probe are kernels of their own and the end of a kernel
// orders all of its writes: who probes never sees half a slot. Who inserts never reads a key of another row.
//
// A table says: first(key) where a key begins, or that it cannot be there; claim() puts a row into an empty slot and
// says what was there; fill() adds what the claim did not write; load() a slot for the probe kernel alone.
namespace spillway::cuda { inline namespace no_partitioning_joins {

// Slots from the top bits of the mixed key. Radix bits are these bits too: rows of one partition of many would share
// their slots, so this is a table for relations that were not partitioned.
template <class Key>
__device__ inline uint64_t slot_of(Key mixed, uint32_t slot_bits) {
    constexpr uint32_t kKeyBits = 8 * sizeof(Key);
    // More slots than keys: spread over all of them.
    if (slot_bits > kKeyBits) return static_cast<uint64_t>(mixed) << (slot_bits - kKeyBits);
    return mixed >> (kKeyBits - slot_bits);
}

// Keys of 4 bytes with row numbers below 2^32 - 1: key above, row number below, one CAS writes both.
struct PackedTable {
    static constexpr int kKeyWords = 1;
    static constexpr bool kWalks = true;
    using Key = uint32_t;
    using Entry = unsigned long long;
    using Claim = unsigned long long;

    unsigned long long* slots;
    uint32_t slot_bits;

    __device__ static Key stored(Key key) { return mix32(key); }
    __device__ bool first(Key mixed, uint64_t& slot) const {
        slot = slot_of(mixed, slot_bits);
        return true;
    }
    __device__ uint64_t next(uint64_t slot) const { return (slot + 1) & ((1ULL << slot_bits) - 1); }

    __device__ Claim claim(uint64_t slot, Key mixed, uint64_t row) const {
        return atomicCAS(&slots[slot], ~0ULL, static_cast<unsigned long long>(mixed) << 32 | row);
    }
    __device__ static bool won(Claim before) { return is_empty(before); }
    __device__ void fill(uint64_t, Key) const {}
    // While others insert; an answer of old that it is empty does no harm, as the claim has the last word.
    __device__ bool is_taken(uint64_t slot) const { return !is_empty(__ldcg(&slots[slot])); }

    __device__ static Entry none() { return ~0ULL; }
    __device__ Entry load(uint64_t slot) const { return __ldg(&slots[slot]); }
    __device__ static bool is_empty(Entry entry) { return static_cast<uint32_t>(entry) == ~0U; }
    __device__ static bool matches(Entry entry, Key mixed) { return static_cast<uint32_t>(entry >> 32) == mixed; }
    __device__ static uint64_t row_of(Entry entry) { return static_cast<uint32_t>(entry); }
};

// Any keys, any number of rows: slots of 16 bytes, x the row number and y the key. Claimed by the row number; the key
// follows as a plain store into the same sector.
template <int kWords>
struct WideTable {
    static constexpr int kKeyWords = kWords;
    static constexpr bool kWalks = true;
    using Key = typename MixedKey<kWords>::Key;
    using Entry = ulonglong2;
    using Claim = unsigned long long;

    ulonglong2* slots;
    uint32_t slot_bits;

    __device__ static Key stored(Key key) { return MixedKey<kWords>::mix(key); }
    __device__ bool first(Key mixed, uint64_t& slot) const {
        slot = slot_of(mixed, slot_bits);
        return true;
    }
    __device__ uint64_t next(uint64_t slot) const { return (slot + 1) & ((1ULL << slot_bits) - 1); }

    __device__ Claim claim(uint64_t slot, Key, uint64_t row) const {
        return atomicCAS(&slots[slot].x, ~0ULL, static_cast<unsigned long long>(row));
    }
    __device__ static bool won(Claim before) { return before == ~0ULL; }
    __device__ void fill(uint64_t slot, Key mixed) const { slots[slot].y = mixed; }
    __device__ bool is_taken(uint64_t slot) const { return __ldcg(&slots[slot].x) != ~0ULL; }

    __device__ static Entry none() { return make_ulonglong2(~0ULL, 0); }
    __device__ Entry load(uint64_t slot) const { return __ldg(&slots[slot]); }
    __device__ static bool is_empty(Entry entry) { return entry.x == ~0ULL; }
    __device__ static bool matches(Entry entry, Key mixed) { return entry.y == mixed; }
    __device__ static uint64_t row_of(Entry entry) { return entry.x; }
};

// Row numbers by key - first_key, each key once: the place is the key, and nothing is compared.
template <int kWords, class RowNumber>
struct PerfectTable {
    static constexpr int kKeyWords = kWords;
    static constexpr bool kWalks = false;
    using Key = typename MixedKey<kWords>::Key;
    using Entry = RowNumber;
    using Claim = RowNumber;

    RowNumber* rows;
    Key first_key;
    uint64_t key_range;

    __device__ static Key stored(Key key) { return key; }
    __device__ bool first(Key key, uint64_t& slot) const {
        slot = static_cast<Key>(key - first_key);
        return slot < key_range;
    }
    // When two rows have the same key, the later one finds the earlier one here.
    __device__ Claim claim(uint64_t slot, Key, uint64_t row) const {
        return atomicExch(&rows[slot], static_cast<RowNumber>(row));
    }
    __device__ static bool won(Claim before) { return is_empty(before); }
    __device__ void fill(uint64_t, Key) const {}

    __device__ static Entry none() { return static_cast<RowNumber>(~RowNumber{0}); }
    __device__ Entry load(uint64_t slot) const { return __ldg(&rows[slot]); }
    __device__ static bool is_empty(Entry entry) { return entry == none(); }
    __device__ static uint64_t row_of(Entry entry) { return entry; }
};

}}  // namespace spillway::cuda::no_partitioning_joins
