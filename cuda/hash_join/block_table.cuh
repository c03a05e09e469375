// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/join_memory.hpp"
#include "primitive/mix.cuh"

// The hash table of a block whose build keys are unique, in shared memory: bucket chaining (Sioulas et al., ICDE 2019),
// where each row has a word of 18 bits of its key and the 14-bit number of the next row of its chain, so that a walk
// reads one word per row and no keys; the head of a bucket holds the bits of its first row. Inserting is one exchange,
// whatever other rows are there: linear probing over words of the same kind took 140 instructions per 32 rows for it,
// as every lane waits for the one that walks furthest.
namespace spillway::cuda { inline namespace hash_join {

template <int kKeyWords>
struct BlockTable {
    using Key = typename MixedKey<kKeyWords>::Key;

    uint32_t* rows;  // build rows
    uint32_t row_words;
    uint32_t radix_bits;
    bool holds_keys;  // chains_hold_keys()
    uint32_t* heads;  // [buckets]
    uint32_t buckets;
    uint32_t* chains;  // [rows]; not if holds_keys

    __device__ static Key key_of(const uint32_t* row) {
        if constexpr (kKeyWords == 1) {
            return row[0];
        } else {
            return row[0] | static_cast<Key>(row[1]) << 32;
        }
    }
    __device__ uint32_t* row(uint32_t number) const { return rows + number * row_words; }
    __device__ uint32_t& chain_of(uint32_t number) const { return holds_keys ? *row(number) : chains[number]; }

    // By the bits of a key behind those that all keys of the block share.
    __device__ uint32_t bucket_of(Key key, uint32_t among) const {
        return __umulhi(static_cast<uint32_t>((key << radix_bits) >> (32 * (kKeyWords - 1))), among);
    }
    __device__ uint32_t& head_of(Key key) const { return heads[bucket_of(key, buckets)]; }

    // Are there other rows in its bucket?
    __device__ bool insert(uint32_t number) const {
        const Key key = key_of(row(number));
        const uint32_t held = static_cast<uint32_t>(key) & kHeldKey;
        const uint32_t head = atomicExch(&head_of(key), held | number << kHeldKeyBits);
        chain_of(number) = held | (head & ~kHeldKey);
        return head != kEmptyBucket;
    }

    // The first row with that key in a bucket with this head; kNoBuildRow: there is none.
    __device__ uint32_t find(uint32_t head, Key key) const {
        const uint32_t number = head >> kHeldKeyBits;
        if (head == kEmptyBucket || is_key(head, number, key)) return number;
        return find_behind(number, key);
    }
    // Finds several keys side by side, so that the heads of all are under way before the first is looked at.
    template <int kKeys>
    __device__ void find(const Key (&keys)[kKeys], const bool (&there)[kKeys], uint32_t (&found)[kKeys]) const {
        uint32_t heads[kKeys];
#pragma unroll
        for (int k = 0; k < kKeys; ++k) heads[k] = there[k] ? head_of(keys[k]) : kEmptyBucket;
        if (!holds_keys) {
#pragma unroll
            for (int k = 0; k < kKeys; ++k) found[k] = find(heads[k], keys[k]);
            return;
        }
        bool more[kKeys];
#pragma unroll
        for (int k = 0; k < kKeys; ++k) found[k] = look(heads[k], keys[k], more[k]);
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            if (more[k]) found[k] = find_behind(heads[k] >> kHeldKeyBits, keys[k]);
        }
    }
    // Has a row behind it in its chain the same key? Where chains hold keys, a row's first word is its chain's word,
    // and has the bits that count.
    __device__ bool repeats(uint32_t number) const {
        return find_behind(number, key_of(row(number))) != kNoBuildRow;
    }

  private:
    // In its chain behind a row.
    __device__ uint32_t find_behind(uint32_t number, Key key) const {
        for (uint32_t next = chain_of(number) >> kHeldKeyBits; next != kNoBuildRow;) {
            const uint32_t word = chain_of(next);
            if (is_key(word, next, key)) return next;
            next = word >> kHeldKeyBits;
        }
        return kNoBuildRow;
    }
    __device__ static bool held_equal(uint32_t word, Key key) {
        return ((word ^ static_cast<uint32_t>(key)) & kHeldKey) == 0;
    }
    // For chains that hold keys, by the head alone: `more`, the rows behind have to be looked at.
    __device__ static uint32_t look(uint32_t head, Key key, bool& more) {
        const bool match = held_equal(head, key);
        more = !match && head != kEmptyBucket;
        return match ? head >> kHeldKeyBits : kNoBuildRow;
    }
    __device__ bool is_key(uint32_t word, uint32_t number, Key key) const {
        return held_equal(word, key) && (holds_keys || key_of(row(number)) == key);
    }
};

}}  // namespace spillway::cuda::hash_join
