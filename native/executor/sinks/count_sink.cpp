// SPDX-License-Identifier: Apache-2.0
#include "executor/sinks/count_sink.hpp"

namespace spillway {

void CountSink::add_rows(int worker, uint64_t rows) {
    slots_[static_cast<size_t>(worker) % kSlots].rows.fetch_add(rows, std::memory_order_relaxed);
    control_.rows_out.fetch_add(rows, std::memory_order_relaxed);
}

void CountSink::push(int worker, OutputBatch&& batch) {
    add_rows(worker, static_cast<uint64_t>(batch.rows));
}

BatchSize CountSink::batch_size() const {
    return {.rows = 1 << 16};  // never used to gather rows; small enough that arithmetic on it cannot overflow
}

uint64_t CountSink::total() const {
    uint64_t total = 0;
    for (const auto& slot : slots_) total += slot.rows.load(std::memory_order_relaxed);
    return total;
}

}  // namespace spillway
