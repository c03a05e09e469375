// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "device/gpu_plugin.hpp"

struct spillway_cuda_buffer;
struct spillway_cuda_gpu;
struct spillway_cuda_pinned;
struct spillway_cuda_transfer;

namespace spillway {

class GpuDevice;

namespace detail {

// The plugin's device; closed when the last block, transfer and GpuDevice of it has gone.
struct OpenGpu {
    OpenGpu(const GpuPlugin& plugin, int ordinal, uint64_t memory_limit_bytes, uint64_t pinned_limit_bytes);
    ~OpenGpu();
    OpenGpu(const OpenGpu&) = delete;
    OpenGpu& operator=(const OpenGpu&) = delete;

    const spillway_cuda_functions& functions;
    const int ordinal;
    spillway_cuda_gpu* gpu = nullptr;
};

// A block or transfer of the plugin with what it belongs to; moves leave an empty one.
template <class Handle>
class GpuOwned {
  public:
    GpuOwned() = default;
    GpuOwned(std::shared_ptr<OpenGpu> open, Handle* handle) : open_(std::move(open)), handle_(handle) {}
    GpuOwned(GpuOwned&& other) noexcept : open_(std::move(other.open_)), handle_(std::exchange(other.handle_, {})) {}
    GpuOwned& operator=(GpuOwned&& other) noexcept {
        if (this == &other) return *this;
        reset();
        open_ = std::move(other.open_);
        handle_ = std::exchange(other.handle_, nullptr);
        return *this;
    }
    GpuOwned(const GpuOwned&) = delete;
    GpuOwned& operator=(const GpuOwned&) = delete;
    ~GpuOwned() { reset(); }

    explicit operator bool() const { return handle_ != nullptr; }
    void reset() noexcept;

  protected:
    friend class ::spillway::GpuDevice;
    std::shared_ptr<OpenGpu> open_;
    Handle* handle_ = nullptr;
};

template <>
void GpuOwned<spillway_cuda_buffer>::reset() noexcept;
template <>
void GpuOwned<spillway_cuda_pinned>::reset() noexcept;
template <>
void GpuOwned<spillway_cuda_transfer>::reset() noexcept;

}  // namespace detail

// A block of GPU memory.
class GpuBuffer : public detail::GpuOwned<spillway_cuda_buffer> {
  public:
    GpuBuffer() = default;
    uint64_t bytes() const { return bytes_; }
    uint64_t address() const { return address_; }  // means something on the device only

  private:
    friend class GpuDevice;
    using GpuOwned::GpuOwned;
    uint64_t bytes_ = 0;
    uint64_t address_ = 0;
};

// A block of pinned host memory, from and to which a GPU copies without the CPU; of plain memory near the GPU where it
// uses the host's page tables.
class PinnedBlock : public detail::GpuOwned<spillway_cuda_pinned> {
  public:
    PinnedBlock() = default;
    uint64_t bytes() const { return bytes_; }
    void* data() const { return data_; }

  private:
    friend class GpuDevice;
    using GpuOwned::GpuOwned;
    uint64_t bytes_ = 0;
    void* data_ = nullptr;
};

// A copy under way. Going away waits for it, so that the host memory may go next.
class GpuTransfer : public detail::GpuOwned<spillway_cuda_transfer> {
  public:
    GpuTransfer() = default;
    void wait();  // throws what went wrong; nothing when waited for before

  private:
    friend class GpuDevice;
    using GpuOwned::GpuOwned;
};

// Memory of another GPU, and how fast copies were when it was opened; 0 where it was too little to tell.
struct GpuPeer {
    uint64_t memory_bytes = 0;  // 0: there is no such GPU
    double read_bytes_per_ms = 0;
    double write_bytes_per_ms = 0;
};

struct GpuMemory {
    uint64_t used_bytes = 0;
    uint64_t peak_bytes = 0;
    uint64_t limit_bytes = 0;
    uint64_t free_bytes = 0;      // within the limit, and what the driver has now
    uint64_t reserved_bytes = 0;  // taken from the driver: used and cached
    uint64_t pinned_used_bytes = 0;
    uint64_t pinned_peak_bytes = 0;
    uint64_t pinned_limit_bytes = 0;
    uint64_t pinned_reserved_bytes = 0;
};

// A GPU opened for work. Everything throws spillway::Error. Out of memory:
//   kBudgetTooSmall  the limit is reached: tier "device", wantedBytes, freeBytes, limitBytes, option "memory.device"
//   kOutOfMemory     the driver has less than the limit allows; the same details
// and tier "host", option "memory.host" for pinned memory. A GPU that a failed kernel or a hardware error took from
// this process: kNoDevice from then on. Thread-safe; copies and synchronize() take turns.
class GpuDevice {
  public:
    // After a trial in a child process, whose result is remembered for each ordinal; kNoDevice with the reason when
    // that fails or there is no such GPU. memory_limit_bytes 0: all that is free, less a reserve for the driver. The
    // caller has reserved pinned_limit_bytes of host memory.
    static GpuDevice open(int ordinal, uint64_t memory_limit_bytes, uint64_t pinned_limit_bytes);

    // Without a trial.
    GpuDevice(const GpuPlugin& plugin, int ordinal, uint64_t memory_limit_bytes, uint64_t pinned_limit_bytes);

    // Memory of another GPU for spilled rows of operators that begin afterwards, up to this limit. peer_ordinal -1: the
    // first that this one reaches. Once.
    GpuPeer open_peer(int peer_ordinal, uint64_t memory_limit_bytes);

    int ordinal() const { return open_->ordinal; }
    GpuMemory memory() const;
    void reset_peak();
    void trim();  // gives what no block uses back to driver and system
    // From any thread: running and later work ends with kAborted until the flag is taken back.
    void set_cancelled(bool cancelled) noexcept;
    void synchronize();

    // `purpose` is named when it fails. Contents are whatever the last owner left.
    GpuBuffer allocate(uint64_t bytes, const char* purpose);
    PinnedBlock allocate_pinned(uint64_t bytes, const char* purpose);

    // After the device's work so far, before its later work. Pinned host memory must stay until wait(); with pageable
    // memory the copy is over when the call returns (upload: its source has been read).
    GpuTransfer upload(GpuBuffer& to, uint64_t offset_bytes, const void* from, uint64_t bytes);
    GpuTransfer download(void* to, const GpuBuffer& from, uint64_t offset_bytes, uint64_t bytes);

    // For calls of operations: the plugin's table and its device.
    const spillway_cuda_functions& functions() const { return open_->functions; }
    spillway_cuda_gpu* handle() const { return open_->gpu; }
    const std::shared_ptr<detail::OpenGpu>& shared() const { return open_; }

  private:
    std::shared_ptr<detail::OpenGpu> open_;
};

}  // namespace spillway
