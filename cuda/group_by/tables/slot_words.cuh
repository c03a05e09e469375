// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/accumulators.hpp"
#include "primitive/bulk_copy.cuh"
#include "primitive/mix.cuh"

// Tables of groups: open addressing, mixed keys in one array and each word of the accumulators in one of its own
// (neighbouring slots in neighbouring banks or sectors). The table in GPU memory is searched by linear probing, a
// block's by buckets (find_slots.cuh) or, where it is not full, by pairs of slots (find_rows.cuh). No key is reserved:
// the one that marks an empty slot has a place of its own behind the last slot. Slots are never freed, so that a walk
// that found no place for a key will not find one later either: a key is in the block's table or in the one in GPU
// memory.
namespace spillway::cuda { inline namespace grouping {

// What a row adds to an accumulator, or one table to another.
struct Operand {
    uint32_t word[3];

    __device__ unsigned long long wide() const { return static_cast<unsigned long long>(word[1]) << 32 | word[0]; }
    __device__ static Operand of(unsigned long long value, uint32_t high = 0) {
        return {{static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32), high}};
    }
};

template <class Key>
struct AtomicWord;
template <>
struct AtomicWord<uint32_t> {
    using type = unsigned int;
};
template <>
struct AtomicWord<uint64_t> {
    using type = unsigned long long;
};

// kShared: in shared memory, with a 32-bit Index; else in global memory.
template <int kKeyWords, class Index, bool kShared>
struct SlotWords {
    using Key = typename MixedKey<kKeyWords>::Key;
    using KeyWord = typename AtomicWord<Key>::type;
    static constexpr Key kEmpty = static_cast<Key>(~Key{0});
    static constexpr Index kNoSlot = static_cast<Index>(~Index{0});

    KeyWord* keys;    // [slots + 1], at a multiple of 16 bytes
    uint32_t* words;  // [words][entries]
    Index slots;
    Index entries;  // slots + 1, made even

    // What is there now or was a moment ago. A look is free of conflicts where all lanes of a warp look at one address,
    // and an atomic operation that would change nothing is left out. Tools that watch shared memory get an atomic one.
    template <class Word>
    __device__ static Word look(Word* place) {
#ifdef SPILLWAY_CUDA_PLAIN_COPIES
        return atomicOr(place, Word{0});
#else
        if constexpr (kShared) {
            return *static_cast<volatile Word*>(place);
        } else {
            return __ldcg(place);
        }
#endif
    }

    // Neighbouring slots that one access looks at. A block's table has whole buckets: its slots are a multiple of four.
    static constexpr uint32_t kBucketSlots = 16 / sizeof(Key);
    struct Bucket {
        Key key[kBucketSlots];
    };
    // Where the bucket of a key begins, among `slots`: by the top word of the mixed key.
    __device__ static uint32_t bucket_of(uint32_t top, uint32_t slots) {
        return __umulhi(top, slots) & ~(kBucketSlots - 1);
    }
    // Looks at a bucket of a block's table; `at` is where one begins, or `slots`. Other threads may claim slots
    // meanwhile, so that the keys need not all be of the same moment.
    __device__ Bucket look_bucket(uint32_t at) const {
        Bucket bucket;
#ifdef SPILLWAY_CUDA_PLAIN_COPIES
#pragma unroll
        for (uint32_t i = 0; i < kBucketSlots; ++i) bucket.key[i] = static_cast<Key>(look(&keys[at + i]));
#else
        const uint32_t address = shared_address(&keys[at]);
        if constexpr (sizeof(Key) == 4) {
            asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(bucket.key[0]), "=r"(bucket.key[1]), "=r"(bucket.key[2]), "=r"(bucket.key[3])
                         : "r"(address));
        } else {
            asm volatile("ld.volatile.shared.v2.u64 {%0, %1}, [%2];"
                         : "=l"(bucket.key[0]), "=l"(bucket.key[1])
                         : "r"(address));
        }
#endif
        return bucket;
    }

    struct Pair {
        Key first;
        Key second;
    };
    // The keys of an even slot and of the next one; those of 4 bytes in one access.
    __device__ Pair look_pair(Index at) const {
#ifndef SPILLWAY_CUDA_PLAIN_COPIES
        if constexpr (kShared && sizeof(Key) == 4) {
            const unsigned long long both = *reinterpret_cast<const volatile unsigned long long*>(&keys[at]);
            return {static_cast<Key>(both), static_cast<Key>(both >> 32)};
        }
#endif
        return {static_cast<Key>(look(&keys[at])), static_cast<Key>(look(&keys[at + 1]))};
    }

