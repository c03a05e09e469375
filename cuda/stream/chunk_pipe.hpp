// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/pipe_spec.hpp"
#include "memory_model/stream_memory.hpp"
#include "stream/piped_value.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace stream {

// Result rows of one operator on their way into another, in memory of the GPU: the sink of the first and the owner of
// the chunks that the second reads. A kernel makes rows of chunks from result rows, as PipeSpec says; however few rows
// come at a time, all chunks but the last are full. All is enqueued on the device's stream by the thread that runs the
// first operator, so that one buffer serves all chunks, and no row leaves the GPU.
class ChunkPipe final : public ResultSink, public ChunkOwner {
  public:
    // from: widths of the result's columns. chunk_rows: of the operator behind. Takes chunk_bytes of that one
    // (memory_model/staged_memory.hpp). Throws kInvalid for what check_pipe() does not let pass.
    ChunkPipe(Device& device, const PipeSpec& spec, const std::vector<uint32_t>& from, uint64_t chunk_rows);
    ChunkPipe(const ChunkPipe&) = delete;
    ChunkPipe& operator=(const ChunkPipe&) = delete;

    // What comes from now on is an input of that operator, until end(). memory: what the operator takes of the GPU's is
    // of this claim; nullptr: of that which the calling thread uses.
    void begin(StreamOperator& to, int input, ResultSink* sink, const PoolClaim* memory = nullptr);
    void end();

    // No one opens it: rows are taken where they are.
    std::vector<void*> open(uint64_t rows) override;
    void close() override;
    bool is_on_device() const override { return true; }
    void take(const std::vector<const void*>& columns, uint64_t rows) override;
    const std::vector<SumPart>* sum_parts() const override { return sum_parts_ ? &*sum_parts_ : nullptr; }
    void take_sums(uint64_t rows, const std::vector<ExactSum>& sums) override;

    uint64_t rows() const { return rows_; }  // that went through

  private:
    std::optional<std::vector<SumPart>> parts_of_sums(const StreamOperator& to) const;
    template <class Work>
    void in_claim(const Work& work) const;
    void project(const std::vector<const void*>& columns, uint64_t first, uint64_t rows);
    void push();
    uint64_t moved_row_bytes() const;

    Device& device_;
    const PipeSpec spec_;
    const std::vector<uint32_t> from_;
    const uint64_t chunk_rows_;
    const ChunkLayout layout_;
    const bool may_lack_keys_;
    const Allocation chunk_;
    uint64_t filled_ = 0;  // rows of the chunk that comes next
    StreamOperator* to_ = nullptr;
    const PoolClaim* memory_ = nullptr;
    std::optional<std::vector<SumPart>> sum_parts_;  // of the operator that is given rows now
    uint64_t rows_ = 0;
};

}}  // namespace spillway::cuda::stream
