// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fake_disk.hpp"
#include "fake_gpu.hpp"

namespace fake {

inline void require(bool holds, const char* what) {
    if (!holds) throw Failure{SPILLWAY_CUDA_INVALID, what};
}

// What an operator takes: pages that stay as long as it does, and memory for chunks, which come and go.
struct OperationMemory {
    OperationMemory() = default;
    OperationMemory(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose)
        : of(gpu), claim(std::make_shared<Claim>(gpu, bytes, purpose)) {
        const ClaimUser user(claim);
        pages = Room(gpu, bytes / 2, purpose);
        chunks = Room(gpu, bytes - bytes / 2, "chunks");
    }
    spillway_cuda_gpu* of = nullptr;
    std::shared_ptr<Claim> claim;
    Room pages;
    Room chunks;
};

// What joins and group-bys of relations larger than GPU memory have in common. Chunks are read when they are released
// and result rows written when they are closed, as late as the real ones may, so that whoever reuses their memory too
// early is found out.
class Stream {
  public:
    Stream(spillway_cuda_gpu* gpu, const StreamSizes& sizes, const DiskCalls* disk, std::vector<uint32_t> output_widths)
        : gpu_(gpu),
          sizes_(sizes),
          disk_(disk, sizes.disk_block_bytes, sizes.disk_blocks),
          output_widths_(std::move(output_widths)),
          pending_(output_widths_.size()) {}
    // The peer has its memory back.
    virtual ~Stream() { gpu_->peer_used_bytes -= peer_bytes_; }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    virtual void run(int input, const SourceCalls& source, const SinkCalls* sink) = 0;
    virtual int inputs() const = 0;
    virtual uint32_t key_bytes() const = 0;
    virtual ColumnWidths widths(int input) const = 0;
    const StreamReport& report() const { return report_; }
    const StreamSizes& sizes() const { return sizes_; }
    const std::vector<uint32_t>& result_widths() const { return output_widths_; }
    // Its next rows come from another operator, or its result rows go to one: they never leave the GPU.
    void pipe(bool in, bool out) {
        piped_in_ = in;
        piped_out_ = out;
    }
    uint64_t chunk_bytes(int input) const { return chunk_bytes_[input]; }

  protected:
    // use(chunk) for each, `asked` is the misbehaviour that may come in between.
    void read(int input, const SourceCalls& source, uint32_t key_bytes, const ColumnWidths& widths, const char* asked,
              const std::function<void(const Chunk&)>& use);
    // A row of so many bytes leaves the GPU. True: for the disk.
    bool spills_to_disk(int input, uint64_t bytes);
    // values: a result row, column by column.
    void give(const std::vector<std::string>& values);
    // All that was given.
    void finish();

    spillway_cuda_gpu* gpu_;
    const StreamSizes sizes_;
    FakeDisk disk_;
    OperationMemory memory_;
    const SinkCalls* sink_ = nullptr;
    StreamReport report_;
    uint64_t chunk_bytes_[2] = {};

  private:
    struct Window {
        uint64_t rows;
        std::vector<void*> columns;
        std::vector<PackedBlock*> blocks;  // nullptr: values of the column are not packed
        std::vector<std::string> values;   // of each column
    };
    // The lock is others' while the caller's code runs, and so is the memory of chunks that have been used.
    template <class Call>
    int32_t call_back(Call call);
    uint64_t unpack(Chunk& chunk, uint32_t key_bytes, const ColumnWidths& widths);
    void flush();
    void close_oldest();

    const std::vector<uint32_t> output_widths_;
    uint64_t peer_bytes_ = 0;           // of spilled rows in the peer's memory
    uint64_t memory_bytes_ = 0;         // of spilled rows in the host's
    std::vector<std::string> pending_;  // result rows, column by column
    uint64_t pending_rows_ = 0;
    std::deque<Window> open_;
    int closed_windows_ = 0;
    std::deque<std::vector<std::vector<uint8_t>>> unpacked_;  // columns of chunks that were taken
    bool piped_in_ = false;
    bool piped_out_ = false;
};

// As cuda/plugin/functions.hpp.
void begin_staged_join(spillway_cuda_gpu* gpu, const StagedJoinSpec* spec, const DiskCalls* disk,
                       spillway_cuda_stream** stream, spillway_cuda_status* status);
void begin_coherent_join(spillway_cuda_gpu* gpu, const CoherentJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status);
void begin_staged_group_by(spillway_cuda_gpu* gpu, const StagedGroupBySpec* spec, const DiskCalls* disk,
                           spillway_cuda_stream** stream, spillway_cuda_status* status);
void begin_baseline_join(spillway_cuda_gpu* gpu, const BaselineJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status);
void run_streams(const spillway_cuda_step* steps, uint64_t step_count, const SourceCalls* source, const SinkCalls* sink,
                 StreamReport* reports, spillway_cuda_status* status);
void free_stream(spillway_cuda_stream* stream);

}  // namespace fake

struct spillway_cuda_stream {
    spillway_cuda_gpu* gpu;
    std::unique_ptr<fake::Stream> work;
    int next_input = 0;
};
