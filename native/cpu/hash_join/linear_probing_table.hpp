// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/hash_join/join_table.hpp"

namespace spillway {

// Open addressing with linear probing at a load of at most 50 %, one slot per *distinct* key: rows with equal keys hang
// in a chain of row numbers, so a heavily duplicated key lengthens nobody's probe sequence and counting its matches
// reads one slot. The chain array exists only once a duplicate was seen (primary keys never pay for it).
// Slot bits come from the bottom of the hash, radix bits from the top.
class LinearProbingTable final : public JoinTable {
  public:
    LinearProbingTable(const BuildRows& rows, const RowLayout& probe_layout, uint64_t hash_mask, MemoryBudget& budget);
    void find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const override;
    uint64_t count_matches(const uint8_t* const* probe_rows, int64_t count) const override;
    uint32_t next_equal(uint32_t number) const override { return next_ == nullptr ? kNoRow : next_[number]; }
    bool unique() const override { return next_ == nullptr; }
    static uint64_t bytes_for(uint64_t rows, uint64_t numbers);

  private:
    struct Slot {
        uint64_t word;
        uint32_t first;  // kNoRow: free
        uint32_t count;  // saturates; see count_of
    };
    void insert_all(MemoryBudget& budget);
    void insert(uint64_t word, uint32_t number, const uint8_t* row, MemoryBudget& budget);
    void start_chains(MemoryBudget& budget);
    uint64_t count_of(const Slot& slot) const;
    template <bool kWide>
    const Slot* lookup(uint64_t word, const uint8_t* probe_row) const;
    void prefetch(const uint8_t* const* probe_rows, int64_t count) const;

    const BuildRows& rows_;
    const RowLayout& probe_layout_;
    const bool wide_;
    uint64_t mask_ = 0;
    uint64_t slot_count_ = 0;
    bool prefetch_ = false;
    Buffer slots_buffer_;
    Buffer next_buffer_;
    Slot* slots_ = nullptr;
    uint32_t* next_ = nullptr;
};

}  // namespace spillway
