// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace stream {

// Result rows of one operator on their way into another, in memory of the GPU: the sink of the first and the owner of
// the chunks that the second reads. Each buffer of result rows becomes a chunk, which has no NULL keys: what the key
// column holds where a row has no key counts as one. All is enqueued by the thread that runs the first operator, and no
// row leaves the GPU.
class ChunkPipe final : public ResultSink, public ChunkOwner {
  public:
    // widths: of the columns that come. key: which of them is the key of the chunks; the others follow in order.
    // rows_max: of a buffer: StreamSizes::result_rows of the first operator, no more than chunk_rows of the second.
    // buffers: result_slots of the first and chunk_slots of the second together. Takes so many buffers of GPU memory.
    ChunkPipe(Device& device, const std::vector<uint32_t>& widths, size_t key, uint64_t rows_max, uint32_t buffers);

    // What comes from now on is an input of that operator, until end().
    void begin(StreamOperator& to, int input, ResultSink* sink);
    void end();

    std::vector<void*> open(uint64_t rows) override;
    void close() override;
    void release() override;

    uint64_t rows() const { return rows_; }  // that went through

  private:
    struct Buffer {
        Allocation memory;
        uint64_t rows = 0;
    };

    const size_t key_;
    const uint64_t rows_max_;
    std::vector<uint64_t> offsets_;  // of columns in a buffer
    std::vector<Buffer> buffers_;
    uint64_t opened_ = 0;  // buffers are used in turns: those before are opened, closed, released
    uint64_t closed_ = 0;
    uint64_t released_ = 0;
    StreamOperator* to_ = nullptr;
    uint64_t rows_ = 0;
};

}}  // namespace spillway::cuda::stream
