// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/materialize/batch_writer.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// Matches -> Arrow batches of one worker: gathers the output fields of build and probe rows column by column. Rows are
// given by address; a side that is absent (outer joins) comes out as NULLs.
class ResultWriter {
  public:
    ResultWriter(const std::vector<JoinOutput>& outputs, const RowLayout& build, const RowLayout& probe,
                 MemoryBudget& budget, BatchSink& sink, int worker, int64_t expected_rows);

    bool counting() const { return batches_.counting(); }
    void count(uint64_t rows) { batches_.count(rows); }
    void pairs(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count);
    void build_only(const uint8_t* const* build_rows, int64_t count);
    void probe_only(const uint8_t* const* probe_rows, int64_t count);
    // Hands the last batch (and the count) to the sink; returns all rows written.
    uint64_t finish() { return batches_.finish(); }

  private:
    static bool from_probe(const JoinOutput& output, bool has_probe_rows);
    void append(const uint8_t* const* build_rows, const uint8_t* const* probe_rows, int64_t count);

    const std::vector<JoinOutput>& outputs_;
    const RowLayout& build_;
    const RowLayout& probe_;
    BatchWriter batches_;
};

}  // namespace spillway
