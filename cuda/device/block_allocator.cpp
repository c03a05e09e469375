// SPDX-License-Identifier: Apache-2.0
#include "device/block_allocator.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace spillway::cuda { inline namespace device {

namespace {

void* pointer_to(std::uintptr_t address) {
    return reinterpret_cast<void*>(address);
}

}  // namespace

BlockAllocator::BlockAllocator(BlockBacking& backing, const BlockSizes& sizes, uint64_t limit_bytes)
    : backing_(backing), sizes_(sizes), limit_bytes_(limit_bytes) {}

BlockAllocator::~BlockAllocator() {
    if (!segments_.empty()) backing_.settle();
    for (const auto& [address, segment] : segments_) backing_.release(pointer_to(address), segment.bytes);
}

// Saturates: what cannot be rounded up exceeds any limit.
uint64_t BlockAllocator::rounded(uint64_t bytes, uint64_t granularity) const {
    const uint64_t last = std::numeric_limits<uint64_t>::max() / granularity * granularity;
    return bytes > last ? last : (bytes + granularity - 1) / granularity * granularity;
}

BlockAllocator::Grant BlockAllocator::take(uint64_t bytes, uint64_t withheld_bytes) {
    Grant grant;
    grant.bytes = rounded(bytes, sizes_.granularity_bytes);
    if (grant.bytes > limit_bytes_ - used_bytes_ - withheld_bytes) {
        grant.refusal = Refusal::kLimit;
        return grant;
    }
    const bool shared = grant.bytes < sizes_.small_bytes;
    Address address = find_free(grant.bytes, shared);
    if (address == 0) address = new_segment(grant.bytes, shared);
    if (address == 0) {
        grant.refusal = Refusal::kBacking;
        return grant;
    }
    cut(address, grant.bytes);
    used_bytes_ += grant.bytes;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
    ++blocks_in_use_;
    grant.data = pointer_to(address);
    return grant;
}

// The smallest free block that fits, 0 = none.
BlockAllocator::Address BlockAllocator::find_free(uint64_t bytes, bool shared) const {
    const FreeBlocks& list = free_[shared ? 1 : 0];
    const auto best = list.lower_bound({bytes, 0});
    return best == list.end() ? 0 : best->second;
}

// This is the size of a new segment for a block of `bytes`. It is no larger than needed where the limit leaves no room
// for more.
uint64_t BlockAllocator::segment_bytes(uint64_t bytes, bool shared) {
    const uint64_t preferred = shared ? sizes_.shared_segment_bytes : rounded(bytes, sizes_.segment_granularity_bytes);
    const auto fits = [this](uint64_t size) {
        return reserved_bytes_ <= limit_bytes_ && size <= limit_bytes_ - reserved_bytes_;
    };
    if (fits(preferred)) return preferred;
    if (!fits(bytes)) {
        // reserved <= limit + what exceeded it before, and bytes <= limit: no overflow for limits below 2^63.
        release_free(reserved_bytes_ + bytes - limit_bytes_);
        if (fits(preferred)) return preferred;
    }
    return bytes;
}

// The address of a free block of at least `bytes` in memory that was not free before; 0 = the backing has none.
BlockAllocator::Address BlockAllocator::new_segment(uint64_t bytes, bool shared) {
    if (shared && reserved_bytes_ + sizes_.shared_segment_bytes > limit_bytes_) {
        // Rather in the gap of a large segment than beyond the limit.
        const Address gap = find_free(bytes, false);
        if (gap != 0) return gap;
    }
    const uint64_t preferred = segment_bytes(bytes, shared);
    Address address = place_segment(preferred, shared);
    if (address == 0 && release_free(std::numeric_limits<uint64_t>::max()) > 0) {
        address = place_segment(preferred, shared);
    }
    if (address == 0 && preferred != bytes) address = place_segment(bytes, shared);
    return address;
}

BlockAllocator::Address BlockAllocator::place_segment(uint64_t bytes, bool shared) {
    void* const data = backing_.acquire(bytes);
    if (data == nullptr) return 0;
    const auto address = reinterpret_cast<Address>(data);
    try {
        segments_.emplace(address, Segment{bytes, shared});
        blocks_.emplace(address, Block{bytes, address, true, {}});
        free_[shared ? 1 : 0].emplace(bytes, address);
    } catch (...) {
        blocks_.erase(address);
        segments_.erase(address);
        backing_.release(data, bytes);
        throw;
    }
    reserved_bytes_ += bytes;
    return address;
}

