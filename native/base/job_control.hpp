// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/error.hpp"

namespace spillway {

// How long a cancelled job may go unnoticed by those who wait: cancelling only sets a flag, and wakes nobody.
constexpr std::chrono::milliseconds kAbortPoll{50};

// Shared by the JS thread (cancels, reads progress) and the workers of one job (check, count). Workers call check()
// between morsels and co-partitions; it must stay a single relaxed load.
struct JobControl {
    std::atomic<bool> cancelled{false};
    // The stage runs on the event loop's thread: nobody takes batches from a full queue until it has ended.
    std::atomic<bool> runs_on_event_loop{false};
    std::atomic<uint64_t> rows_in{0};          // input rows consumed by the running stage
    std::atomic<uint64_t> bytes_in{0};         // input bytes read by the running stage
    std::atomic<uint64_t> rows_out{0};         // result rows produced
    std::atomic<uint64_t> bytes_out{0};        // result bytes produced
    std::atomic<uint64_t> spilled_bytes{0};    // bytes written to spill files (after packing)
    std::atomic<uint64_t> unspilled_bytes{0};  // bytes read back from spill files
    std::atomic<uint64_t> partitions_done{0};

    void check() const {
        if (cancelled.load(std::memory_order_relaxed)) throw Error(ErrorCode::kAborted, "the job was aborted");
    }
};

}  // namespace spillway
