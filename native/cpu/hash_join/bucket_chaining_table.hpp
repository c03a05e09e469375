// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/hash_join/join_table.hpp"

namespace spillway {

// Bucket chaining: an array of heads (about one per row) and one link per row, 4 bytes each; keys are read from the
// rows. Smallest table of the three and the cheapest to build; suffers from duplicate-heavy keys, whose chains every
// other key of the bucket walks. After Manegold et al., as in the joins of Balkesen et al. (ICDE 2013).
class BucketChainingTable final : public JoinTable {
  public:
    BucketChainingTable(const BuildRows& rows, const RowLayout& probe_layout, uint64_t hash_mask, MemoryBudget& budget);
    void find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const override;
    uint64_t count_matches(const uint8_t* const* probe_rows, int64_t count) const override;
    uint32_t next_equal(uint32_t number) const override;
    bool unique() const override { return false; }  // not known without comparing keys
    static uint64_t bytes_for(uint64_t rows, uint64_t numbers);

  private:
    uint32_t match_from(uint32_t number, uint64_t word, const uint8_t* row, const RowLayout& layout) const;
    uint32_t head(const uint8_t* row) const { return heads_[first_word(row) & mask_]; }

    const BuildRows& rows_;
    const RowLayout& probe_layout_;
    const bool wide_;
    uint64_t mask_ = 0;
    Buffer buffer_;
    uint32_t* heads_ = nullptr;
    uint32_t* next_ = nullptr;
};

}  // namespace spillway
