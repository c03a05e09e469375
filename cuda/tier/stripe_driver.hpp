// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "device/device.hpp"
#include "tier/stripe_mapping.hpp"

namespace spillway::cuda { inline namespace tier {

// Stripes of a GPU's own memory, of a peer's and of the host's, by the driver's calls for virtual memory. Each counts
// against the limit of the pool that holds the other memory of its tier: Device::memory() of the GPU or of the peer,
// Device::staging() for the host. For one StripePool at a time, whose lock guards it; the devices must outlive it.
class StripeDriver final : public MappingDriver {
  public:
    explicit StripeDriver(Device& device, Device* peer = nullptr);

    uint64_t create(PageTier tier, uint64_t bytes) override;
    void release(PageTier tier, uint64_t handle) noexcept override;
    uint64_t reserve_addresses(uint64_t bytes, uint64_t alignment_bytes) override;
    void free_addresses(uint64_t address, uint64_t bytes) noexcept override;
    void map(uint64_t address, uint64_t bytes, uint64_t handle) override;
    void unmap(uint64_t address, uint64_t bytes) noexcept override;
    void allow_devices(uint64_t address, uint64_t bytes) override;
    void allow_host(uint64_t address, uint64_t bytes) override;
    void settle() noexcept override;

    // Why this tier can have no stripes of that size; empty: it can. For the host the driver's word is not enough: in
    // some containers and virtual machines it says yes and then gives none, so 2 MiB are tried once, for a moment and
    // without counting.
    std::string obstacle(PageTier tier, uint64_t stripe_bytes);

    uint64_t stripes() const { return handles_.size(); }  // created and not released

  private:
    struct Handle {
        PoolReservation share;
        uint64_t bytes = 0;
    };
    BlockPool& pool_of(PageTier tier);
    std::string try_host() const;
    void require(PageTier tier) const;

    Device& device_;
    Device* const peer_;
    const int host_node_;
    std::optional<std::string> host_obstacle_;  // once it is known
    std::unordered_map<uint64_t, Handle> handles_;
};

}}  // namespace spillway::cuda::tier
