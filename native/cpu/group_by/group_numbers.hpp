// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/group_by/group_table.hpp"

namespace spillway {

// Small numbers for the groups of a table while they are few, and the numbers of rows by their keys: a table of 16
// bytes a slot that stays in the cache, with the word of the key and the number side by side.
class GroupNumbers {
  public:
    GroupNumbers(GroupTable& table, uint32_t groups_max) : table_(table), groups_max_(groups_max) {}

    // numbers[i]: of the group of row i, which is made where there is none. Returns false, with the numbers of some
    // rows only, where there are too many groups or no memory for more. Throws TableFull.
    bool find(const RowBlock& block, uint32_t* numbers);
    uint8_t* const* records() const { return reinterpret_cast<uint8_t* const*>(records_.data()); }
    uint32_t count() const { return count_; }
    void release();

  private:
    struct Slot {
        uint64_t word;
        uint64_t number;  // + 1; 0: empty
    };
    template <bool kWide>
    bool find_rows(const RowBlock& block, uint32_t* numbers);
    bool add(const RowBlock& block, int32_t i, uint64_t slot);
    bool grow();
    Slot* slots() { return reinterpret_cast<Slot*>(slots_.data()); }
    uint64_t slot_of(uint64_t word) const { return (word & table_.plan().hash_mask) & slot_mask_; }

    GroupTable& table_;
    const uint32_t groups_max_;
    TableBlock slots_;
    TableBlock records_;  // address of each group's record
    uint64_t slot_mask_ = 0;
    uint32_t room_ = 0;
    uint32_t count_ = 0;
};

}  // namespace spillway
