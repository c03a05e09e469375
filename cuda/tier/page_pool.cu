// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tier/page_pool.hpp"
#include "tier/tier_policy.hpp"

namespace spillway::cuda { inline namespace tier {

namespace {

constexpr char kSlabPurpose[] = "slab of pages";

uint64_t checked_page(uint64_t page_bytes) {
    const bool is_power = (page_bytes & (page_bytes - 1)) == 0;
    if (is_power && page_bytes >= kTierPageBytesMin && page_bytes <= kTierPageBytesMax) return page_bytes;
    throw Error(ErrorCode::kInvalid,
                "pages must be a power of two from 64 KiB to 2 MiB, not " + std::to_string(page_bytes) + " bytes");
}

TierPages limits_of(const PagePoolSpec& spec, const Device* peer) {
    const uint64_t page_bytes = checked_page(spec.page_bytes);
    if (spec.peer_bytes > 0 && peer == nullptr) throw Error(ErrorCode::kInvalid, "there is no peer GPU for pages");
    return {spec.device_bytes / page_bytes, spec.peer_bytes / page_bytes, spec.host_bytes / page_bytes, 0};
}

Error refusal(const PageSource& source, PageTier tier, uint64_t pages, const char* what) {
    const char* const names[] = {"GPU memory", "memory of the peer GPU", "host memory", "the disk"};
    const uint64_t free_pages = source.pages_free(tier);
    const bool limit_reached = pages > free_pages;
    Error error(ErrorCode::kOutOfMemory,
                std::string(what) + ": " + std::to_string(pages) + " pages of " + std::to_string(source.page_bytes()) +
                    " bytes of " + names[index_of(tier)] + " wanted, but " +
                    (limit_reached ? "the limit is reached" : "there is no more memory: " + source.refused()) + "; " +
                    std::to_string(free_pages) + " are left of the limit of " +
                    std::to_string(source.limit_pages(tier)));
    error.tier = tier == PageTier::kHost ? Tier::kHost : Tier::kDevice;
    error.limit_reached = limit_reached;
    error.wanted_bytes = pages * source.page_bytes();
    error.free_bytes = free_pages * source.page_bytes();
    error.limit_bytes = source.limit_pages(tier) * source.page_bytes();
    return error;
}

}  // namespace

PagePool::PagePool(Device& device, const PagePoolSpec& spec, Device* peer)
    : PageSource(spec.page_bytes, limits_of(spec, peer), spec.preference),
      device_(device),
      peer_(spec.peer_bytes > 0 ? peer : nullptr) {
    if (peer_ != nullptr) enable_peer_access(device_, *peer_);
}

PagePool::~PagePool() {
    settle();  // before slabs go to pools that hand them out at once
}

void PagePool::settle() noexcept {
    if (peer_ != nullptr && try_set_device(peer_->ordinal())) discard(cudaDeviceSynchronize());
    if (try_set_device(device_.ordinal())) discard(cudaDeviceSynchronize());
}

PageSource::Slab PagePool::grow(PageTier tier, uint64_t wanted, uint64_t most) {
    const uint64_t slab_bytes = tier == PageTier::kHost ? kHostSlabBytes : kDeviceSlabBytes;
    uint64_t pages = std::min(most, std::max(wanted, slab_bytes / page_bytes()));
    Allocation memory = try_allocate(tier, pages * page_bytes());
    if (!memory && pages > wanted) {
        pages = wanted;
        memory = try_allocate(tier, pages * page_bytes());
    }
    if (!memory) return {};
    auto* const data = memory.as<uint8_t>();
    memory_.emplace(data, std::move(memory));
    return {data, pages};
}

void PagePool::shrink(PageTier, const Slab& slab) noexcept {
    settle();
    memory_.erase(slab.data);
}

// Empty: there is none. Pages of the next tier may do.
Allocation PagePool::try_allocate(PageTier tier, uint64_t bytes) {
    try {
        return allocate(tier, bytes);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kOutOfMemory) throw;
        refused_ = error.what();
        return {};
    }
}

Allocation PagePool::allocate(PageTier tier, uint64_t bytes) {
    if (tier == PageTier::kDisk) return {};
    if (tier == PageTier::kHost) return device_.staging().allocate(bytes, kSlabPurpose);
    if (tier == PageTier::kDevice) return device_.memory().allocate(bytes, kSlabPurpose);
    Allocation memory = peer_->memory().allocate(bytes, kSlabPurpose);
    order_behind_peer(*peer_, device_, device_.stream());
    return memory;
}

void order_behind_peer(Device& peer, Device& device, cudaStream_t later) {
    const cudaStream_t earlier = peer.stream();
    Event joint;
    joint.record(earlier);
    device.make_current();
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(later, joint.get(), 0));
}

void enable_peer_access(Device& device, Device& peer) {
    device.make_current();
    if (peer.ordinal() == device.ordinal()) return;
    int yes = 0;
    SPILLWAY_CUDA_CHECK(cudaDeviceCanAccessPeer(&yes, device.ordinal(), peer.ordinal()));
    if (yes == 0) {
        throw Error(ErrorCode::kInvalid, "GPU " + std::to_string(device.ordinal()) +
                                             " cannot reach the memory of GPU " + std::to_string(peer.ordinal()));
    }
    const cudaError_t status = cudaDeviceEnablePeerAccess(peer.ordinal(), 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
        discard(status);
    } else {
        check(status, "cudaDeviceEnablePeerAccess");
    }
}

void take_pages(PageSource& source, PageTier tier, uint64_t pages, std::vector<Page>& out, const char* what) {
    if (!source.try_take(tier, pages, out)) throw refusal(source, tier, pages, what);
}

PageReservation reserve_pages(PageSource& source, PageTier tier, uint64_t pages, const char* what) {
    PageReservation reservation = source.try_reserve(tier, pages);
    if (!reservation) throw refusal(source, tier, pages, what);
    return reservation;
}

void PageDirectory::update(const PageSource& source) {
    const uint64_t changes = source.changes();  // first: what comes in between is copied now and once more
    if (changes == changes_) return;
    const std::vector<uint8_t*> addresses = source.directory();
    const uint64_t bytes = addresses.size() * sizeof(uint8_t*);
    if (bytes > block_.bytes()) {
        // Doubled, as sources grow slab by slab.
        const uint64_t wanted_bytes = std::max(bytes, 2 * block_.bytes());
        block_ = device_.memory().allocate(wanted_bytes, "directory of pages");
    }
    if (bytes > 0) {
        // From pageable memory: the source is read before the call returns.
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(block_.as<void>(), addresses.data(), bytes, cudaMemcpyHostToDevice, device_.stream()));
    }
    pages_ = addresses.size();
    changes_ = changes;
}

}}  // namespace spillway::cuda::tier
