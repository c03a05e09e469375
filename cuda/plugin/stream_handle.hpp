// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "api/stream_spec.hpp"
#include "plugin/handles.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace plugin {

// Sources, sinks and disks of the host as operators use them.

// The device's other callers may go on while the host's code runs, which may wait for them: a reader of result rows
// that asks for another query. What they enqueue comes between two calls of the join in the order of one stream.
class Unlocked {
  public:
    explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() { lock_.lock(); }
    Unlocked(const Unlocked&) = delete;

  private:
    std::unique_lock<std::mutex>& lock_;
};

// Whoever called knows why, and does not look at the text.
[[noreturn]] inline void fail_callback() {
    throw Error(ErrorCode::kCancelled, "a source, sink or disk of the caller failed");
}

class CallbackSource final : public ChunkSource {
  public:
    CallbackSource(const SourceCalls& source, std::unique_lock<std::mutex>& lock) : source_(source), lock_(lock) {}

    bool next(Chunk& chunk) override {
        int32_t told = 0;
        {
            const Unlocked waiting(lock_);
            told = source_.next(source_.context, &chunk);
        }
        if (told < 0) fail_callback();
        return told != 0;
    }
    void release() override { source_.release(source_.context); }

  private:
    const SourceCalls source_;
    std::unique_lock<std::mutex>& lock_;
};

class CallbackSink final : public ResultSink {
  public:
    CallbackSink(const SinkCalls& sink, size_t columns, std::unique_lock<std::mutex>& lock)
        : sink_(sink), columns_(columns), lock_(lock) {}

    std::vector<void*> open(uint64_t rows) override {
        std::vector<void*> columns(columns_);
        blocks_.assign(columns_, nullptr);
        int32_t told = 0;
        {
            const Unlocked waiting(lock_);
            told = sink_.open(sink_.context, rows, columns.data(), blocks_.data());
        }
        if (told < 0) fail_callback();
        return columns;
    }
    std::vector<PackedBlock*> packed_blocks() const override { return blocks_; }
    void close() override { sink_.close(sink_.context); }

  private:
    const SinkCalls sink_;
    const size_t columns_;
    std::unique_lock<std::mutex>& lock_;
    std::vector<PackedBlock*> blocks_;  // of the last open()
};

class CallbackDisk final : public SpillDisk {
  public:
    explicit CallbackDisk(const DiskCalls* disk) : disk_(disk == nullptr ? DiskCalls{} : *disk) {}

    SpillDisk* usable() { return disk_.write == nullptr ? nullptr : this; }
    uint64_t write(const void* data, uint64_t bytes) override {
        uint64_t at = 0;
        if (disk_.write(disk_.context, data, bytes, &at) < 0) fail_callback();
        return at;
    }
    void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) override {
        if (disk_.read(disk_.context, at, offset, data, bytes) < 0) fail_callback();
    }

  private:
    const DiskCalls disk_;
};

// What pipes before and behind an operator hold theirs to.
struct StreamShape {
    uint32_t key_bytes = 0;
    ColumnWidths inputs[2];         // widths of the columns beside the key
    bool gives_rows = false;        // else counts or sums, in the report
    std::vector<uint32_t> outputs;  // widths of the result's columns
    StreamSizes sizes;
    bool refuses = false;  // what it calls invalid once it runs is something that it has no implementation for
};

}}  // namespace spillway::cuda::plugin

// The child is the first member, so that it is counted until the memory is back in its pools.
struct spillway_cuda_stream {
    spillway_cuda_stream(spillway_cuda_gpu* gpu, const spillway::cuda::DiskCalls* given,
                         spillway::cuda::PoolClaim claim)
        : child(gpu), open(gpu), disk(given), memory(std::move(claim)) {}
    spillway::cuda::Child child;
    spillway::cuda::OpenOperation open;
    spillway::cuda::CallbackDisk disk;
    spillway::cuda::PoolClaim memory;  // all that it will take: between callbacks it has less
    spillway::cuda::StreamShape shape;
    int next_input = 0;
    std::unique_ptr<spillway::cuda::StreamOperator> work;
};
