// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tier/stripe_pattern.hpp"

// Physical stripes mapped into one range of addresses, without any CUDA, so that order and clean-up of the calls are
// tested on machines without a GPU, with every call failing.

namespace spillway::cuda { inline namespace tier {

// The calls that reserve addresses, create physical memory and map it. What fails throws, and has changed nothing; what
// undoes does not throw.
class MappingDriver {
  public:
    // Physical memory of a tier, counted against the tier's limit until release().
    virtual uint64_t create(PageTier tier, uint64_t bytes) = 0;
    virtual void release(PageTier tier, uint64_t handle) noexcept = 0;

    virtual uint64_t reserve_addresses(uint64_t bytes, uint64_t alignment_bytes) = 0;
    virtual void free_addresses(uint64_t address, uint64_t bytes) noexcept = 0;

    virtual void map(uint64_t address, uint64_t bytes, uint64_t handle) = 0;
    virtual void unmap(uint64_t address, uint64_t bytes) noexcept = 0;

    // Access of all devices, and of the host's cores, to what is mapped there. The host may be allowed host stripes
    // only.
    virtual void allow_devices(uint64_t address, uint64_t bytes) = 0;
    virtual void allow_host(uint64_t address, uint64_t bytes) = 0;

    // Waits until no device uses any mapping.
    virtual void settle() noexcept = 0;

  protected:
    ~MappingDriver() = default;
};

// Physical stripes of one size, kept when they are given back: creating them costs 5-6 GB/s. What is kept counts
// against the limits until trim(). Thread-safe.
class StripePool {
  public:
    StripePool(MappingDriver& driver, uint64_t stripe_bytes) : driver_(driver), stripe_bytes_(stripe_bytes) {}
    ~StripePool() { trim(); }  // all stripes must be back
    StripePool(const StripePool&) = delete;
    StripePool& operator=(const StripePool&) = delete;

    uint64_t take(PageTier tier);
    void give_back(PageTier tier, uint64_t stripe) noexcept;
    void trim() noexcept;  // releases what is kept

    uint64_t stripe_bytes() const { return stripe_bytes_; }
    uint64_t stripes(PageTier tier) const;  // in use and kept
    uint64_t stripes_in_use(PageTier tier) const;

  private:
    struct Stripes {
        std::vector<uint64_t> kept;  // has room for all, so that giving back allocates nothing
        uint64_t in_use = 0;
    };

    MappingDriver& driver_;
    const uint64_t stripe_bytes_;
    mutable std::mutex mutex_;
    std::array<Stripes, kMemoryTiers> tiers_;
};

// Stripes of a pattern behind each other in one range of addresses. When it goes, it waits for the devices, and its
// stripes go back to the pool, which must outlive it.
class StripeMapping {
  public:
    StripeMapping() = default;
    // Maps whole stripes of at least `bytes` together. For 0 bytes the mapping is empty.
    StripeMapping(MappingDriver& driver, StripePool& pool, const StripePattern& pattern, uint64_t bytes);
    StripeMapping(StripeMapping&& other) noexcept;
    StripeMapping& operator=(StripeMapping&& other) noexcept;
    StripeMapping(const StripeMapping&) = delete;
    StripeMapping& operator=(const StripeMapping&) = delete;
    ~StripeMapping() { reset(); }

    uint64_t address() const { return address_; }
    uint64_t bytes() const { return stripes_.size() * stripe_bytes_; }
    uint64_t stripes() const { return stripes_.size(); }
    void reset() noexcept;

  private:
    struct Stripe {
        PageTier tier;
        uint64_t handle;
    };
    void fill(const StripePattern& pattern, uint64_t stripes);
    uint64_t address_of(uint64_t stripe) const { return address_ + stripe * stripe_bytes_; }

    MappingDriver* driver_ = nullptr;
    StripePool* pool_ = nullptr;
    uint64_t stripe_bytes_ = 0;
    uint64_t address_ = 0;
    uint64_t range_bytes_ = 0;     // of the addresses
    std::vector<Stripe> stripes_;  // taken from the pool
    uint64_t mapped_stripes_ = 0;  // the first of them
};

}}  // namespace spillway::cuda::tier
