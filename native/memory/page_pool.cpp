// SPDX-License-Identifier: Apache-2.0
#include "memory/page_pool.hpp"

#include <algorithm>
#include <bit>

namespace spillway {

namespace {

constexpr uint64_t kPageBytesMin = uint64_t{1} << 10;
// Slabs are one huge page, so that a freed one is soon a whole huge page again; pools of many GiB take larger ones
// because a process may have only 65530 mappings.
constexpr uint64_t kSlabsPerPool = 1024;

uint64_t slab_bytes_for(uint64_t pool_bytes) {
    return std::max(kHugeBytes, pool_bytes / kSlabsPerPool / kHugeBytes * kHugeBytes);
}

}  // namespace

PagePool::PagePool(MemoryBudget& budget, uint64_t page_bytes, uint64_t pool_bytes)
    : budget_(budget), page_bytes_(page_bytes), pool_bytes_(pool_bytes), slab_bytes_(slab_bytes_for(pool_bytes)) {
    SPILLWAY_CHECK(std::has_single_bit(page_bytes) && page_bytes >= kPageBytesMin && page_bytes <= kHugeBytes);
    // Room for every page and for most slabs at once: release() must not allocate, and memory that is reserved but
    // not touched costs nothing.
    const uint64_t pool_bytes_max = std::min(pool_bytes, budget.limit());
    free_pages_.reserve(pool_bytes_max / page_bytes);
    slabs_.reserve(pool_bytes_max / slab_bytes_ + kSlabsPerPool);
    budget_.add_reclaimable(this);
}

PagePool::~PagePool() {
    budget_.remove_reclaimable(this);
    for (Slab& slab : slabs_) drop(slab);
}

uint8_t* PagePool::try_acquire() {
    std::unique_lock<std::mutex> lock(mutex_);
    return acquire_one(lock);
}

bool PagePool::try_acquire(size_t count, std::vector<uint8_t*>& out) {
    std::unique_lock<std::mutex> lock(mutex_);
    uint8_t* const first = acquire_one(lock);
    if (first == nullptr) return false;
    const size_t more = std::min(count - 1, free_pages_.size());
    out.insert(out.end(), free_pages_.end() - static_cast<std::ptrdiff_t>(more), free_pages_.end());
    free_pages_.resize(free_pages_.size() - more);
    pages_in_use_ += more;
    out.push_back(first);
    return true;
}

uint8_t* PagePool::acquire_one(std::unique_lock<std::mutex>& lock) {
    for (;;) {
        if (!free_pages_.empty()) {
            uint8_t* page = free_pages_.back();
            free_pages_.pop_back();
            ++pages_in_use_;
            return page;
        }
        const uint64_t claimed = claim_slab();
        if (claimed > 0) return acquire_from_new_slab(claimed, lock);
        // Another worker may be mapping the last slab: its pages are not used up yet.
        if (mapping_ == 0) return nullptr;
        mapped_.wait(lock);
    }
}

// Bytes of the next slab, counted before it is mapped, so that the limit holds without the lock.
uint64_t PagePool::claim_slab() {
    const uint64_t rest = (pool_bytes_ - claimed_bytes_) / page_bytes_ * page_bytes_;
    const uint64_t claimed = std::min(rest, slab_bytes_);
    claimed_bytes_ += claimed;
    return claimed;
}

// The budget is asked without the lock: several workers can map at once, and reclaim() of this pool may be called.
uint8_t* PagePool::acquire_from_new_slab(uint64_t claimed, std::unique_lock<std::mutex>& lock) {
    ++mapping_;
    lock.unlock();
    uint64_t bytes = claimed;
    std::optional<ReservedBlock> slab = try_map(bytes);
    while (!slab && bytes > page_bytes_) {  // the last pages that the budget can give
        bytes = std::max(page_bytes_, bytes / 2 / page_bytes_ * page_bytes_);
        slab = try_map(bytes);
    }
    lock.lock();
    --mapping_;
    mapped_.notify_all();
    claimed_bytes_ -= slab ? claimed - bytes : claimed;
    if (!slab) return nullptr;
    uint8_t* const first = slab->block.data;
    slabs_.push_back({std::move(*slab), bytes / page_bytes_});
    for (uint64_t at = bytes; at > page_bytes_;) free_pages_.push_back(first + (at -= page_bytes_));
    ++pages_in_use_;
    return first;
}

std::optional<ReservedBlock> PagePool::try_map(uint64_t bytes) {
    const uint64_t step = system_page_bytes();
    return budget_.try_reserve_block((bytes + step - 1) / step * step);
}

std::optional<PagePool::Claim> PagePool::try_claim(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (bytes > pool_bytes_ - claimed_bytes_) return std::nullopt;
    claimed_bytes_ += bytes;
    return Claim(this, bytes);
}

PagePool::Claim::~Claim() {
    if (pool_ == nullptr) return;
    std::lock_guard<std::mutex> lock(pool_->mutex_);
    pool_->claimed_bytes_ -= bytes_;
}

void PagePool::release(uint8_t* page) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_pages_.push_back(page);
    --pages_in_use_;
    ++released_since_scan_;
}

