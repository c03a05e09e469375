// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/job_control.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// Lets no more than so many rows through to another sink. Whoever hands over the last of them, and whoever comes after
// that, gets an exception (kAborted) by which the stage ends as one that was cancelled does: ended_well() tells it from
// that. Nobody is stopped before all of the rows have reached the other sink.
class LimitSink final : public BatchSink {
  public:
    // all_or_none: nothing goes to the other sink before all of the rows are there; of fewer none does.
    LimitSink(std::unique_ptr<BatchSink> sink, uint64_t rows_max, bool all_or_none, JobControl& control);

    bool wants_columns() const override { return sink_->wants_columns(); }
    void add_rows(int worker, uint64_t rows) override;
    void push(int worker, OutputBatch&& batch) override;
    // No producer gathers more rows than are wanted.
    BatchSize batch_size() const override;

    // Have all of the rows come?
    bool ended_well() const;
    // Fewer have come than are needed: whoever reads the other sink learns nothing of this stage.
    bool keeps_sink_open() const { return all_or_none_ && !ended_well(); }
    uint64_t rows_max() const { return rows_max_; }
    // Begins again, for a stage that takes the place of one that has failed.
    void begin(uint64_t rows_max, bool all_or_none);

  private:
    uint64_t claim(uint64_t rows);
    void delivered(uint64_t rows);

    const std::unique_ptr<BatchSink> sink_;
    JobControl& control_;
    uint64_t rows_max_;
    bool all_or_none_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    uint64_t claimed_ = 0;    // rows that producers have handed over, up to rows_max_
    uint64_t delivered_ = 0;  // those that the other sink has
    uint64_t held_rows_ = 0;  // of all or none: rows, or their batches
    std::vector<OutputBatch> held_;
};

}  // namespace spillway
