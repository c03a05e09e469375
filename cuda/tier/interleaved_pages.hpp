// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tier/interleaved_range.hpp"
#include "tier/page_source.hpp"

namespace spillway::cuda { inline namespace tier {

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
