// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "api/stream_spec.hpp"
#include "device/device.hpp"
#include "radix_partition/row_layout.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace stream {

struct ResultColumn {
    void* data = nullptr;  // of the window's first row
    uint16_t width = 0;
    uint8_t side = 0;    // OutputSide
    uint8_t offset = 0;  // in the row of that side, in bytes
};

// Columns of a result that kernels write, and which of its rows: those at [first, first + rows).
struct ResultWindow {
    uint64_t first = 0;
    uint64_t rows = 0;
    int32_t columns = 0;
    uint32_t key_bytes = 8;
    ResultColumn column[kResultColumnsMax];

    // The columns of a join's result. Throws kInvalid for columns that do not exist, or cannot be summed.
    static ResultWindow make(const StagedJoinSpec& spec, const RowLayout& build, const RowLayout& probe);
    std::vector<uint32_t> widths() const;
    uint64_t row_bytes() const;
};

// Result rows on their way out: kernels write a window of them into a buffer in device memory, copy engines, or a
// kernel that packs values, bring it to the sink's memory while the next is written. A sink on the GPU takes them from
// the first of the buffers.
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
    bool has_sink() const { return sink_ != nullptr; }
    // write(window) enqueues the kernel for rows [window.first, window.first + window.rows) of `total` on the device's
    // stream, as often as buffers take to hold them.
    void write(uint64_t total, const std::function<void(const ResultWindow&)>& write);
    // Until all rows have been delivered.
    void finish();
    uint64_t copied_bytes() const { return copied_bytes_; }  // of values as they are

  private:
    struct Slot {
        Allocation memory;
        Event written;
        Event copied;
        bool used = false;
    };
    void close_copied(size_t keep);
    ResultWindow window_of(const Slot& slot, uint64_t first, uint64_t total) const;
    void copy_out(Slot& slot, const ResultWindow& window);
    void hand_over(const ResultWindow& window);

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
