// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/hash_join/join_table.hpp"

namespace spillway {

// Open addressing with linear probing at a load of at most 1/3, one slot per *distinct* key: rows with equal keys hang
// in a chain of row numbers, so a heavily duplicated key lengthens nobody's probe sequence and counting its matches
// reads one slot. The array of words is apart from the others: it is all that most accesses read.
// Slot bits come from the bottom of the hash, radix bits from the top. The load: what a probe costs in the caches is
// mostly mispredicted ends of probe sequences (10 M x 10 M rows on one core: 94 ms at a load of 1/3, 135 ms at 1/2).
class LinearProbingTable final : public JoinTable {
  public:
    LinearProbingTable(const BuildRows& rows, const RowLayout& probe_layout, TableUse use, uint64_t hash_mask,
                       MemoryBudget& budget);
    void find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const override;
    uint64_t count_matches(const uint8_t* const* probe_rows, int64_t count) const override;
    uint32_t next_equal(uint32_t number) const override { return next_ == nullptr ? kNoRow : next_[number]; }
    bool unique() const override { return next_ == nullptr; }
    static uint64_t bytes_for(TableUse use, uint64_t rows, uint64_t numbers);

  private:
    // Slot where the probe sequence of a word begins: the low half of the hash scaled to the number of slots, which
    // need not be a power of two (Lemire, "Fast random integer generation in an interval", 2019).
    uint64_t slot_of(uint64_t word) const {
        return (static_cast<uint64_t>(static_cast<uint32_t>(word & hash_mask_)) * slot_count_) >> 32;
    }
    uint64_t after(uint64_t at) const { return at + 1 == slot_count_ ? 0 : at + 1; }
    void clear_slots();
    template <bool kWide>
    bool insert_all(MemoryBudget& budget);
    void insert_equal(uint64_t at, uint32_t number, MemoryBudget& budget);
    template <bool kWide>
    uint64_t lookup(uint64_t word, const uint8_t* probe_row) const;
    void prefetch(const uint8_t* const* probe_rows, int64_t count) const;
    template <class Body>
    void each_match(const uint8_t* const* probe_rows, int64_t count, Body&& body) const;

    const BuildRows& rows_;
    const RowLayout& probe_layout_;
    const bool wide_;
    const bool numbered_;  // row numbers are kept: rows are output, or compared beyond their words
    const bool chained_;   // find() and next_equal() will be called
    const bool counted_;   // count_matches() will be called
    const uint64_t hash_mask_;
    uint64_t slot_count_ = 0;
    uint64_t free_word_ = ~0ULL;  // marks free slots; a word that no build row has
    bool prefetch_ = false;
    Buffer words_buffer_;
    Buffer first_buffer_;
    Buffer counts_buffer_;
    Buffer next_buffer_;
    uint64_t* words_ = nullptr;   // per slot
    uint32_t* first_ = nullptr;   // per slot: number of one row with the key
    uint32_t* counts_ = nullptr;  // per slot: rows with the key; nullptr while no key came twice
    uint32_t* next_ = nullptr;    // per row number: the next row with the same key; nullptr likewise
};

}  // namespace spillway
