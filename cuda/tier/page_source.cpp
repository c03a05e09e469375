// SPDX-License-Identifier: Apache-2.0
#include "tier/page_source.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

namespace spillway::cuda { inline namespace tier {

PageReservation::PageReservation(PageReservation&& other) noexcept
    : source_(std::exchange(other.source_, nullptr)), tier_(other.tier_), pages_(std::exchange(other.pages_, 0)) {}

PageReservation& PageReservation::operator=(PageReservation&& other) noexcept {
    if (this != &other) {
        reset();
        source_ = std::exchange(other.source_, nullptr);
        tier_ = other.tier_;
        pages_ = std::exchange(other.pages_, 0);
    }
    return *this;
}

bool PageReservation::take(uint64_t pages, std::vector<Page>& out) {
    if (pages > pages_) return false;
    if (pages == 0) return true;
    source_->take_reserved(tier_, pages, out);
    pages_ -= pages;
    return true;
}

void PageReservation::reset() noexcept {
    if (source_ != nullptr) source_->unreserve(tier_, pages_);
    source_ = nullptr;
    pages_ = 0;
}

PageSource::PageSource(uint64_t page_bytes, const TierPages& limit_pages, std::vector<PageTier> preference)
    : page_bytes_(page_bytes), limit_pages_(limit_pages), preference_(std::move(preference)) {
    if (page_bytes == 0 || (page_bytes & (page_bytes - 1)) != 0) {
        throw std::invalid_argument("the size of pages must be a power of two");
    }
    if (limit_pages_[index_of(PageTier::kDisk)] != 0) throw std::invalid_argument("pages on disk are not memory");
    for (size_t i = 0; i < preference_.size(); ++i) {
        const auto end = preference_.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::find(preference_.begin(), end, preference_[i]) != end) {
            throw std::invalid_argument("a tier is preferred twice");
        }
    }
}

bool PageSource::try_take(PageTier tier, uint64_t pages, std::vector<Page>& out) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!ensure_free(tier, pages)) return false;
    take_free(tier, pages, out);
    return true;
}

bool PageSource::try_take(uint64_t pages, std::vector<Page>& out) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::pair<PageTier, uint64_t>> shares;
    uint64_t missing = pages;
    uint64_t left = 0;
    for (const PageTier tier : preference_) left += left_of_limit(tier);
    if (pages > left) return false;  // before any memory is taken for it
    for (const PageTier tier : preference_) {
        uint64_t share = std::min(missing, left_of_limit(tier));
        // Where the limit promises more than the memory has, what did come is there.
        if (!ensure_free(tier, share)) share = std::min(share, state(tier).free.size() - state(tier).reserved);
        shares.emplace_back(tier, share);
        missing -= share;
    }
    if (missing > 0) return false;
    out.reserve(out.size() + pages);
    for (const auto& [tier, share] : shares) take_free(tier, share, out);
    return true;
}

PageReservation PageSource::try_reserve(PageTier tier, uint64_t pages) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!ensure_free(tier, pages)) return {};
    state(tier).reserved += pages;
    return PageReservation(this, tier, pages);
}

void PageSource::give_back(const Page& page) {
    std::lock_guard<std::mutex> lock(mutex_);
    put_back(page);
}

void PageSource::give_back(const std::vector<Page>& pages) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Page& page : pages) put_back(page);
}

// Memory for so many pages more than are reserved. What came stays when the rest does not.
bool PageSource::ensure_free(PageTier tier, uint64_t pages) {
    if (pages > left_of_limit(tier)) return false;
    TierState& found = state(tier);
    while (found.free.size() - found.reserved < pages) {
        const uint64_t missing = pages - (found.free.size() - found.reserved);
        const Slab slab = grow(tier, missing, limit_pages(tier) - found.pages);
        if (slab.data == nullptr) return false;
        try {
            add_slab(tier, slab);
        } catch (...) {
            shrink(tier, slab);
            throw;
        }
    }
    return true;
}

void PageSource::add_slab(PageTier tier, const Slab& slab) {
    TierState& found = state(tier);
    const uint64_t pages = found.pages + slab.pages;
    if (found.free.capacity() < pages) found.free.reserve(std::max(pages, 2 * found.free.capacity()));
    if (empty_slabs_.empty()) {
        slabs_.emplace_back();
        empty_slabs_.push_back(slabs_.size() - 1);
        empty_slabs_.reserve(slabs_.capacity());  // so that a slab that goes cannot fail to
    }
    const uint64_t first_id = take_ids(slab.pages);
    const size_t at = empty_slabs_.back();
    empty_slabs_.pop_back();
    slabs_[at] = {slab, tier, first_id, slab.pages};
    for (uint64_t i = 0; i < slab.pages; ++i) entries_[first_id + i] = {slab.data + i * page_bytes_, at, false};
    // The first page is the next, so that pages taken together are neighbours.
    for (uint64_t i = slab.pages; i > 0; --i) found.free.push_back(first_id + i - 1);
    found.pages = pages;
    ++changes_;
}

