// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/group_by/row_block.hpp"
#include "cpu/group_by/table_memory.hpp"

namespace spillway {

// Linear-probing table from a key to the address of its record. A slot is the record's address in 48 bits (user
// addresses of every supported system are below 2^47 or 2^48 unless asked for) and 16 bits of the hash, so that a probe
// seldom touches a record in vain. Slots come from the bottom bits of the hash, tags from bits 26-41; the radix bits of
// the partition passes are above both.
class GroupIndex {
  public:
    GroupIndex(TableMemory& memory, uint64_t hash_mask) : memory_(memory), hash_mask_(hash_mask) {}

    // Empty, with `capacity` slots (a power of two).
    void reset(uint64_t capacity);
    void clear();
    void release() {
        slots_.release();
        capacity_ = count_ = max_count_ = 0;
    }
    uint64_t capacity() const { return capacity_; }
    uint64_t count() const { return count_; }
    bool full() const { return count_ >= max_count_; }
    // Prefetching pays only when the slots are not in the L2 cache anyway.
    bool wants_prefetch() const { return capacity_ * sizeof(uint64_t) > kCachedBytes; }

    static uint64_t capacity_for(uint64_t records);

    void prefetch(uint64_t word) const { __builtin_prefetch(slots() + ((word & hash_mask_) & slot_mask_), 1); }
    // Record that the first probe of this key will look at; nullptr for none.
    const uint8_t* candidate(uint64_t word) const { return address_of(slots()[(word & hash_mask_) & slot_mask_]); }

    // equal(record): are the keys equal, given that the first words may differ?
    template <class Equal>
    uint8_t* find(uint64_t word, Equal&& equal) const {
        const uint64_t hash = word & hash_mask_;
        const uint64_t tag = tag_of(hash);
        const uint64_t* slots = this->slots();
        for (uint64_t slot = hash & slot_mask_;; slot = (slot + 1) & slot_mask_) {
            const uint64_t entry = slots[slot];
            if (entry == 0) return nullptr;
            if ((entry & kTagMask) == tag) {
                uint8_t* record = address_of(entry);
                if (equal(record)) return record;
            }
        }
    }

    // Adds a record whose key is not there. full() must be false.
    void insert(uint64_t word, uint8_t* record) {
        const uint64_t hash = word & hash_mask_;
        uint64_t slot = hash & slot_mask_;
        while (slots()[slot] != 0) slot = (slot + 1) & slot_mask_;
        slots()[slot] = tag_of(hash) | reinterpret_cast<uintptr_t>(record);
        ++count_;
    }

  private:
    static constexpr uint64_t kCachedBytes = 256 << 10;
    static constexpr uint64_t kTagMask = 0xffffULL << 48;

    static uint64_t tag_of(uint64_t hash) { return (hash << 22) & kTagMask; }
    static uint8_t* address_of(uint64_t entry) { return reinterpret_cast<uint8_t*>(entry & ~kTagMask); }
    uint64_t* slots() { return reinterpret_cast<uint64_t*>(slots_.data()); }
    const uint64_t* slots() const { return reinterpret_cast<const uint64_t*>(slots_.data()); }

    TableMemory& memory_;
    const uint64_t hash_mask_;
    TableBlock slots_;
    uint64_t capacity_ = 0;
    uint64_t slot_mask_ = 0;
    uint64_t count_ = 0;
    uint64_t max_count_ = 0;  // 3/4 full: tags keep the longer probe sequences cheap
};

}  // namespace spillway
