// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "device/device.hpp"
#include "tier/page_source.hpp"

namespace spillway::cuda { inline namespace tier {

struct PagePoolSpec {
    uint64_t page_bytes = 0;  // a power of two, 64 KiB - 2 MiB
    // Hard limits, in whole pages. The pools that the memory comes from have limits of their own.
    uint64_t device_bytes = 0;
    uint64_t peer_bytes = 0;
    uint64_t host_bytes = 0;
    std::vector<PageTier> preference{PageTier::kDevice, PageTier::kPeer, PageTier::kHost};
};

// Pages in slabs of Device::memory(), of a peer's memory() and of Device::staging(), whose placement is that of host
// pages. Kernels of the device reach all of them. Addresses are multiples of 512 bytes. Destroying it and trim() wait
// for the devices.
class PagePool final : public PageSource {
  public:
    // The devices must outlive it. Throws kInvalid for a peer that the device cannot reach.
    PagePool(Device& device, const PagePoolSpec& spec, Device* peer = nullptr);
    ~PagePool() override;

  private:
    Slab grow(PageTier tier, uint64_t wanted, uint64_t most) override;
    void shrink(PageTier tier, const Slab& slab) noexcept override;
    Allocation allocate(PageTier tier, uint64_t bytes);
    Allocation try_allocate(PageTier tier, uint64_t bytes);
    void settle() noexcept;

    Device& device_;
    Device* const peer_;
    std::map<const void*, Allocation> memory_;  // by the address of its slab
};

// Lets kernels and copies of `device` reach the memory of `peer`, all that there is and will be: nothing is to do where
// both are of one GPU. Throws kInvalid when they cannot.
void enable_peer_access(Device& device, Device& peer);

// Later work of the device's stream `later` starts after all that is enqueued on the peer's stream now: a block that
// the peer's pool has handed out may be one that it still uses. The device is the current one afterwards.
void order_behind_peer(Device& peer, Device& device, cudaStream_t later);

// try_take() and try_reserve() that throw kOutOfMemory with the tier, what was wanted and what is left of the limit;
// `what` names the purpose.
void take_pages(PageSource& source, PageTier tier, uint64_t pages, std::vector<Page>& out, const char* what);
PageReservation reserve_pages(PageSource& source, PageTier tier, uint64_t pages, const char* what);

// The addresses of a source's pages in GPU memory, by page id: what kernels follow that are given ids. 8 bytes a page:
// 64 GiB in pages of 64 KiB are 8 MiB.
class PageDirectory {
  public:
    explicit PageDirectory(Device& device) : device_(device) {}

    // After pages were taken, before kernels get them: copies the directory if it has changed, in the order of
    // Device::stream(). Kernels on other streams that still use the last one must be ordered behind and before it, as
    // with any block of memory.
    void update(const PageSource& source);

    uint8_t* const* addresses() const { return block_.as<uint8_t*>(); }
    uint64_t pages() const { return pages_; }

  private:
    Device& device_;
    Allocation block_;
    uint64_t pages_ = 0;
    uint64_t changes_ = 0;  // of the source; 0: there are no pages yet
};

}}  // namespace spillway::cuda::tier
