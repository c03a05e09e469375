// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "base/job_control.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// count(): no column is materialized.
class CountSink final : public BatchSink {
  public:
    explicit CountSink(JobControl& control) : control_(control) {}

    bool wants_columns() const override { return false; }
    // Once per morsel: workers do not meet here often enough for a counter each.
    void add_rows(int, uint64_t rows) override {
        total_.fetch_add(rows, std::memory_order_relaxed);
        control_.rows_out.fetch_add(rows, std::memory_order_relaxed);
    }
    void push(int worker, OutputBatch&& batch) override { add_rows(worker, static_cast<uint64_t>(batch.rows)); }
    // Never used to gather rows; small enough that arithmetic on it cannot overflow.
    BatchSize batch_size() const override { return {.rows = 1 << 16}; }

    uint64_t total() const { return total_.load(std::memory_order_relaxed); }

  private:
    JobControl& control_;
    std::atomic<uint64_t> total_{0};
};

}  // namespace spillway
