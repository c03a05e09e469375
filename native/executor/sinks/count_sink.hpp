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
    void add_rows(int worker, uint64_t rows) override;
    void push(int worker, OutputBatch&& batch) override;
    BatchSize batch_size() const override;

    uint64_t total() const;

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
