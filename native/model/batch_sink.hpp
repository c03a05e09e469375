// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/output_batch.hpp"

namespace spillway {

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
    // Number of rows a producer should gather before push().
    virtual int64_t batch_rows() const = 0;
};

}  // namespace spillway
