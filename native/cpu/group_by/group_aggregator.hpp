// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/group_by/aggregate.hpp"
#include "cpu/group_by/distinct_set.hpp"
#include "cpu/group_by/group_table.hpp"
#include "cpu/radix_partition/partitioned_rows.hpp"

namespace spillway {

// Cuts rows into blocks. body(block) is called for each; `rows` must stay valid during the call only.
class BlockCutter {
  public:
    // radix_bits: bits at the top of the key word that all rows have in common; ranges are taken from those below.
    BlockCutter(uint32_t row_bytes, uint32_t null_offset, int32_t radix_bits)
        : row_bytes_(row_bytes), radix_bits_(radix_bits), block_(std::make_unique<RowBlock>()) {
        block_->layout_null_offset = null_offset;
    }

    // Rows whose key falls into `range`.
    template <class Body>
    void cut(const RowSpan& span, const HashRange& range, Body&& body) {
        block_->encoded = nullptr;
        const uint8_t* row = span.rows;
        int32_t count = 0;
        for (uint32_t i = 0; i < span.count; ++i, row += row_bytes_) {
            block_->rows[count] = row;
            count += range.contains(load_word(row) << radix_bits_) ? 1 : 0;
            if (count < RowBlock::kRowsMax && i + 1 < span.count) continue;
            block_->count = count;
            if (count > 0) body(*block_);
            count = 0;
        }
    }
    template <class Body>
    void cut(const EncodedRows& encoded, Body&& body) {
        block_->encoded = &encoded;
        for (int64_t done = 0; done < encoded.rows; done += block_->count) {
            block_->encoded_begin = done;
            block_->count = static_cast<int32_t>(std::min<int64_t>(encoded.rows - done, RowBlock::kRowsMax));
            const uint8_t* row = encoded.data + done * row_bytes_;
            for (int32_t i = 0; i < block_->count; ++i, row += row_bytes_) block_->rows[i] = row;
            body(*block_);
        }
    }

  private:
    uint32_t row_bytes_;
    int32_t radix_bits_;
    std::unique_ptr<RowBlock> block_;
};

// Sets of all count-distinct aggregates of a plan, for one worker.
class DistinctSets {
  public:
    DistinctSets(const GroupPlan& plan, TableMemory& memory, bool shared);
    // The block's records must be known.
    void add(const RowBlock& block, FieldGather& gather, const HashRange& values);
    void undo();
    void clear();
    uint64_t bytes() const;
    uint64_t pairs() const;
    // One for each count-distinct aggregate, in the order of the plan.
    const std::vector<std::unique_ptr<DistinctSet>>& each() const { return sets_; }

  private:
    std::vector<std::unique_ptr<DistinctSet>> sets_;
};

// One worker's groups with everything that turns rows into them.
class GroupAggregator {
  public:
    GroupAggregator(const GroupPlan& plan, TableMemory& memory, uint64_t charge_per_record, int32_t radix_bits);

    BlockCutter& cutter() { return cutter_; }
    GroupTable& table() { return table_; }
    DistinctSets& distinct() { return distinct_; }
    FieldGather& gather() { return *gather_; }

    // Records and states, no count distinct. Throws TableFull.
    void add_states(RowBlock& block) {
        table_.find_or_insert(block);
        update_states(table_.plan(), block, *gather_, table_.arena());
    }
    // After add_states() of the same block.
    void add_distinct(RowBlock& block) { distinct_.add(block, *gather_, HashRange{}); }
    // A block seen before: its records, and the gather is ready for it.
    void find_again(RowBlock& block) {
        table_.find_or_insert(block);
        gather_->start(block);
    }
    void clear();    // keeps the memory of the table
    void release();  // keeps none

  private:
    BlockCutter cutter_;
    std::unique_ptr<FieldGather> gather_;
    GroupTable table_;
    DistinctSets distinct_;
};

}  // namespace spillway