void PagePool::release(const std::vector<uint8_t*>& pages) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_pages_.insert(free_pages_.end(), pages.begin(), pages.end());
    pages_in_use_ -= pages.size();
    released_since_scan_ += pages.size();
}

uint64_t PagePool::pages_in_use() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return pages_in_use_;
}

void PagePool::seal() {
    std::lock_guard<std::mutex> lock(mutex_);
    sealed_ = true;
}

uint64_t PagePool::held_bytes() {
    std::lock_guard<std::mutex> lock(mutex_);
    sort_by_address();
    uint64_t held = claimed_bytes_;
    auto page = free_pages_.begin();
    for (const Slab& slab : slabs_) {
        const auto end = std::lower_bound(page, free_pages_.end(), slab.memory.block.data + slab.memory.block.bytes);
        held += used_bytes(slab, free_end_pages(slab, page, end)) - slab.pages * page_bytes_;
        page = end;
    }
    std::reverse(free_pages_.begin(), free_pages_.end());
    return held;
}

void PagePool::sort_by_address() {
    std::sort(free_pages_.begin(), free_pages_.end());
    std::sort(slabs_.begin(), slabs_.end(),
              [](const Slab& a, const Slab& b) { return a.memory.block.data < b.memory.block.data; });
}

// Pages of the slab behind the last one in use. [begin, end): its free pages by address.
uint64_t PagePool::free_end_pages(const Slab& slab, Pages begin, Pages end) const {
    uint64_t pages = 0;
    while (begin != end && *(end - 1) == slab.memory.block.data + (slab.pages - pages - 1) * page_bytes_) {
        ++pages;
        --end;
    }
    return pages;
}

// What the slab takes without its free end, in pages of the system.
uint64_t PagePool::used_bytes(const Slab& slab, uint64_t free_end) const {
    const uint64_t step = system_page_bytes();
    return ((slab.pages - free_end) * page_bytes_ + step - 1) / step * step;
}

// Gives a slab without a page in use back to the budget.
uint64_t PagePool::drop(Slab& slab) {
    MappedBlock& block = slab.memory.block;
    const uint64_t bytes = block.bytes;
    claimed_bytes_ -= slab.pages * page_bytes_;
    if (slab.cut) {
        unmap_block(block);  // before the reservation goes, so that resident memory stays below the reserved
        slab.memory.reservation.release();
    } else {
        budget_.return_block(block, std::move(slab.memory.reservation));
    }
    block = {};
    return bytes;
}

uint64_t PagePool::cut(Slab& slab, uint64_t free_end) {
    MappedBlock& block = slab.memory.block;
    const uint64_t kept = used_bytes(slab, free_end);
    const uint64_t bytes = block.bytes - kept;
    if (bytes == 0) return 0;
    unmap_block({block.data + kept, bytes});
    slab.memory.reservation.shrink_to(kept);
    block.bytes = kept;
    claimed_bytes_ -= free_end * page_bytes_;
    slab.pages -= free_end;
    slab.cut = true;
    return bytes;
}

// Sorts the free pages by address and drops slabs that they cover. O(n log n), so only when pages enough for a slab
// came back since all slabs were looked at (a worker that spills asks at every page), when no page is in use, or once
// after the pool was sealed.
uint64_t PagePool::reclaim(uint64_t wanted) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t pages_per_slab = std::max<uint64_t>(1, std::min(slab_bytes_, pool_bytes_) / page_bytes_);
    const bool cuts = sealed_ && !ends_cut_;
    if (released_since_scan_ < pages_per_slab && pages_in_use_ > 0 && !cuts) return 0;
    sort_by_address();
    uint64_t reclaimed = 0;
    auto page = free_pages_.begin();
    auto kept = free_pages_.begin();
    auto slab = slabs_.begin();
    for (; slab != slabs_.end() && reclaimed < wanted; ++slab) {
        const MappedBlock& block = slab->memory.block;
        const auto end = std::lower_bound(page, free_pages_.end(), block.data + block.bytes);
        auto kept_end = end;
        if (static_cast<uint64_t>(end - page) == slab->pages) {
            reclaimed += drop(*slab);
            kept_end = page;
        } else if (sealed_) {
            const uint64_t free_end = free_end_pages(*slab, page, end);
            const uint64_t bytes = cut(*slab, free_end);
            if (bytes > 0) kept_end -= static_cast<std::ptrdiff_t>(free_end);
            reclaimed += bytes;
        }
        kept = std::copy(page, kept_end, kept);
        page = end;
    }
    if (slab == slabs_.end()) {
        released_since_scan_ = 0;
        ends_cut_ = sealed_;
    }
    free_pages_.erase(std::copy(page, free_pages_.end(), kept), free_pages_.end());
    std::reverse(free_pages_.begin(), free_pages_.end());
    std::erase_if(slabs_, [](const Slab& each) { return each.memory.block.data == nullptr; });
    return reclaimed;
}

}  // namespace spillway
