// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "device/block_allocator.hpp"

namespace spillway::cuda { inline namespace device {

// How host memory is made so that kernels reach it.
enum class HostPlacement : uint8_t {
    kPinned,  // pinned and mapped for the device
    kPlain,   // as it is: the device walks the host's page tables
};

// What a device says of itself (cudaDevAttrPageableMemoryAccess, ...UsesHostPageTables).
struct HostAccess {
    bool pageable_memory = false;
    bool host_page_tables = false;
};

// Plain memory where the device uses the host's page tables (POWER9 with NVLink 2, Grace): pinning it would cost time
// and gain nothing. Not where it reaches pageable memory in another way (heterogeneous memory management over PCIe):
// there each first touch by a kernel is a fault, and pages move.
constexpr HostPlacement host_placement(const HostAccess& access) {
    return access.pageable_memory && access.host_page_tables ? HostPlacement::kPlain : HostPlacement::kPinned;
}

// Anonymous memory in huge pages, on the NUMA node of the host next to the GPU and touched, so that neither the GPU's
// accesses nor those of a core place it.
class PlainHostMemory {
  public:
    PlainHostMemory() = default;
    PlainHostMemory(uint64_t bytes, int numa_node) noexcept;  // empty: the system has no more
    PlainHostMemory(PlainHostMemory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    PlainHostMemory& operator=(PlainHostMemory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    PlainHostMemory(const PlainHostMemory&) = delete;
    PlainHostMemory& operator=(const PlainHostMemory&) = delete;
    ~PlainHostMemory();

    void* data() const { return data_; }
    uint64_t bytes() const { return bytes_; }
    explicit operator bool() const { return data_ != nullptr; }
    // The memory is the caller's, for unmap_host_memory().
    void* release() noexcept {
        bytes_ = 0;
        return std::exchange(data_, nullptr);
    }

  private:
    void* data_ = nullptr;
    uint64_t bytes_ = 0;
};

// Segments of such memory. Nobody may use a segment any more when it is released: the owner sees to that.
class PlainBacking final : public BlockBacking {
  public:
    explicit PlainBacking(int numa_node) : numa_node_(numa_node) {}
    void* acquire(uint64_t bytes) override;  // nullptr: the system has no more
    void release(void* data, uint64_t bytes) noexcept override;

  private:
    const int numa_node_;
};

}}  // namespace spillway::cuda::device
