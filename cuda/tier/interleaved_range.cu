// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tier/interleaved_range.hpp"

namespace spillway::cuda { inline namespace tier {

namespace {

uint64_t checked_stripe(uint64_t stripe_bytes) {
    const bool is_power = (stripe_bytes & (stripe_bytes - 1)) == 0;
    if (is_power && stripe_bytes >= kStripeBytesMin && stripe_bytes <= kStripeBytesMax) return stripe_bytes;
    throw Error(ErrorCode::kInvalid,
                "stripes must be a power of two from 2 to 64 MiB, not " + std::to_string(stripe_bytes) + " bytes");
}

}  // namespace

InterleavedMemory::InterleavedMemory(Device& device, uint64_t stripe_bytes, Device* peer)
    : driver_(device, peer), stripes_(driver_, checked_stripe(stripe_bytes)) {}

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

namespace {

uint64_t checked(uint64_t page_bytes, uint64_t stripe_bytes) {
    const bool is_power = (page_bytes & (page_bytes - 1)) == 0;
    if (is_power && page_bytes >= kTierPageBytesMin && page_bytes <= stripe_bytes) return page_bytes;
    throw Error(ErrorCode::kInvalid, "pages must be a power of two from 64 KiB to the size of a stripe, not " +
                                         std::to_string(page_bytes) + " bytes");
}

TierPages limits_of(const InterleavedRange& range, uint64_t page_bytes) {
    const uint64_t pages = range.stripe_bytes() / checked(page_bytes, range.stripe_bytes());
    return {range.stripes_of(PageTier::kDevice) * pages, range.stripes_of(PageTier::kPeer) * pages,
            range.stripes_of(PageTier::kHost) * pages, 0};
}

}  // namespace

InterleavedPages::InterleavedPages(InterleavedMemory& memory, const StripeShares& shares, uint64_t bytes,
                                   uint64_t page_bytes, std::vector<PageTier> preference)
    : InterleavedPages(InterleavedRange(memory, shares, bytes), page_bytes, std::move(preference)) {}

InterleavedPages::InterleavedPages(InterleavedRange range, uint64_t page_bytes, std::vector<PageTier> preference)
    : PageSource(page_bytes, limits_of(range, page_bytes), std::move(preference)), range_(std::move(range)) {
    for (size_t tier = 0; tier < kMemoryTiers; ++tier) {
        stripes_[tier].reserve(range_.stripes_of(static_cast<PageTier>(tier)));
    }
    for (uint64_t stripe = range_.stripes(); stripe > 0; --stripe) {
        stripes_[index_of(range_.tier_of((stripe - 1) * range_.stripe_bytes()))].push_back(stripe - 1);
    }
}

PageSource::Slab InterleavedPages::grow(PageTier tier, uint64_t, uint64_t) {
    if (tier == PageTier::kDisk || stripes_[index_of(tier)].empty()) return {};
    std::vector<uint64_t>& stripes = stripes_[index_of(tier)];
    const uint64_t stripe = stripes.back();
    stripes.pop_back();
    return {range_.as<uint8_t>() + stripe * range_.stripe_bytes(), range_.stripe_bytes() / page_bytes()};
}

void InterleavedPages::shrink(PageTier tier, const Slab& slab) noexcept {
    // Has room for all stripes of the tier.
    const auto offset = static_cast<uint64_t>(slab.data - range_.as<uint8_t>());
    stripes_[index_of(tier)].push_back(offset / range_.stripe_bytes());
}

}}  // namespace spillway::cuda::tier
