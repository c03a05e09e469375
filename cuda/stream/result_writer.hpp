// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "device/device.hpp"
#include "stream/result_columns.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace stream {

// Result rows on their way out: kernels write a window of them into a buffer in device memory, a copy engine brings it
// to the sink's memory while the next is written.
class ResultWriter {
  public:
    // columns: of the result, without data. Takes slots * rows rows of device memory. stream: that copies go to, behind
    // what is there, and that outlives this; nullptr: one of its own.
    ResultWriter(Device& device, const ResultWindow& columns, uint32_t slots, uint64_t rows,
                 cudaStream_t stream = nullptr);
    // Waits for the copies.
    ~ResultWriter();
    ResultWriter(const ResultWriter&) = delete;
    ResultWriter& operator=(const ResultWriter&) = delete;

    void set_sink(ResultSink* sink) { sink_ = sink; }
    // write(window) enqueues the kernel for rows [window.first, window.first + window.rows) of `total` on the device's
    // stream, as often as buffers take to hold them.
    void write(uint64_t total, const std::function<void(const ResultWindow&)>& write);
    // Until all rows have been delivered.
    void finish();
    uint64_t copied_bytes() const { return copied_bytes_; }

  private:
    struct Slot {
        Allocation memory;
        Event written;
        Event copied;
        bool used = false;
    };
    void close_copied(size_t keep);

    Device& device_;
    const ResultWindow columns_;
    const uint64_t rows_;
    ResultSink* sink_ = nullptr;
    Stream own_;  // unused where a stream was given
    const cudaStream_t stream_;
    std::vector<Slot> slots_;
    size_t next_ = 0;
    std::deque<size_t> open_;  // slots whose rows have not been delivered, oldest first
    uint64_t copied_bytes_ = 0;
};

}}  // namespace spillway::cuda::stream
