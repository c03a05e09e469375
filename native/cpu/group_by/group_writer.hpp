// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/group_by/group_plan.hpp"
#include "cpu/row/column_builder.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// Finished records of one worker -> result batches: the key columns, then one column per aggregate.
class GroupWriter {
  public:
    GroupWriter(const GroupPlan& plan, BatchSink& sink, MemoryBudget& budget, int worker);
    void append(const uint8_t* const* records, uint64_t count);
    void append_chunk(const uint8_t* first_record, uint64_t count);
    void append_empty_group() { append_chunk(plan_.empty_record().data(), 1); }
    void flush();
    uint64_t groups() const { return groups_; }

  private:
    void append_slice(const uint8_t* const* records, int64_t count);
    int64_t slice_length(const uint8_t* const* records, int64_t count) const;

    const GroupPlan& plan_;
    MemoryBudget& budget_;
    BatchSink& sink_;
    const int worker_;
    const BatchSize batch_size_;
    std::vector<ColumnBuilder> columns_;
    std::unique_ptr<BatchMemory> memory_;  // of the batch that has rows
    int64_t rows_ = 0;
    uint64_t bytes_ = 0;  // of the rows gathered so far
    uint64_t groups_ = 0;
};

// Appends the results of one aggregate. Throws kIntegerOverflow.
void append_aggregate(const AggregatePlan& aggregate, const uint8_t* const* records, int64_t count,
                      ColumnBuilder& column);

}  // namespace spillway
