// SPDX-License-Identifier: Apache-2.0
#include "tier/stripe_mapping.hpp"

#include <stdexcept>
#include <utility>

#include "tier/tier_policy.hpp"

namespace spillway::cuda { inline namespace tier {

uint64_t StripePool::take(PageTier tier) {
    std::lock_guard<std::mutex> lock(mutex_);
    Stripes& stripes = tiers_.at(index_of(tier));
    if (stripes.kept.empty()) {
        if (stripes.kept.capacity() <= stripes.in_use) stripes.kept.reserve(2 * (stripes.in_use + 1));
        stripes.kept.push_back(driver_.create(tier, stripe_bytes_));
    }
    const uint64_t stripe = stripes.kept.back();
    stripes.kept.pop_back();
    ++stripes.in_use;
    return stripe;
}

void StripePool::give_back(PageTier tier, uint64_t stripe) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    Stripes& stripes = tiers_[index_of(tier)];
    stripes.kept.push_back(stripe);
    --stripes.in_use;
}

void StripePool::trim() noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t tier = 0; tier < kMemoryTiers; ++tier) {
        for (const uint64_t stripe : tiers_[tier].kept) driver_.release(static_cast<PageTier>(tier), stripe);
        tiers_[tier].kept.clear();  // keeps its room
    }
}

uint64_t StripePool::stripes(PageTier tier) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const Stripes& stripes = tiers_.at(index_of(tier));
    return stripes.in_use + stripes.kept.size();
}

uint64_t StripePool::stripes_in_use(PageTier tier) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return tiers_.at(index_of(tier)).in_use;
}

StripeMapping::StripeMapping(MappingDriver& driver, StripePool& pool, const StripePattern& pattern, uint64_t bytes)
    : driver_(&driver), pool_(&pool), stripe_bytes_(pool.stripe_bytes()) {
    if (bytes == 0) return;
    if (pattern.empty()) throw std::invalid_argument("a range of a pattern without any tier has no stripes");
    const uint64_t stripes = bytes / stripe_bytes_ + (bytes % stripe_bytes_ == 0 ? 0 : 1);
    try {
        fill(pattern, stripes);
    } catch (...) {
        reset();
        throw;
    }
}

void StripeMapping::fill(const StripePattern& pattern, uint64_t stripes) {
    stripes_.reserve(stripes);
    // Memory before addresses: a limit that is too small shows before anything is mapped.
    for (uint64_t stripe = 0; stripe < stripes; ++stripe) {
        const PageTier tier = pattern.tier_of(stripe);
        stripes_.push_back({tier, pool_->take(tier)});
    }
    address_ = driver_->reserve_addresses(stripes * stripe_bytes_, kStripeBytesMin);
    range_bytes_ = stripes * stripe_bytes_;
    for (const Stripe& stripe : stripes_) {
        driver_->map(address_of(mapped_stripes_), stripe_bytes_, stripe.handle);
        ++mapped_stripes_;
    }
    driver_->allow_devices(address_, range_bytes_);
    for (const StripeRun& run : pattern.runs(stripes)) {
        if (run.tier != PageTier::kHost) continue;
        driver_->allow_host(address_of(run.first), run.stripes * stripe_bytes_);
    }
}

StripeMapping::StripeMapping(StripeMapping&& other) noexcept {
    *this = std::move(other);
}

StripeMapping& StripeMapping::operator=(StripeMapping&& other) noexcept {
    if (this == &other) return *this;
    reset();
    driver_ = other.driver_;
    pool_ = other.pool_;
    stripe_bytes_ = other.stripe_bytes_;
    address_ = std::exchange(other.address_, 0);
    range_bytes_ = std::exchange(other.range_bytes_, 0);
    stripes_ = std::move(other.stripes_);
    other.stripes_.clear();
    mapped_stripes_ = std::exchange(other.mapped_stripes_, 0);
    return *this;
}

void StripeMapping::reset() noexcept {
    if (mapped_stripes_ > 0) driver_->settle();
    while (mapped_stripes_ > 0) driver_->unmap(address_of(--mapped_stripes_), stripe_bytes_);
    if (range_bytes_ > 0) driver_->free_addresses(address_, range_bytes_);
    address_ = range_bytes_ = 0;
    for (const Stripe& stripe : stripes_) pool_->give_back(stripe.tier, stripe.handle);
    stripes_.clear();
}

}}  // namespace spillway::cuda::tier