    // The place of the key that marks an empty slot.
    __device__ Index find_marker() const {
        if (look(&keys[slots]) != 0) atomicExch(&keys[slots], KeyWord{0});
        return slots;
    }
    // The key in this slot from now on: it was there, or the slot was empty.
    __device__ bool take(Index at, Key mixed) const {
        KeyWord there = look(&keys[at]);
        if (there == kEmpty) {
            there = atomicCAS(&keys[at], static_cast<KeyWord>(kEmpty), static_cast<KeyWord>(mixed));
            if (there == kEmpty) return true;
        }
        return there == mixed;
    }
    // Searches the table in GPU memory, and a block's table that is searched by pairs. Returns the slot of the key,
    // from slot `at` on, which is claimed if it was empty, or kNoSlot after walk_max slots of other keys.
    __device__ Index find(Key mixed, Index at, uint32_t walk_max) const {
        if (mixed == kEmpty) return find_marker();
        for (uint32_t step = 0; step < walk_max; ++step) {
            if (take(at, mixed)) return at;
            at = at + 1 == slots ? 0 : at + 1;
        }
        return kNoSlot;
    }
    // After a barrier or in a later kernel.
    __device__ bool is_taken(Index slot) const {
        return keys[slot] != static_cast<KeyWord>(kEmpty);
    }
    __device__ Key key_of(Index slot) const {
        return slot == slots ? kEmpty : static_cast<Key>(keys[slot]);
    }
    __device__ uint32_t get(int word, Index slot) const {
        return words[word * entries + slot];
    }
    __device__ unsigned long long get_wide(int word, Index slot) const {
        return reinterpret_cast<const unsigned long long*>(words + word * entries)[slot];
    }
    __device__ Operand read(const Accumulator& a, Index slot) const {
        if (a.op == AccumulatorOp::kMax64 || a.op == AccumulatorOp::kAddDouble) {
            return Operand::of(get_wide(a.word, slot));
        }
        return {{get(a.word, slot), a.words > 1 ? get(a.word + 1, slot) : 0, a.words > 2 ? get(a.word + 2, slot) : 0}};
    }

    __device__ uint32_t* place(int word, Index slot) const {
        return &words[word * entries + slot];
    }
    __device__ unsigned long long* wide_place(int word, Index slot) const {
        return reinterpret_cast<unsigned long long*>(words + word * entries) + slot;
    }

    __device__ void apply(const Accumulator& a, Index slot, const Operand& by) const {
        switch (a.op) {
            case AccumulatorOp::kMax32:
                if (by.word[0] > look(place(a.word, slot))) atomicMax(place(a.word, slot), by.word[0]);
                return;
            case AccumulatorOp::kMax64:
                if (by.wide() > look(wide_place(a.word, slot))) atomicMax(wide_place(a.word, slot), by.wide());
                return;
            case AccumulatorOp::kAdd:
                return add(a, slot, by);
            case AccumulatorOp::kAddDouble:
                atomicAdd(reinterpret_cast<double*>(wide_place(a.word, slot)),
                          __longlong_as_double(static_cast<long long>(by.wide())));
                return;
            case AccumulatorOp::kOr:
                if ((by.word[0] & ~look(place(a.word, slot))) != 0) atomicOr(place(a.word, slot), by.word[0]);
                return;
        }
    }

  private:
    // Word by word: whoever makes a word overflow carries one into the next, so that no carry is lost or taken twice.
    __device__ void add(const Accumulator& a, Index slot, const Operand& by) const {
        uint32_t carry = 0;
        for (int w = 0; w < a.words; ++w) {
            const uint32_t own = w == 0 ? by.word[0] : w == 1 ? by.word[1] : by.word[2];
            const uint32_t sum = own + carry;
            carry = sum < own ? 1 : 0;  // then nothing is left to add
            if (sum == 0) continue;
            const uint32_t before = atomicAdd(place(a.word + w, slot), sum);
            carry = before + sum < before ? 1 : 0;
        }
    }
};

template <int kKeyWords>
using BlockSlots = SlotWords<kKeyWords, uint32_t, true>;
template <int kKeyWords>
using GlobalSlots = SlotWords<kKeyWords, uint64_t, false>;

// First slot in the table in GPU memory. Not from the top bits alone: what comes here from one partition has them in
// common.
template <int kKeyWords>
__device__ inline uint64_t global_slot(typename MixedKey<kKeyWords>::Key mixed, uint64_t slots) {
    if constexpr (kKeyWords == 1) {
        return __umul64hi(static_cast<uint64_t>(mixed * 0x9e3779b1U) << 32, slots);
    } else {
        return __umul64hi(mixed * 0x9e3779b97f4a7c15ULL, slots);
    }
}

// The table in GPU memory, as kernels get it.
struct GlobalGroups {
    void* keys = nullptr;
    uint32_t* words = nullptr;
    uint64_t slots = 0;
    uint64_t entries = 0;
    uint32_t walk_max = 0;
    uint32_t* failed = nullptr;  // 1: it has no place left, the result is none

    template <int kKeyWords>
    __device__ GlobalSlots<kKeyWords> table() const {
        return {static_cast<typename GlobalSlots<kKeyWords>::KeyWord*>(keys), words, slots, entries};
    }
};

}}  // namespace spillway::cuda::grouping
