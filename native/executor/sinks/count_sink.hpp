// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
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
    void add_rows(int worker, uint64_t rows) override {
        slots_[static_cast<size_t>(worker) % kSlots].rows.fetch_add(rows, std::memory_order_relaxed);
        control_.rows_out.fetch_add(rows, std::memory_order_relaxed);
    }
    void push(int worker, OutputBatch&& batch) override { add_rows(worker, static_cast<uint64_t>(batch.rows)); }
    // Never used to gather rows; small enough that arithmetic on it cannot overflow.
    BatchSize batch_size() const override { return {.rows = 1 << 16}; }

    uint64_t total() const {
        uint64_t total = 0;
        for (const auto& slot : slots_) total += slot.rows.load(std::memory_order_relaxed);
        return total;
    }

  private:
    // One cache line (two, for the adjacent-line prefetcher) per worker, so that counting never bounces a line between
    // cores. Workers beyond the slots share: still right, only slower.
    static constexpr int kSlots = 64;
    struct alignas(128) Slot {
        std::atomic<uint64_t> rows{0};
    };
    JobControl& control_;
    std::array<Slot, kSlots> slots_;
};

}  // namespace spillway
