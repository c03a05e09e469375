// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/group_by/group_index.hpp"
#include "cpu/group_by/group_plan.hpp"
#include "cpu/group_by/row_block.hpp"

namespace spillway {

// The groups of one worker: records in chunks and an index on them. Memory is kept between partitions.
class GroupTable {
  public:
    // charge_per_record: memory a later merge needs for each record (GroupMerge), counted as records are made.
    GroupTable(const GroupPlan& plan, TableMemory& memory, uint64_t charge_per_record);
    ~GroupTable() { release(); }
    GroupTable(const GroupTable&) = delete;

    // Sets block.records and block.one_group; makes records for new keys. Throws TableFull: the table must then be
    // cleared or released.
    void find_or_insert(RowBlock& block);
    // GroupPlan::of_columns() where keeps_fields(): records made by find_or_insert() since the last call, and the rows
    // of the block that they are of. complete() must give each of them the rest of its row, encoded in plan().layout.
    struct NewRecord {
        int32_t row;
        uint8_t* record;
    };
    std::vector<NewRecord>& new_records() { return new_records_; }
    void complete(const RowBlock& block, int32_t i, uint8_t* record);

    // The record of one of the block's rows.
    uint8_t* find_or_insert_row(const RowBlock& block, int32_t i);

    // Memory that one more record with so many bytes of keys may take at most.
    uint64_t bytes_of_next(uint64_t key_bytes) const;

    uint64_t groups() const { return groups_; }
    TableMemory& memory() { return memory_; }
    ByteArena& arena() { return arena_; }
    const GroupPlan& plan() const { return plan_; }

    // body(first_record, count): records of one chunk, record_bytes apart.
    template <class Body>
    void for_each_chunk(Body&& body) const {
        uint64_t left = groups_;
        for (size_t i = 0; i < chunks_.size() && left > 0; ++i) {
            const uint64_t count = std::min(left, records_per_chunk_);
            body(const_cast<uint8_t*>(chunks_[i].data()), count);
            left -= count;
        }
    }

    void clear();          // no groups; keeps memory
    void release();        // no groups, no memory
    void release_index();  // records stay; no find() afterwards

  private:
    template <bool kWide>
    void find_or_insert_block(RowBlock& block);
    uint8_t* make_record(const RowBlock& block, int32_t i);
    void copy_var(const RowBlock& block, int32_t i, const GroupPlan::Copy& copy, uint8_t* record);
    uint8_t* next_record();
    void add_chunk();
    void index_record(uint64_t word, uint8_t* record);
    void rebuild_index(uint64_t capacity);
    uint64_t grown_capacity() const;

    const GroupPlan& plan_;
    TableMemory& memory_;
    const uint64_t charge_per_record_;
    uint64_t records_per_chunk_ = 1;
    uint64_t first_capacity_ = 0;
    GroupIndex index_;
    ByteArena arena_;
    std::vector<TableBlock> chunks_;
    size_t chunks_used_ = 0;
    std::vector<NewRecord> new_records_;
    uint64_t groups_ = 0;
    uint8_t* next_ = nullptr;
    uint8_t* end_ = nullptr;
};

// Is the row's key the record's, given equal first words? Only for plans with wide keys.
bool wide_key_equals_record(const GroupPlan& plan, const RowBlock& block, int32_t i, const RowBlock::Var* vars,
                            const uint8_t* record);
bool wide_records_equal(const GroupPlan& plan, const uint8_t* a, const uint8_t* b);

}  // namespace spillway
