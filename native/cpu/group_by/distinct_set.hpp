// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/hash.hpp"
#include "cpu/group_by/aggregate_state.hpp"
#include "cpu/group_by/field_gather.hpp"
#include "cpu/group_by/group_plan.hpp"
#include "cpu/group_by/table_memory.hpp"
#include "cpu/row/inline_text.hpp"

namespace spillway {

// Inclusive range of 64-bit hashes. A range that does not fit memory is worked through in parts.
struct HashRange {
    uint64_t first = 0;
    uint64_t last = ~0ULL;
    bool contains(uint64_t hash) const { return hash - first <= last - first; }
    bool whole() const { return first == 0 && last == ~0ULL; }
};

// The values of a block's rows that are not NULL: number(record, value, hash) with one bit pattern for floats that are
// equal, bytes(record, bytes, length, hash) for everything that is not a number. The block's records must be known.
template <class Number, class Bytes>
void for_each_value(const AggregatePlan& aggregate, const RowBlock& block, FieldGather& gather, Number&& number,
                    Bytes&& bytes) {
    gather.select(aggregate);
    if (aggregate.number != NumberKind::kNone) {
        const uint64_t* numbers = gather.numbers(aggregate.number);
        const bool floats = is_float(aggregate.number);
        for (int32_t i = 0; i < gather.count(); ++i) {
            const uint64_t value = floats ? canonical_bits(std::bit_cast<double>(numbers[i])) : numbers[i];
            number(gather.records()[i], value, mix64(value));
        }
        return;
    }
    const FieldKind kind = aggregate.field->kind;
    const bool in_row = kind == FieldKind::kFixed || kind == FieldKind::kInlineBytes;
    const RowBlock::Var var = in_row ? RowBlock::Var{} : block.var(aggregate.field->offset);
    for (int32_t i = 0; i < gather.count(); ++i) {
        const int32_t row = gather.row(i);
        const uint8_t* value = in_row ? gather.address(i) : block.bytes(var, row);
        uint64_t length = aggregate.value_bytes;
        if (kind == FieldKind::kInlineBytes) length = inline_string(value, aggregate.value_bytes).length;
        if (!in_row) length = block.length(var, row);
        bytes(gather.records()[i], value, length, hash_bytes(value, length));
    }
}

// The (group, value) pairs seen by one count-distinct aggregate. Each new pair adds one to the count in the group's
// record, so that the set can be dropped as soon as all values of its hash range have been seen.
class DistinctSet {
  public:
    enum class Counting : uint8_t {
        kAlone,
        kShared,  // several sets count into the same records at once
        kNone,    // only says which pairs are new
    };
    DistinctSet(const AggregatePlan& aggregate, TableMemory& memory, Counting counting);

    // Adds the values whose hash lies in `range`. Throws TableFull.
    void add(const RowBlock& block, FieldGather& gather, const HashRange& range);
    // One pair, its value as for_each_value() gives it. Returns whether it is new. Throws TableFull.
    bool add_number(uint8_t* record, uint64_t value, uint64_t value_hash);
    bool add_bytes(uint8_t* record, const uint8_t* bytes, uint64_t length, uint64_t value_hash);
    void undo();  // takes back what was counted for the pairs in the set
    void
    clear();  // forgets the pairs and frees their memory; the counts stay, and only now are they all in the records
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
    void count_pair(uint8_t* record, uint64_t difference);
    void flush_count();
    void grow();

    const AggregatePlan& aggregate_;
    TableMemory& memory_;
    const Counting counting_;
    const bool inline_values_;
    TableBlock slots_;
    uint64_t capacity_ = 0;
    uint64_t count_ = 0;
    ByteArena arena_;
    // kShared: what the last record is still to get. Without it the workers fight for the one record of a global
    // aggregate at every pair.
    uint8_t* last_record_ = nullptr;
    uint64_t last_count_ = 0;
};

// The group has no value yet.
inline void forget_distinct(const AggregatePlan& aggregate, uint8_t* record) {
    *state_at<uint64_t>(record, aggregate) = 0;
}

}  // namespace spillway
