// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "api/plugin.h"
#include "device/device.hpp"
#include "device/guard.hpp"
#include "device/stream.hpp"
#include "relation/device_table.hpp"
#include "relation/join_tables.hpp"

namespace spillway::cuda { inline namespace plugin {

// A stream of copies, and the end of those of each slot.
struct LaneStream {
    Stream stream;
    std::array<Event, SPILLWAY_CUDA_LANE_SLOTS> copied;
};

}}  // namespace spillway::cuda::plugin

// What the pointers of plugin.h point at.

struct spillway_cuda_gpu {
    spillway_cuda_gpu(int32_t ordinal, uint64_t memory_limit_bytes, uint64_t pinned_limit_bytes)
        : device(ordinal, memory_limit_bytes, pinned_limit_bytes), uploader(device), downloader(device) {}

    spillway::cuda::Device device;
    std::unique_ptr<spillway::cuda::Device> peer;  // whose memory takes spilled rows; nullptr: nobody's
    std::mutex mutex;  // calls of several threads take turns, but for those that plugin.h names
    spillway::cuda::Uploader uploader;
    spillway::cuda::Downloader downloader;
    std::mutex lanes_mutex;
    std::vector<std::unique_ptr<spillway::cuda::LaneStream>> idle_lanes;  // made once: a stream takes the driver long
    std::atomic<int64_t> children{0};    // blocks, tables, transfers and lanes, which point at this
    std::atomic<int64_t> operations{0};  // out of core, which come back for memory between callbacks and calls
};

namespace spillway::cuda { inline namespace plugin {

// Counts a block, table, transfer or lane as long as it exists.
class Child {
  public:
    explicit Child(spillway_cuda_gpu* gpu) : gpu_(gpu) { gpu_->children.fetch_add(1); }
    ~Child() { gpu_->children.fetch_sub(1); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    spillway_cuda_gpu* gpu() const { return gpu_; }

  private:
    spillway_cuda_gpu* gpu_;
};

// Counts an operation out of core as long as it exists.
class OpenOperation {
  public:
    explicit OpenOperation(spillway_cuda_gpu* gpu) : gpu_(gpu) { gpu_->operations.fetch_add(1); }
    ~OpenOperation() { gpu_->operations.fetch_sub(1); }
    OpenOperation(const OpenOperation&) = delete;
    OpenOperation& operator=(const OpenOperation&) = delete;

  private:
    spillway_cuda_gpu* gpu_;
};

}}  // namespace spillway::cuda::plugin

// The child is the first member, so that it is counted until the memory is back in its pool.
struct spillway_cuda_buffer {
    spillway_cuda_buffer(spillway_cuda_gpu* gpu, spillway::cuda::Allocation memory)
        : child(gpu), block(std::move(memory)) {}
    spillway::cuda::Child child;
    spillway::cuda::Allocation block;
};

struct spillway_cuda_pinned {
    spillway_cuda_pinned(spillway_cuda_gpu* gpu, spillway::cuda::PinnedBlock memory)
        : child(gpu), block(std::move(memory)) {}
    spillway::cuda::Child child;
    spillway::cuda::PinnedBlock block;
};

struct spillway_cuda_transfer {
    explicit spillway_cuda_transfer(spillway_cuda_gpu* gpu) : child(gpu) {}
    spillway::cuda::Child child;
    spillway::cuda::Event copied;
};

struct spillway_cuda_lane {
    spillway_cuda_lane(spillway_cuda_gpu* gpu, std::unique_ptr<spillway::cuda::LaneStream> stream)
        : child(gpu), lane(std::move(stream)) {}
    spillway::cuda::Child child;
    std::unique_ptr<spillway::cuda::LaneStream> lane;
};

struct spillway_cuda_table {
    spillway_cuda_table(spillway_cuda_gpu* gpu, spillway::cuda::DeviceTable columns)
        : child(gpu), table(std::move(columns)) {}
    spillway::cuda::Child child;
    spillway::cuda::DeviceTable table;
};

struct spillway_cuda_pieces {
    spillway_cuda_pieces(spillway_cuda_gpu* gpu, const spillway::cuda::DeviceTable& build,
                         const spillway::cuda::DeviceTable& probe, const spillway::cuda::TableJoin& join,
                         spillway::cuda::PoolClaim claim)
        : child(gpu), memory(std::move(claim)), pieces(gpu->device, build, probe, join) {}
    spillway::cuda::Child child;
    spillway::cuda::PoolClaim memory;  // of the largest piece so far, also while its reader waits
    spillway::cuda::JoinPieces pieces;
};

namespace spillway::cuda { inline namespace plugin {

inline void require(bool holds, const char* what) {
    if (!holds) throw Error(ErrorCode::kInvalid, what);
}

// Runs copies in the order that plugin.h promises: after the device's work so far, before its later work. The later
// work waits also when the copies end early (cancelled), as those already enqueued still write.
template <class Queue, class Copy>
spillway_cuda_transfer* start_transfer(spillway_cuda_gpu* gpu, Queue& queue, Copy&& copy) {
    auto transfer = std::make_unique<spillway_cuda_transfer>(gpu);
    const cudaStream_t work = gpu->device.stream();
    queue.follow(work);
    try {
        copy();
    } catch (...) {
        queue.wait();
        throw;
    }
    queue.record(transfer->copied);
    queue.precede(work);
    return transfer.release();
}

// Both take the lock. The memory is a block's or a table's, and stays at least until work given later.
spillway_cuda_transfer* start_upload(spillway_cuda_gpu* gpu, uint8_t* to, const void* from, uint64_t bytes);
spillway_cuda_transfer* start_download(spillway_cuda_gpu* gpu, void* to, const uint8_t* from, uint64_t bytes);

}}  // namespace spillway::cuda::plugin
