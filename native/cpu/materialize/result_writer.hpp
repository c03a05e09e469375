// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/row/column_builder.hpp"
#include "model/batch_sink.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// Matches -> Arrow batches of one worker: gathers the output fields of build and probe rows column by column and hands
// batches to the sink when they are full, in rows or in bytes. Rows are given by address; a side that is absent (outer
// joins) comes out as NULLs.
class ResultWriter {
  public:
    ResultWriter(const std::vector<JoinOutput>& outputs, const RowLayout& build, const RowLayout& probe,
                 MemoryBudget& budget, BatchSink& sink, int worker, int64_t expected_rows);

    bool counting() const { return !columns_wanted_; }
    void count(uint64_t rows) {
        rows_ += rows;
        counted_ += rows;
        if (counted_ >= static_cast<uint64_t>(batch_size_.rows)) report_count();
    }
    void pairs(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count);
    void build_only(const uint8_t* const* build_rows, int64_t count);
    void probe_only(const uint8_t* const* probe_rows, int64_t count);
    // Hands the last batch (and the count) to the sink; returns all rows written.
    uint64_t finish();

  private:
    // An output of values that differ in length.
    struct VarOutput {
        const JoinOutput* output;
        size_t builder;
        uint64_t row_bytes = 0;
        uint64_t step_bytes = 0;
    };
    static bool from_probe(const JoinOutput& output, bool has_probe_rows);
    void append(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count);
    int64_t rows_with_room(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count);
    int64_t rows_that_fit(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count);
    void flush();
    void report_count();
    uint64_t buffered_bytes() const;

    const std::vector<JoinOutput>& outputs_;
    const RowLayout& build_;
    const RowLayout& probe_;
    MemoryBudget& budget_;
    BatchSink& sink_;
    const int worker_;
    const bool columns_wanted_;
    const BatchSize batch_size_;
    std::vector<ColumnBuilder> builders_;
    std::unique_ptr<BatchMemory> memory_;  // of the batch that has rows
    int64_t buffered_rows_ = 0;
    std::vector<VarOutput> var_outputs_;
    uint64_t fixed_row_bytes_ = 0;  // of all columns, without the values of var_outputs_
    uint64_t rows_ = 0;
    uint64_t counted_ = 0;  // of those, what the sink does not know yet: it may want no more
};

}  // namespace spillway
