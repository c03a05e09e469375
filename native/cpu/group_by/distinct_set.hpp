// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/group_by/field_gather.hpp"
#include "cpu/group_by/group_plan.hpp"
#include "cpu/group_by/table_memory.hpp"

namespace spillway {

// Inclusive range of 64-bit hashes. A range that does not fit memory is worked through in parts.
struct HashRange {
    uint64_t first = 0;
    uint64_t last = ~0ULL;
    bool contains(uint64_t hash) const { return hash - first <= last - first; }
    bool whole() const { return first == 0 && last == ~0ULL; }
};

// The (group, value) pairs seen by one count-distinct aggregate. Each new pair adds one to the count in the group's
// record, so that the set can be dropped as soon as all values of its hash range have been seen.
class DistinctSet {
  public:
    // shared: several sets count into the same records at once.
    DistinctSet(const AggregatePlan& aggregate, TableMemory& memory, bool shared);

    // Adds the values whose hash lies in `range`. Throws TableFull.
    void add(const RowBlock& block, FieldGather& gather, const HashRange& range);
    void undo();   // takes back what was counted for the pairs in the set
    void clear();  // forgets the pairs and frees their memory; the counts stay
    uint64_t pairs() const { return count_; }
    uint64_t bytes() const { return slots_.bytes() + arena_.bytes(); }

  private:
    // Inline values: record address, value. Byte strings: hash of the pair, address of a Stored.
    struct Slot {
        uint64_t first;
        uint64_t second;
    };
    struct Stored {
        uint8_t* record;
        uint64_t length;  // the bytes follow
    };
    Slot* slots() { return reinterpret_cast<Slot*>(slots_.data()); }
    static uint64_t pair_hash(uint64_t value_hash, const uint8_t* record);
    uint64_t slot_hash(const Slot& slot) const;
    static bool is_empty(const Slot& slot) { return slot.first == 0 && slot.second == 0; }
    void add_word(uint8_t* record, uint64_t value, uint64_t value_hash);
    void add_bytes(uint8_t* record, const uint8_t* bytes, uint64_t length, uint64_t value_hash);
    void count_pair(uint8_t* record, uint64_t difference);
    void grow();

    const AggregatePlan& aggregate_;
    TableMemory& memory_;
    const bool shared_;
    const bool inline_values_;
    TableBlock slots_;
    uint64_t capacity_ = 0;
    uint64_t count_ = 0;
    ByteArena arena_;
};

}  // namespace spillway
