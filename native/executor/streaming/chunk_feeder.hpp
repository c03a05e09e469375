// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/job_control.hpp"
#include "device/gpu_stream.hpp"
#include "executor/kept_pinned.hpp"
#include "executor/streaming/chunk_columns.hpp"
#include "memory/memory_budget.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Pinned memory of the chunks of one side after the other.
class ChunkRing {
  public:
    ChunkRing(KeptPinned& pinned, uint64_t slots, uint64_t chunk_bytes);
    uint64_t slots() const { return blocks_.size(); }
    uint8_t* data(uint64_t slot) const { return static_cast<uint8_t*>(blocks_[slot].data()); }

  private:
    PinnedReservation reservation_;
    std::vector<PinnedBlock> blocks_;
};

// The rows of a source as chunks: workers copy slices of its columns into the chunks of a ring, in the order of the
// rows, while the join takes the chunks that are complete.
class ChunkFeeder final : public GpuChunkSource {
  public:
    ChunkFeeder(Source& source, const ChunkColumns& columns, ChunkRing& ring, uint64_t chunk_rows, MemoryBudget& budget,
                JobControl& control);

    // More would have nothing to do.
    int workers_max(int workers) const;
    // One worker, until the last slice is in its chunk.
    void work();
    // Those who wait look at the job again: it was cancelled.
    void wake();

    bool next(cuda::Chunk& chunk) override;
    void release() noexcept override;

  private:
    struct Slot {
        uint64_t slices = 0;  // that are there
        bool has_null = false;
        std::vector<const void*> columns;
    };
    uint64_t chunk_end(uint64_t chunk) const;
    uint64_t slices_of(uint64_t chunk) const;
    bool take(uint64_t& slice);
    void fill(SourceReader& reader, RowEncoder* encoder, uint64_t slice);

    Source& source_;
    const ChunkColumns& columns_;
    ChunkRing& ring_;
    MemoryBudget& budget_;
    JobControl& control_;
    const uint64_t rows_;
    const uint64_t chunk_rows_;
    uint64_t slices_per_chunk_ = 1;
    uint64_t chunks_ = 0;
    uint64_t slices_ = 0;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Slot> slots_;
    uint64_t next_slice_ = 0;
    uint64_t given_ = 0;     // chunks
    uint64_t released_ = 0;  // chunks
};

}  // namespace spillway
