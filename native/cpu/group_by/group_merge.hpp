// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/group_by/group_table.hpp"

namespace spillway {

// Memory of a merge per record of the tables merged: at most 8/3 slots of 8 bytes and one address, less the 4/3 slots
// that the tables' own indexes give back.
constexpr uint64_t kMergeBytesPerRecord = 24;

// Joins the groups of several workers' tables that fall into one part of the hash space. Records stay where they are:
// the first record of a key takes up the states of the others. A record belongs to one part only, so that every worker
// can merge a part at the same time.
class GroupMerge {
  public:
    GroupMerge(const GroupPlan& plan, TableMemory& memory)
        : plan_(plan), memory_(memory), index_(memory, plan.hash_mask) {}

    // Part `part` of `parts`. The tables must stay alive. Throws TableFull.
    void run(const std::vector<const GroupTable*>& tables, uint32_t part, uint32_t parts);
    const uint8_t* const* records() const { return reinterpret_cast<const uint8_t* const*>(records_.data()); }
    uint64_t groups() const { return groups_; }
    const GroupIndex& index() const { return index_; }

    // Bits 16-47 of the word: radix bits and the last bits of a slot are outside.
    static uint32_t part_of(uint64_t word, uint32_t parts) {
        return static_cast<uint32_t>((((word >> 16) & 0xffffffff) * parts) >> 32);
    }

  private:
    void merge_block(uint8_t* const* block, uint32_t count);

    const GroupPlan& plan_;
    TableMemory& memory_;
    GroupIndex index_;
    TableBlock records_;
    uint64_t groups_ = 0;
};

}  // namespace spillway
