// SPDX-License-Identifier: Apache-2.0
#include "tier/stripe_pattern.hpp"

namespace spillway::cuda { inline namespace tier {

namespace {

__extension__ using Product = unsigned __int128;

// floor(count * part / whole)
uint64_t part_of(uint64_t count, uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : static_cast<uint64_t>(static_cast<Product>(count) * part / whole);
}

}  // namespace

StripePattern::StripePattern(const StripeShares& shares)
    : device_(shares.device), gpu_(device_ + shares.peer), total_(gpu_ + shares.host) {}

uint64_t StripePattern::gpu_stripes_before(uint64_t stripe) const {
    return part_of(stripe, gpu_, total_);
}

uint64_t StripePattern::device_stripes_before(uint64_t gpu_stripe) const {
    return part_of(gpu_stripe, device_, gpu_);
}

uint64_t StripePattern::stripes_before(uint64_t stripe, PageTier tier) const {
    const uint64_t gpu = gpu_stripes_before(stripe);
    const uint64_t device = device_stripes_before(gpu);
    switch (tier) {
        case PageTier::kDevice:
            return device;
        case PageTier::kPeer:
            return gpu - device;
        case PageTier::kHost:
            return empty() ? 0 : stripe - gpu;
        case PageTier::kDisk:
            break;
    }
    return 0;
}

PageTier StripePattern::tier_of(uint64_t stripe) const {
    const uint64_t before = gpu_stripes_before(stripe);
    if (gpu_stripes_before(stripe + 1) == before) return PageTier::kHost;
    return device_stripes_before(before + 1) == device_stripes_before(before) ? PageTier::kPeer : PageTier::kDevice;
}

std::vector<StripeRun> StripePattern::runs(uint64_t stripes) const {
    std::vector<StripeRun> all;
    if (empty()) return all;
    for (uint64_t stripe = 0; stripe < stripes; ++stripe) {
        const PageTier tier = tier_of(stripe);
        if (all.empty() || all.back().tier != tier) all.push_back({tier, stripe, 0});
        ++all.back().stripes;
    }
    return all;
}

}}  // namespace spillway::cuda::tier
