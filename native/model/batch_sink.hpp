// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/output_batch.hpp"

namespace spillway {

// What a producer gathers before it hands a batch on: at most so many rows, and no more once their values take so many
// bytes. Estimates of rows know means, and a join may repeat the longest value; one row is a batch whatever its size.
struct BatchSize {
    int64_t rows = 0;
    uint64_t bytes = UINT64_MAX;
};

// Where a stage's result goes: count, JS queue, Arrow file, or the partitioner of the next stage. Called from several
// workers at once; `worker` is the index of parallel_run.
class BatchSink {
  public:
    virtual ~BatchSink() = default;
    // False: only add_rows() is called and no column is materialized.
    virtual bool wants_columns() const = 0;
    virtual void add_rows(int worker, uint64_t rows) = 0;
    // Takes over the batch. May block (back-pressure) and may throw (aborted, disk full).
    virtual void push(int worker, OutputBatch&& batch) = 0;
    virtual BatchSize batch_size() const = 0;
};

}  // namespace spillway
