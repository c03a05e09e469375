// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "api/stream_spec.hpp"
#include "tier/page_tier.hpp"

namespace spillway::cuda { inline namespace tier {

// Neighbours of one tier.
struct StripeRun {
    PageTier tier = PageTier::kDevice;
    uint64_t first = 0;
    uint64_t stripes = 0;
};

// Which stripe of an interleaved range lies in which tier: Bresenham's line, so that every stretch of a range uses the
// tiers in the same proportion, whatever its length. Twice: first between memory of GPUs and of the host, then, of the
// stripes of GPUs, between the own one and the peer. So any tier's stripes among the first n are its share of n to
// within two, exact where the weights sum up to n, and GPUs never get more than their share rounded down.
class StripePattern {
  public:
    explicit StripePattern(const StripeShares& shares);  // all zero: a pattern without stripes

    PageTier tier_of(uint64_t stripe) const;
    uint64_t stripes_before(uint64_t stripe, PageTier tier) const;  // of this tier among the first `stripe`
    std::vector<StripeRun> runs(uint64_t stripes) const;            // of the first `stripes`
    bool empty() const { return total_ == 0; }

  private:
    uint64_t gpu_stripes_before(uint64_t stripe) const;
    uint64_t device_stripes_before(uint64_t gpu_stripe) const;

    uint64_t device_;
    uint64_t gpu_;  // device and peer
    uint64_t total_;
};

}}  // namespace spillway::cuda::tier
