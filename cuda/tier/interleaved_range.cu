// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tier/interleaved_range.hpp"

namespace spillway::cuda { inline namespace tier {

namespace {

uint64_t checked(uint64_t stripe_bytes) {
    const bool is_power = (stripe_bytes & (stripe_bytes - 1)) == 0;
    if (is_power && stripe_bytes >= kStripeBytesMin && stripe_bytes <= kStripeBytesMax) return stripe_bytes;
    throw Error(ErrorCode::kInvalid,
                "stripes must be a power of two from 2 to 64 MiB, not " + std::to_string(stripe_bytes) + " bytes");
}

}  // namespace

InterleavedMemory::InterleavedMemory(Device& device, uint64_t stripe_bytes, Device* peer)
    : driver_(device, peer), stripes_(driver_, checked(stripe_bytes)) {}

std::string InterleavedMemory::obstacle(const StripeShares& shares) {
    const std::pair<PageTier, uint32_t> tiers[] = {
        {PageTier::kDevice, shares.device}, {PageTier::kPeer, shares.peer}, {PageTier::kHost, shares.host}};
    bool any = false;
    for (const auto& [tier, share] : tiers) {
        if (share == 0) continue;
        any = true;
        const std::string found = driver_.obstacle(tier, stripe_bytes());
        if (!found.empty()) return found;
    }
    return any ? "" : "no tier has a share";
}

InterleavedRange::InterleavedRange(InterleavedMemory& memory, const StripeShares& shares, uint64_t bytes)
    : pattern_(shares), stripe_bytes_(memory.stripe_bytes()) {
    const std::string obstacle = memory.obstacle(shares);
    if (!obstacle.empty()) throw Error(ErrorCode::kInvalid, "memory cannot be interleaved: " + obstacle);
    mapping_ = StripeMapping(memory.driver_, memory.stripes_, pattern_, bytes);
}

}}  // namespace spillway::cuda::tier
