// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "api/pipe_spec.hpp"
#include "memory_model/stream_memory.hpp"
#include "stream/piped_value.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace stream {

// Result rows of one operator on their way into another, in memory of the GPU: the sink of the first and the owner of
// the chunks that the second reads. A kernel makes rows of chunks from result rows, as PipeSpec says; however few rows
// come at a time, all chunks but the last are full. All is enqueued by the thread that runs the first operator, which
// waits for nothing here, and no row leaves the GPU.
class ChunkPipe final : public ResultSink, public ChunkOwner {
  public:
    // from: widths of the result's columns. first, second: sizes of the operator before and behind. Takes
    // StagedJoinMemory::pipe_out_bytes of the first and pipe_in_bytes of the second. Throws kInvalid for what
    // check_pipe() does not let pass.
    ChunkPipe(Device& device, const PipeSpec& spec, const std::vector<uint32_t>& from, const StreamSizes& first,
              const StreamSizes& second);
    // Waits for its kernels. The operators have waited for copies from and to its memory, also when they threw.
    ~ChunkPipe() override;
    ChunkPipe(const ChunkPipe&) = delete;
    ChunkPipe& operator=(const ChunkPipe&) = delete;

    // What comes from now on is an input of that operator, until end(). memory: what the operator takes of the GPU's is
    // of this claim; nullptr: of that which the calling thread uses.
    void begin(StreamOperator& to, int input, ResultSink* sink, const PoolClaim* memory = nullptr);
    void end();

    std::vector<void*> open(uint64_t rows) override;
    void close() override;
    void wait_free(cudaStream_t copies) override;
    void release() override;
    void wait_ready(cudaStream_t copies) override;
    bool is_on_device() const override { return true; }

    uint64_t rows() const { return rows_; }  // that went through

  private:
    struct Window {
        Allocation memory;
        Event projected;  // recorded behind the last kernel that reads it
        uint64_t rows = 0;
    };

    template <class Work>
    void in_claim(const Work& work) const;
    void project(const Window& window, uint64_t first, uint64_t rows);
    void push();
    uint64_t moved_row_bytes() const;

    Device& device_;
    const PipeSpec spec_;
    const std::vector<uint32_t> from_;
    const uint64_t window_rows_;  // of a window at most
    const uint64_t chunk_rows_;
    const ChunkLayout layout_;
    const bool may_lack_keys_;
    // Results that the first operator still writes must not hold up chunks that the second one could have.
    Stream stream_;
    Event joint_;
    std::vector<Window> windows_;  // used in turns, as chunks are
    std::vector<Allocation> chunks_;
    uint64_t opened_ = 0;
    uint64_t closed_ = 0;
    uint64_t filled_ = 0;  // rows of the chunk that comes next
    uint64_t pushed_ = 0;
    uint64_t released_ = 0;
    StreamOperator* to_ = nullptr;
    const PoolClaim* memory_ = nullptr;
    uint64_t rows_ = 0;
};

}}  // namespace spillway::cuda::stream
