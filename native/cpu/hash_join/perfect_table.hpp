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
class PerfectTable final : public JoinTable {
  public:
    PerfectTable(const BuildRows& rows, const RowLayout& probe_layout, const KeyRange& range, MemoryBudget& budget);
    void find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const override;
    uint64_t count_matches(const uint8_t* const* probe_rows, int64_t count) const override;
    uint32_t next_equal(uint32_t number) const override { return next_ == nullptr ? kNoRow : next_[number]; }
    bool unique() const override { return next_ == nullptr; }

  private:
    uint64_t index_of(const uint8_t* row) const;
    void start_chains(const BuildRows& rows, MemoryBudget& budget);

    const uint64_t min_;
    const uint64_t span_;
    const uint32_t sign_shift_;  // keys of less than 8 bytes are sign-extended so that the range is that of the values
    Buffer heads_buffer_;
    Buffer next_buffer_;
    uint32_t* heads_ = nullptr;
    uint32_t* next_ = nullptr;
};

}  // namespace spillway
