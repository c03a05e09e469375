// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/hash_join/join_table.hpp"
#include "cpu/hash_join/vector_probing_kernels.hpp"

namespace spillway {

// Linear probing by buckets of one cache line: the eight words of a bucket are compared at once, so that (at a load of
// 2/5: all but one probe in two hundred; TableRoom::tight: of 1/2, one in twenty) an access is one line and no branch
// depends on where in the line the key is. Scalar probing spends most of its time on just those mispredicted branches.
// For keys of one word; wide keys and machines without a kernel take LinearProbingTable, which otherwise does the same:
// one slot per distinct key, chains of row numbers and counts only once a duplicate was seen. After Polychroniou et
// al., "Rethinking SIMD vectorization for in-memory databases" (SIGMOD 2015), section 5.
class VectorProbingTable final : public JoinTable {
  public:
    static bool usable(const RowLayout& build);
    // nullptr: there are equal keys, but no room for them.
    static std::unique_ptr<VectorProbingTable> make(const BuildRows& rows, TableUse use, TableRoom room,
                                                    uint64_t hash_mask, MemoryBudget& budget);
    // A table for kCount, which keeps words only: no row needs to stay.
    static std::unique_ptr<VectorProbingTable> make_counter(uint64_t rows, uint32_t row_bytes, const EachSpan& each,
                                                            TableRoom room, uint64_t hash_mask, MemoryBudget& budget);
    void find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const override;
    uint64_t count_matches(const uint8_t* const* probe_rows, int64_t count) const override;
    uint32_t next_equal(uint32_t number) const override { return next_ == nullptr ? kNoRow : next_[number]; }
    bool unique() const override { return next_ == nullptr; }
    static uint64_t bytes_for(TableUse use, TableRoom room, uint64_t rows, uint64_t numbers);

  private:
    enum class Filled : uint8_t { kAll, kFreeWordTaken, kEqualKeys };
    VectorProbingTable(uint64_t rows, uint64_t numbers, uint32_t row_bytes, TableUse use, TableRoom room,
                       uint64_t hash_mask, MemoryBudget& budget);
    void clear_slots();
    Filled insert_span(const RowSpan& span, uint32_t first_number, MemoryBudget& budget);
    Filled insert_rows(const uint8_t* rows, uint32_t count, uint32_t first_number, MemoryBudget& budget);
    void insert_equal(uint64_t slot, uint32_t number, MemoryBudget& budget);

    const uint64_t numbers_;
    const uint32_t row_bytes_;
    const TableUse use_;
    const TableRoom room_;
    const VectorProbingKernels& kernels_;
    WordBuckets buckets_;
    Buffer words_buffer_;
    Buffer first_buffer_;
    Buffer counts_buffer_;
    Buffer next_buffer_;
    uint32_t* first_ = nullptr;   // per slot: number of one row with the key
    uint32_t* counts_ = nullptr;  // per slot: rows with the key; nullptr while no key came twice
    uint32_t* next_ = nullptr;    // per row number: the next row with the same key; nullptr likewise
};

}  // namespace spillway