// The first of so many ids that follow each other. Those of slabs that are gone are used again: the directory must not
// grow with each trim().
uint64_t PageSource::take_ids(uint64_t pages) {
    for (auto range = free_ids_.begin(); range != free_ids_.end(); ++range) {
        const auto [first, count] = *range;
        if (count < pages) continue;
        if (count > pages) free_ids_.emplace_hint(std::next(range), first + pages, count - pages);
        free_ids_.erase(range);
        return first;
    }
    const uint64_t first = entries_.size();
    entries_.resize(first + pages);
    return first;
}

void PageSource::join_free_ids() noexcept {
    for (auto range = free_ids_.begin(); range != free_ids_.end();) {
        const auto next = std::next(range);
        if (next == free_ids_.end()) return;
        if (range->first + range->second != next->first) {
            range = next;
            continue;
        }
        range->second += next->second;
        free_ids_.erase(next);
    }
}

void PageSource::take_free(PageTier tier, uint64_t pages, std::vector<Page>& out) {
    out.reserve(out.size() + pages);
    TierState& found = state(tier);
    for (uint64_t i = 0; i < pages; ++i) {
        const uint64_t id = found.free.back();
        found.free.pop_back();
        Entry& entry = entries_[id];
        entry.out = true;
        --slabs_[entry.slab].free_pages;
        out.push_back({id, tier, entry.data});
    }
}

void PageSource::put_back(const Page& page) {
    if (page.id >= entries_.size() || !entries_[page.id].out || entries_[page.id].data != page.data) {
        throw std::logic_error("page " + std::to_string(page.id) + " was given back and is not out");
    }
    Entry& entry = entries_[page.id];
    OwnedSlab& slab = slabs_[entry.slab];
    entry.out = false;
    ++slab.free_pages;
    state(slab.tier).free.push_back(page.id);
}

void PageSource::take_reserved(PageTier tier, uint64_t pages, std::vector<Page>& out) {
    std::lock_guard<std::mutex> lock(mutex_);
    take_free(tier, pages, out);
    state(tier).reserved -= pages;
}

void PageSource::unreserve(PageTier tier, uint64_t pages) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    tiers_[index_of(tier)].reserved -= pages;
}

void PageSource::trim() {
    std::lock_guard<std::mutex> lock(mutex_);
    // What allocates comes first: from the erasing on nothing can fail.
    std::vector<char> goes(slabs_.size(), 0);
    std::map<uint64_t, uint64_t> emptied;
    TierPages pages_going{};
    for (size_t at = 0; at < slabs_.size(); ++at) {
        const OwnedSlab& slab = slabs_[at];
        const uint64_t pages = slab.memory.pages;
        uint64_t& going = pages_going[index_of(slab.tier)];
        const TierState& tier = state(slab.tier);
        if (slab.memory.data == nullptr || slab.free_pages < pages) continue;
        if (tier.free.size() - going - pages < tier.reserved) continue;
        emptied.emplace(slab.first_id, pages);
        goes[at] = 1;
        going += pages;
    }
    for (TierState& tier : tiers_) {
        const auto is_going = [&](uint64_t id) { return goes[entries_[id].slab] != 0; };
        tier.free.erase(std::remove_if(tier.free.begin(), tier.free.end(), is_going), tier.free.end());
    }
    for (size_t at = 0; at < goes.size(); ++at) {
        if (goes[at] == 0) continue;
        release_slab(slabs_[at]);
        empty_slabs_.push_back(at);
    }
    free_ids_.merge(emptied);
    join_free_ids();
}

void PageSource::release_slab(OwnedSlab& slab) noexcept {
    for (uint64_t i = 0; i < slab.memory.pages; ++i) entries_[slab.first_id + i].data = nullptr;
    tiers_[index_of(slab.tier)].pages -= slab.memory.pages;
    shrink(slab.tier, slab.memory);
    slab = {};
    ++changes_;
}

uint64_t PageSource::left_of_limit(PageTier tier) const {
    const TierState& found = tiers_.at(index_of(tier));
    return limit_pages(tier) - (found.pages - found.free.size()) - found.reserved;
}

uint64_t PageSource::pages_in_use(PageTier tier) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const TierState& found = tiers_.at(index_of(tier));
    return found.pages - found.free.size();
}

uint64_t PageSource::pages_free(PageTier tier) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return left_of_limit(tier);
}

std::vector<uint8_t*> PageSource::directory() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<uint8_t*> addresses;
    addresses.reserve(entries_.size());
    for (const Entry& entry : entries_) addresses.push_back(entry.data);
    return addresses;
}

std::string PageSource::refused() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return refused_;
}

uint64_t PageSource::changes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return changes_;
}

}}  // namespace spillway::cuda::tier
