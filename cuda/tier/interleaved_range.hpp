// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tier/page_source.hpp"
#include "tier/stripe_driver.hpp"
#include "tier/stripe_mapping.hpp"
#include "tier/tier_policy.hpp"

namespace spillway::cuda { inline namespace tier {

// Physical stripes of one size for the interleaved ranges of a GPU, kept between ranges: creating them is dear (see
// StripePool). What is kept counts against the limits of the devices' pools, so trim() when other memory is wanted. One
// thread at a time.
class InterleavedMemory {
  public:
    // stripe_bytes: a power of two, 2-64 MiB. The devices must outlive it.
    explicit InterleavedMemory(Device& device, uint64_t stripe_bytes = kStripeBytes, Device* peer = nullptr);

    // Why ranges of such shares cannot be had on this machine, whatever their size; empty: they can.
    std::string obstacle(const StripeShares& shares);

    uint64_t stripe_bytes() const { return stripes_.stripe_bytes(); }
    const StripePool& stripes() const { return stripes_; }
    void trim() { stripes_.trim(); }

  private:
    friend class InterleavedRange;
    StripeDriver driver_;
    StripePool stripes_;
};

// One contiguous range of addresses over pages of the GPU, of a peer and of the host, in stripes: a kernel that streams
// through it uses HBM and the link at the same time (Lutz et al., "Triton Join", SIGMOD 2022, section 5.3).
//
// Kernels of the device and of the peer read and write all of it. The host's cores reach host stripes alone, and a
// touch of any other one ends the process: they must walk runs(). Copies must go run by run too, as one call cannot
// take memory of several kinds. Destroying it waits for the devices.
class InterleavedRange {
  public:
    InterleavedRange() = default;
    // At least `bytes`, in whole stripes. Throws kOutOfMemory for a limit or a driver without memory, kInvalid for what
    // obstacle() tells.
    InterleavedRange(InterleavedMemory& memory, const StripeShares& shares, uint64_t bytes);

    template <class T = void>
    T* as() const {
        return reinterpret_cast<T*>(mapping_.address());
    }
    uint64_t bytes() const { return mapping_.bytes(); }
    uint64_t stripes() const { return mapping_.stripes(); }
    uint64_t stripe_bytes() const { return stripe_bytes_; }
    PageTier tier_of(uint64_t offset) const { return pattern_.tier_of(offset / stripe_bytes_); }
    uint64_t stripes_of(PageTier tier) const { return pattern_.stripes_before(stripes(), tier); }
    std::vector<StripeRun> runs() const { return pattern_.runs(stripes()); }

  private:
    StripePattern pattern_{StripeShares{}};
    uint64_t stripe_bytes_ = kStripeBytes;
    StripeMapping mapping_;
};

// The pages of an interleaved range: a slab is a stripe, and a tier's limit what the range has of it. All of the memory
// is there from the beginning, so trim() gives back none. Who wants the tiers in turn takes addresses of range().
class InterleavedPages final : public PageSource {
  public:
    // At least `bytes`, in whole stripes. memory must outlive it.
    InterleavedPages(InterleavedMemory& memory, const StripeShares& shares, uint64_t bytes, uint64_t page_bytes,
                     std::vector<PageTier> preference = {PageTier::kDevice, PageTier::kPeer, PageTier::kHost});

    const InterleavedRange& range() const { return range_; }

  private:
    InterleavedPages(InterleavedRange range, uint64_t page_bytes, std::vector<PageTier> preference);
    Slab grow(PageTier tier, uint64_t wanted, uint64_t most) override;
    void shrink(PageTier tier, const Slab& slab) noexcept override;

    InterleavedRange range_;
    std::array<std::vector<uint64_t>, kMemoryTiers> stripes_;  // that are no slab now, the last is the next
};

}}  // namespace spillway::cuda::tier
