// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "memory/memory_budget.hpp"

namespace spillway {

// Pages of one size for the partitions of a job, taken from the budget in slabs and kept below pool_bytes.
// Page addresses are multiples of the page size, up to 4096. Thread-safe. Under pressure on the budget, slabs whose
// pages are all free go back to it, and once the pool is sealed the free end of each slab does.
class PagePool : private Reclaimable {
  public:
    // page_bytes: power of two, 1 KiB .. 2 MiB. pool_bytes: hard limit of all pages together.
    PagePool(MemoryBudget& budget, uint64_t page_bytes, uint64_t pool_bytes);
    ~PagePool();  // every page must be back
    PagePool(const PagePool&) = delete;
    PagePool& operator=(const PagePool&) = delete;

    // nullptr when the limit (or the budget) is reached: the caller spills and tries again.
    uint8_t* try_acquire();
    // Appends a page, and up to `count` in all as far as they are free without mapping more: one lock for many pages.
    // False when there is none.
    bool try_acquire(size_t count, std::vector<uint8_t*>& out);
    void release(uint8_t* page);
    void release(const std::vector<uint8_t*>& pages);

    // Part of pool_bytes for memory of another kind, held until the claim dies. The pool must live longer.
    class Claim {
      public:
        Claim() = default;
        Claim(PagePool* pool, uint64_t bytes) : pool_(pool), bytes_(bytes) {}
        Claim(Claim&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), bytes_(other.bytes_) {}
        Claim& operator=(Claim&& other) noexcept {
            std::swap(pool_, other.pool_);
            std::swap(bytes_, other.bytes_);
            return *this;
        }
        ~Claim();

      private:
        PagePool* pool_ = nullptr;
        uint64_t bytes_ = 0;
    };
    // Nothing when pages and claims leave less than that.
    std::optional<Claim> try_claim(uint64_t bytes);

    uint64_t page_bytes() const { return page_bytes_; }
    uint64_t pool_bytes() const { return pool_bytes_; }
    uint64_t pages_in_use() const;

    // No page will be asked for any more.
    void seal();
    // Memory that pressure on the budget would not get back: all up to the last page in use of each slab, and claims.
    // Anything but that is free for others when the pool is sealed.
    uint64_t held_bytes();

  private:
    struct Slab {
        ReservedBlock memory;
        uint64_t pages;    // of small pages fewer than the memory, which is rounded to the system's, would hold
        bool cut = false;  // shorter than it was mapped: of a size that nobody else asks for
    };
    using Pages = std::vector<uint8_t*>::iterator;
    uint8_t* acquire_one(std::unique_lock<std::mutex>& lock);
    uint8_t* acquire_from_new_slab(uint64_t claimed, std::unique_lock<std::mutex>& lock);
    std::optional<ReservedBlock> try_map(uint64_t bytes);
    uint64_t claim_slab();
    uint64_t reclaim(uint64_t wanted) override;
    void sort_by_address();
    uint64_t free_end_pages(const Slab& slab, Pages begin, Pages end) const;
    uint64_t used_bytes(const Slab& slab, uint64_t free_end) const;
    uint64_t drop(Slab& slab);
    uint64_t cut(Slab& slab, uint64_t free_end);

    MemoryBudget& budget_;
    const uint64_t page_bytes_;
    const uint64_t pool_bytes_;
    const uint64_t slab_bytes_;
    mutable std::mutex mutex_;
    std::condition_variable mapped_;
    std::vector<Slab> slabs_;
    std::vector<uint8_t*> free_pages_;  // the last is the next: recently freed pages are still in the caches
    uint64_t claimed_bytes_ = 0;        // bytes of pages in slabs, of slabs being mapped, and of claims
    uint64_t pages_in_use_ = 0;
    int mapping_ = 0;  // workers that map a slab now
    uint64_t released_since_scan_ = 0;
    bool sealed_ = false;
    bool ends_cut_ = false;  // the free ends of all slabs, since the pool was sealed
};

}  // namespace spillway
