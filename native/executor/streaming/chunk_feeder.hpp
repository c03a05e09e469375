// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/job_control.hpp"
#include "device/gpu_stream.hpp"
#include "executor/device_job.hpp"
#include "executor/kept_pinned.hpp"
#include "executor/streaming/chunk_columns.hpp"
#include "executor/streaming/chunk_input.hpp"
#include "memory/memory_budget.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Pinned memory of the chunks of one side after the other.
class ChunkRing {
  public:
    // header_bytes: for the headers of packed values of a chunk; 0: nothing is packed.
    ChunkRing(KeptPinned& pinned, uint64_t slots, uint64_t chunk_bytes, uint64_t header_bytes = 0);
    uint64_t slots() const { return blocks_.size(); }
    uint8_t* data(uint64_t slot) const { return static_cast<uint8_t*>(blocks_[slot].data()); }
    // nullptr: there are none.
    cuda::PackedBlock* headers(uint64_t slot) const {
        return headers_.empty() ? nullptr : static_cast<cuda::PackedBlock*>(headers_[slot].data());
    }

  private:
    PinnedReservation reservation_;
    PinnedReservation headers_reservation_;
    std::vector<PinnedBlock> blocks_;
    std::vector<PinnedBlock> headers_;
};

// Bytes of the headers of a chunk's packed values.
uint64_t chunk_header_bytes(const ChunkColumns& columns, uint64_t chunk_rows);

// The rows of an input as chunks: workers copy slices of its columns into the chunks of a ring, in the order of the
// rows, while the join takes the chunks that are complete. The sources of a stream are read one after the other, so
// that where one ends inside of a byte of a bitmap, nobody else writes to that byte.
class ChunkFeeder final : public GpuChunkSource {
  public:
    // pause: lets other operations use the GPU while this one waits for a stream, whose iterator may run queries.
    ChunkFeeder(const ChunkInput& input, const ChunkColumns& columns, ChunkRing& ring, uint64_t chunk_rows,
                MemoryBudget& budget, JobControl& control, DevicePause pause = nullptr);
    ~ChunkFeeder();

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
        uint64_t rows = 0;  // that are there
        bool has_null = false;
        std::vector<const void*> columns;
        std::vector<const cuda::PackedBlock*> blocks;  // of the key and all columns, where they are packed
    };
    // Rows that a worker copies at a time, all of one source and one chunk.
    struct Slice {
        uint64_t row = 0;  // of all that the input has
        uint64_t rows = 0;
    };
    // A source that is being read.
    struct Part {
        Source* source = nullptr;
        std::optional<ChunkColumns> own_columns;  // of a stream: each source has dictionaries of its own
        uint64_t first_row = 0;
        uint64_t end_row = 0;
        uint64_t read_rows = 0;
    };
    class Reading;
    bool enter();
    void leave() noexcept;
    void end_part() noexcept;
    bool take_part(std::unique_lock<std::mutex>& lock);
    bool take(Slice& slice);
    void read_part();
    class Filling;
    void fill(Filling& filling, const Slice& slice);
    const ChunkColumns& part_columns() const { return part_.own_columns ? *part_.own_columns : columns_; }
    bool at_end() const;
    bool is_ready() const;
    void wait_until_ready(std::unique_lock<std::mutex>& lock);

    const ChunkInput input_;
    const ChunkColumns& columns_;
    ChunkRing& ring_;
    MemoryBudget& budget_;
    JobControl& control_;
    const DevicePause pause_;
    const uint64_t chunk_rows_;
    const bool packs_;

    std::mutex own_mutex_;
    std::condition_variable own_changed_;
    std::mutex& mutex_;  // the stream's, if there is one
    std::condition_variable& changed_;
    std::vector<Slot> slots_;
    Part part_;
    int readers_ = 0;     // workers that read the part
    bool opens_ = false;  // a worker is getting the next part ready
    bool ended_ = false;  // no part follows
    uint64_t next_row_ = 0;
    uint64_t given_ = 0;     // chunks
    uint64_t released_ = 0;  // chunks
};

}  // namespace spillway
