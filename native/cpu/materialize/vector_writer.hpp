// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/materialize/batch_writer.hpp"
#include "cpu/materialize/vector_gather.hpp"

namespace spillway {

// Vectors -> Arrow batches of one worker. A value is copied once: values of build rows, and of source rows that follow
// each other, straight into the batch.
class VectorWriter {
  public:
    VectorWriter(std::vector<VectorColumn> outputs, MemoryBudget& budget, BatchSink& sink, int worker,
                 int64_t expected_rows);

    bool counting() const { return batches_.counting(); }
    void count(uint64_t rows) { batches_.count(rows); }
    // source: views of the rows that the vector names.
    void append(const RowVector& rows, const std::vector<ColumnView>& source);
    // Hands the last batch (and the count) to the sink; returns all rows written.
    uint64_t finish() { return batches_.finish(); }

  private:
    const std::vector<VectorColumn> outputs_;
    std::vector<size_t> gathered_;  // of each output of the source: its place among those that are gathered
    VectorGather gather_;
    BatchWriter batches_;
};

}  // namespace spillway
