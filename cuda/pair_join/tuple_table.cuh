// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "pair_join/pair_policy.hpp"

namespace spillway::cuda { inline namespace pair_join {

constexpr uint32_t kNoTuple = 0xffff;
static_assert(kBuildPartTuples < kNoTuple, "links have 16 bits");

// The hash table of a block over the build tuples of its unit, in shared memory: chains of numbers, so that inserting
// is one exchange, however often a key comes.
template <class Key, class Row>
struct TupleTable {
    static constexpr uint32_t kSlots = 1U << kTupleSlotBits;
    static constexpr uint32_t kKeyBits = 8 * sizeof(Key);

    Key* keys;
    Row* rows;
    uint32_t* heads;  // [kSlots]
    uint16_t* links;
    uint32_t* marks;  // bits of tuples that have a match
    uint32_t radix_bits;

    static constexpr uint64_t bytes() {
        return kBuildPartTuples * (sizeof(Key) + sizeof(Row) + sizeof(uint16_t)) + kSlots * sizeof(uint32_t) +
               kBuildPartTuples / 8;
    }
    __device__ static TupleTable in(unsigned char* memory, uint32_t radix_bits) {
        TupleTable table;
        table.keys = reinterpret_cast<Key*>(memory);
        unsigned char* const behind_keys = memory + kBuildPartTuples * sizeof(Key);
        table.rows = reinterpret_cast<Row*>(behind_keys);
        table.heads = reinterpret_cast<uint32_t*>(behind_keys + kBuildPartTuples * sizeof(Row));
        table.marks = table.heads + kSlots;
        table.links = reinterpret_cast<uint16_t*>(table.marks + kBuildPartTuples / 32);
        table.radix_bits = radix_bits;
        return table;
    }

    // From the bits behind those that all keys of a partition share.
    __device__ uint32_t slot_of(Key key) const {
        return static_cast<uint32_t>(static_cast<Key>(key << radix_bits) >> (kKeyBits - kTupleSlotBits));
    }
    __device__ void insert(uint32_t number, Key key) const {
        links[number] = static_cast<uint16_t>(atomicExch(&heads[slot_of(key)], number));
    }
    // The first tuple with that key from `number` on; kNoTuple: there is none.
    __device__ uint32_t find(uint32_t number, Key key) const {
        while (number != kNoTuple && keys[number] != key) number = links[number];
        return number;
    }
    // Says whether somebody else has done so before.
    __device__ bool mark(uint32_t number) const {
        return (atomicOr(&marks[number / 32], 1U << number % 32) >> (number % 32) & 1) != 0;
    }
    __device__ bool is_marked(uint32_t number) const { return (marks[number / 32] >> (number % 32) & 1) != 0; }
};

}}  // namespace spillway::cuda::pair_join
