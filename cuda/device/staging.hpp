// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include "device/device_policy.hpp"
#include "device/memory_pool.hpp"
#include "device/plain_host_memory.hpp"
#include "device/stream.hpp"

namespace spillway::cuda { inline namespace device {

class Device;

// Segments of host memory that every device of the process can reach, its kernels too, at the address that the host
// uses. Where the placement is the plain one they are nothing but memory near the device. Else they are pinned: large
// ones are mapped, touched by several threads and registered, which takes a fifth of the time of cudaHostAlloc; that is
// left for small ones and for systems that refuse registering. Not thread-safe: the pool is.
class HostBacking : public BlockBacking {
  public:
    HostBacking(int ordinal, HostPlacement placement);
    void* acquire(uint64_t bytes) override;
    void settle() noexcept override;  // waits for the device
    void release(void* data, uint64_t bytes) noexcept override;

    HostPlacement placement() const { return placement_; }

  private:
    void* acquire_pinned(uint64_t bytes);
    void* acquire_registered(uint64_t bytes);
    void release_pinned(void* data, uint64_t bytes) noexcept;

    const int ordinal_;
    const HostPlacement placement_;
    PlainBacking plain_;
    bool lost_ = false;                 // the device, which may still reach what it has been given
    std::set<const void*> registered_;  // segments of acquire_registered()
};

// A block of a StagingPool is pinned, or plain memory where the device uses the host's page tables.
using PinnedBlock = Allocation;

// Host memory for the device up to a hard limit. Pinning and first touch cost far more than use, so blocks are kept
// until trim(). Whoever opened the device reserves the limit from its own budget of host memory.
// Hazard: a block is reused as soon as it goes, so the host must have waited for the copies from and to it.
class StagingPool final : private HostBacking, public BlockPool {
  public:
    // placement: for tests; otherwise what the device asks for.
    StagingPool(int ordinal, uint64_t limit_bytes, std::optional<HostPlacement> placement = std::nullopt);

    using HostBacking::placement;

  private:
    uint64_t backing_free_bytes() const override;  // what is left of the limit: the system tells no more
};

// Copies bytes within host memory; the caller may bring one that uses several threads, as one core copies at about a
// fifth of the speed of PCIe 5.
using HostCopy = std::function<void(void* to, const void* from, uint64_t bytes)>;

// What Uploader and Downloader share: a copy stream, two pinned slots (allocated when pageable memory first needs
// them), and the order towards other streams. A queue orders its copies among themselves and nothing else:
//   follow(s)  later copies start after all that is enqueued on s now (also: before writing into a new Allocation)
//   precede(s) later work on s starts after all copies enqueued so far (also: before an Allocation goes)
// One thread at a time.
class CopyQueue {
  public:
    CopyQueue(const CopyQueue&) = delete;
    CopyQueue& operator=(const CopyQueue&) = delete;

    cudaStream_t stream() const { return stream_.get(); }
    void follow(cudaStream_t stream);
    void precede(cudaStream_t stream);
    void record(Event& event);  // behind the copies enqueued so far
    void wait();                // until all copies are done

  protected:
    struct Slot {
        PinnedBlock block;
        Event copied;  // the link has read or written the block
    };

    CopyQueue(Device& device, uint64_t chunk_bytes, HostCopy copy);
    ~CopyQueue();

    void begin();  // of every call: the device current, not lost, not cancelled
    void prepare_slots();
    uint64_t chunk_at(uint64_t offset, uint64_t bytes) const;
    void enqueue(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind);

    Device& device_;
    const uint64_t chunk_bytes_;
    const HostCopy copy_;
    Stream stream_;
    Event joint_;
    std::array<Slot, kStagingSlots> slots_;
};

class Uploader : public CopyQueue {
  public:
    explicit Uploader(Device& device, uint64_t chunk_bytes = kStagingChunkBytes, HostCopy copy = {});

    // From pageable memory, in chunks: one is copied into a pinned slot while the one before is on the link. Returns
    // when the source has been read; the last chunks may still be on their way. Ends with kCancelled between chunks.
    void upload(void* device_to, const void* host_from, uint64_t bytes);
    // Enqueues only: the source must stay until wait().
    void upload_pinned(void* device_to, const void* pinned_from, uint64_t bytes);

  private:
    size_t next_ = 0;
};

class Downloader : public CopyQueue {
  public:
    explicit Downloader(Device& device, uint64_t chunk_bytes = kStagingChunkBytes, HostCopy copy = {});

    // Into pageable memory, in chunks: one is copied out of its slot while the next is on the link. Returns when all
    // bytes are there.
    void download(void* host_to, const void* device_from, uint64_t bytes);
    // Enqueues only: the bytes are there after wait().
    void download_pinned(void* pinned_to, const void* device_from, uint64_t bytes);
};

// Whether the device can copy from and to all of it directly: pinned by any CUDA runtime call of this process.
bool is_pinned(const void* data, uint64_t bytes);

}}  // namespace spillway::cuda::device
