// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "cuda/api/pipe_spec.hpp"
#include "cuda/api/stream_spec.hpp"
#include "device/gpu_device.hpp"

struct spillway_cuda_stream;

namespace spillway {

namespace detail {

template <>
void GpuOwned<spillway_cuda_stream>::reset() noexcept;

}  // namespace detail

// Operators of the GPU on inputs that are larger than its memory, with the sources, sinks and disks of the host.

// Both are called by the thread that runs the operator, and may throw: it ends then, and throws the same.
class GpuChunkSource {
  public:
    virtual ~GpuChunkSource() = default;
    virtual bool next(cuda::Chunk& chunk) = 0;  // false: there are no more
    virtual void release() noexcept = 0;        // the oldest chunk has been read
};

class GpuResultSink {
  public:
    virtual ~GpuResultSink() = default;
    // Pinned memory for each column of the output, and for the blocks of those that the GPU packs, as SinkCalls says.
    virtual void open(uint64_t rows, void** columns, cuda::PackedBlock** blocks) = 0;
    virtual void close() noexcept = 0;  // the rows of the oldest open() are there
};

// Where an operator puts spilled rows that pinned memory has no room for; it must outlive the operator. Threads of the
// plugin call, several at once. write() and read() may throw: the operator ends then, and throws the same.
class GpuSpillDisk {
  public:
    virtual ~GpuSpillDisk() = default;
    // Returns where the bytes are.
    virtual uint64_t write(const void* data, uint64_t bytes) = 0;
    // What begins `offset` bytes into what write() put at `at`.
    virtual void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) = 0;

    // The first exception: the plugin has none of its own.
    void keep(std::exception_ptr thrown) noexcept;
    std::exception_ptr kept() noexcept;

  private:
    std::mutex mutex_;
    std::exception_ptr thrown_;
};

class GpuStream;

// An operator on the way of rows, and which of its inputs they are.
struct GpuStep {
    GpuStream* stream = nullptr;
    int32_t input = 0;
    // How result rows of the step before become chunks of this one; nullptr for the first step.
    const cuda::PipeSpec* pipe = nullptr;
};

// run() for each input, in order, once each: build and probe side of a join, the one input of a group-by. Throws as
// GpuDevice; after an error the operator can only go.
class GpuStream : public detail::GpuOwned<spillway_cuda_stream> {
  public:
    GpuStream() = default;
    // disk: nullptr: there is none.
    static GpuStream begin(GpuDevice& device, const cuda::StagedJoinSpec& spec, GpuSpillDisk* disk = nullptr);
    static GpuStream begin(GpuDevice& device, const cuda::CoherentJoinSpec& spec);
    static GpuStream begin(GpuDevice& device, const cuda::BaselineJoinSpec& spec);
    static GpuStream begin(GpuDevice& device, const cuda::StagedGroupBySpec& spec, GpuSpillDisk* disk = nullptr);

    // sink: nullptr unless rows are wanted.
    cuda::StreamReport run(int input, GpuChunkSource& source, GpuResultSink* sink);
    // Rows of the source go through one operator after the other, in memory of the GPU; the sink has those of the last
    // one. All other inputs of an operator whose rows go on have been read before. Returns a report per step, of all
    // inputs of its operator so far; after an error all of them can only go.
    static std::vector<cuda::StreamReport> run_path(const std::vector<GpuStep>& path, GpuChunkSource& source,
                                                    GpuResultSink* sink);

  private:
    GpuStream(GpuDevice& device, spillway_cuda_stream* handle, GpuSpillDisk* disk);

    GpuSpillDisk* disk_ = nullptr;
};

}  // namespace spillway
