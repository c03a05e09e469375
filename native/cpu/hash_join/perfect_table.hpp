// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cpu/hash_join/join_table.hpp"

namespace spillway {

// Smallest and largest key of the build rows, when the key is one integer of at most 8 bytes.
struct KeyRange {
    uint64_t min = 0;
    uint64_t span = 0;  // max - min
};
std::optional<KeyRange> key_range(const BuildRows& rows);

// Perfect hashing: head[key - min], no comparison at all. For dense keys; every probe key is checked against the range.
// Where most values of the range are no key, a bit for each tells so from a faster cache.
class PerfectTable final : public JoinTable {
  public:
    // `workers` threads fill it.
    PerfectTable(const BuildRows& rows, const RowLayout& probe_layout, const KeyRange& range, MemoryBudget& budget,
                 int workers = 1);
    // Memory of a table over so many values, in whole blocks; chains of equal keys take more.
    static uint64_t bytes_for(uint64_t values);

    void find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const override;
    uint64_t count_matches(const uint8_t* const* probe_rows, int64_t count) const override;
    uint32_t next_equal(uint32_t number) const override { return next_ == nullptr ? kNoRow : next_[number]; }
    bool unique() const override { return next_ == nullptr; }

    // Looks up keys without a row around them: normalized words, not mixed, which need not be aligned. Gives the
    // positions of those that are there, in order, and for each the number of one build row. Returns how many.
    int64_t find_words(const uint8_t* words, int64_t count, int32_t* positions, uint32_t* numbers) const;

  private:
    uint64_t index_of(const uint8_t* row) const;
    uint64_t index_of_word(uint64_t word) const;
    uint32_t head(uint64_t index) const;
    void clear(int workers);
    template <class EachRow>
    void each_row(const BuildRows& rows, int workers, const EachRow& each) const;
    bool fill_in_parallel(const BuildRows& rows, int workers);
    void fill(const BuildRows& rows, MemoryBudget& budget);
    void start_chains(const BuildRows& rows, MemoryBudget& budget);

    const uint64_t min_;
    const uint64_t span_;
    const uint32_t sign_shift_;  // keys of less than 8 bytes are sign-extended so that the range is that of the values
    Buffer heads_buffer_;
    Buffer next_buffer_;
    Buffer present_buffer_;
    uint32_t* heads_ = nullptr;  // span + 2 of them: the last one stands for every key outside
    uint32_t* next_ = nullptr;
    uint64_t* present_ = nullptr;  // nullptr: every head is looked at
};

}  // namespace spillway