// Takes the free block at `address` into use, cutting off what is more than `bytes`.
void BlockAllocator::cut(Address address, uint64_t bytes) {
    const auto block = blocks_.find(address);
    FreeBlocks& list = free_list(block->second);
    if (block->second.bytes > bytes) {
        const uint64_t rest_bytes = block->second.bytes - bytes;
        const auto rest = blocks_.emplace(address + bytes, Block{rest_bytes, block->second.segment, true, {}}).first;
        try {
            list.emplace(rest_bytes, address + bytes);
        } catch (...) {
            blocks_.erase(rest);
            throw;
        }
    }
    block->second.entry = list.extract({block->second.bytes, address});
    block->second.bytes = bytes;
    block->second.free = false;
}

uint64_t BlockAllocator::give_back(void* data) noexcept {
    auto block = blocks_.find(reinterpret_cast<Address>(data));
    const uint64_t counted_bytes = block->second.bytes;
    used_bytes_ -= counted_bytes;
    --blocks_in_use_;
    FreeBlocks::node_type entry = std::move(block->second.entry);
    block->second.free = true;
    absorb_next(block);
    if (block != blocks_.begin()) {
        const auto before = std::prev(block);
        if (before->second.free && before->second.segment == block->second.segment) {
            free_list(before->second).erase({before->second.bytes, before->first});
            before->second.bytes += block->second.bytes;
            blocks_.erase(block);
            block = before;
        }
    }
    entry.value() = {block->second.bytes, block->first};
    free_list(block->second).insert(std::move(entry));
    return counted_bytes;
}

// Merges a free right neighbour of the same segment into the block, which is in no list.
void BlockAllocator::absorb_next(Blocks::iterator block) noexcept {
    const auto next = std::next(block);
    if (next == blocks_.end() || !next->second.free || next->second.segment != block->second.segment) return;
    free_list(next->second).erase({next->second.bytes, next->first});
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
}

// Largest first, which takes the fewest calls of the backing; returns the bytes released.
uint64_t BlockAllocator::release_free(uint64_t wanted_bytes) noexcept {
    uint64_t released_bytes = 0;
    for (FreeBlocks& list : free_) {
        for (auto at = list.end(); at != list.begin() && released_bytes < wanted_bytes;) {
            --at;
            const auto [bytes, address] = *at;
            const auto segment = segments_.find(address);
            if (segment == segments_.end() || segment->second.bytes != bytes) continue;
            if (released_bytes == 0) backing_.settle();
            backing_.release(pointer_to(address), bytes);
            segments_.erase(segment);
            blocks_.erase(address);
            at = list.erase(at);
            reserved_bytes_ -= bytes;
            released_bytes += bytes;
        }
    }
    return released_bytes;
}

void BlockAllocator::trim() noexcept {
    release_free(std::numeric_limits<uint64_t>::max());
}

// Both counts: what lies elsewhere is memory all the same, so that segments stay within what it leaves of the limit.
bool BlockAllocator::reserve(uint64_t bytes, uint64_t withheld_bytes) noexcept {
    if (bytes > limit_bytes_ - used_bytes_ - withheld_bytes) return false;
    if (reserved_bytes_ + bytes > limit_bytes_) release_free(reserved_bytes_ + bytes - limit_bytes_);
    used_bytes_ += bytes;
    reserved_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
    return true;
}

void BlockAllocator::unreserve(uint64_t bytes) noexcept {
    used_bytes_ -= bytes;
    reserved_bytes_ -= bytes;
}

bool BlockAllocator::holds(const void* data, uint64_t bytes) const {
    const auto address = reinterpret_cast<Address>(data);
    const auto after = segments_.upper_bound(address);
    if (after == segments_.begin()) return false;
    const auto& [begin, segment] = *std::prev(after);
    const uint64_t offset = address - begin;
    return offset < segment.bytes && bytes <= segment.bytes - offset;
}

}}  // namespace spillway::cuda::device
