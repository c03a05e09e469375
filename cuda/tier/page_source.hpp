// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tier/page_tier.hpp"

namespace spillway::cuda { inline namespace tier {

struct Page {
    uint64_t id = 0;  // index of the directory
    PageTier tier = PageTier::kDevice;
    uint8_t* data = nullptr;  // for kernels of the device, and for the host if the tier is kHost
};

using TierPages = std::array<uint64_t, kPageTiers>;

class PageSource;

// Pages of one tier that are there for whoever holds this and for nobody else. What is not taken goes back with it; the
// source must outlive it.
class PageReservation {
  public:
    PageReservation() = default;
    PageReservation(PageReservation&& other) noexcept;
    PageReservation& operator=(PageReservation&& other) noexcept;
    PageReservation(const PageReservation&) = delete;
    PageReservation& operator=(const PageReservation&) = delete;
    ~PageReservation() { reset(); }

    PageTier tier() const { return tier_; }
    uint64_t pages() const { return pages_; }  // not yet taken
    explicit operator bool() const { return source_ != nullptr; }
    // Appends them to `out`. False, and nothing is taken: fewer are left.
    bool take(uint64_t pages, std::vector<Page>& out);
    void reset() noexcept;

  private:
    friend class PageSource;
    PageReservation(PageSource* source, PageTier tier, uint64_t pages) : source_(source), tier_(tier), pages_(pages) {}

    PageSource* source_ = nullptr;
    PageTier tier_ = PageTier::kDevice;
    uint64_t pages_ = 0;
};

// Pages of one size over the tiers of memory, with a hard limit for each: what a pool of slabs (page_pool.hpp) and an
// interleaved range (interleaved_range.hpp) have in common. Slabs are taken when pages are first needed, and kept until
// trim(). Thread-safe.
//
// Hazard: a page can be taken again as soon as it is back. Kernels and copies of the old and the new user must be
// ordered, as with blocks of device/memory_pool.hpp; for host pages that the host itself reads or writes, it must have
// waited for the device.
class PageSource {
  public:
    PageSource(const PageSource&) = delete;
    PageSource& operator=(const PageSource&) = delete;
    virtual ~PageSource() = default;

    uint64_t page_bytes() const { return page_bytes_; }

    // Appends `pages` pages of the tier to `out`. False, and nothing is taken: the limit or the memory leaves fewer.
    bool try_take(PageTier tier, uint64_t pages, std::vector<Page>& out);
    // The same of the tiers in the order of preference, each as far as it goes.
    bool try_take(uint64_t pages, std::vector<Page>& out);
    // Throws for a page that is not out: a defect of the caller, who must not go on.
    void give_back(const Page& page);
    void give_back(const std::vector<Page>& pages);

    // All of them, with the memory behind them, so that taking them cannot fail; an empty reservation: the limit or the
    // memory leaves fewer.
    PageReservation try_reserve(PageTier tier, uint64_t pages);

    void trim();  // gives back slabs whose pages are all free

    uint64_t limit_pages(PageTier tier) const { return limit_pages_.at(index_of(tier)); }
    uint64_t pages_in_use(PageTier tier) const;
    uint64_t pages_free(PageTier tier) const;  // of the limit: neither in use nor reserved
    const std::vector<PageTier>& preference() const { return preference_; }

    // Addresses by id; nullptr where a slab is gone. It grows by slabs, and entries of pages that are out never change:
    // whoever copies it does so after taking pages. changes() counts what makes an old copy incomplete.
    std::vector<uint8_t*> directory() const;
    uint64_t changes() const;
    // Why memory did not come, the last time that it did not.
    std::string refused() const;

  protected:
    struct Slab {
        uint8_t* data = nullptr;  // nullptr: there is no memory
        uint64_t pages = 0;
    };

    // preference: each tier once; tiers that are not named give pages only to those who name them.
    PageSource(uint64_t page_bytes, const TierPages& limit_pages, std::vector<PageTier> preference);

    // Memory for `wanted` pages or fewer (it is asked again) or more, up to `most`.
    virtual Slab grow(PageTier tier, uint64_t wanted, uint64_t most) = 0;
    virtual void shrink(PageTier tier, const Slab& slab) noexcept = 0;
    std::string refused_;  // for grow() to say why not

  private:
    friend class PageReservation;
    struct Entry {
        uint8_t* data = nullptr;
        size_t slab = 0;
        bool out = false;
    };
    struct OwnedSlab {
        Slab memory;
        PageTier tier = PageTier::kDevice;
        uint64_t first_id = 0;
        uint64_t free_pages = 0;
    };
    struct TierState {
        std::vector<uint64_t> free;  // ids, the last is the next; has room for all, so that nothing there can fail
        uint64_t pages = 0;          // in slabs
        uint64_t reserved = 0;       // of the free ones
    };

    bool ensure_free(PageTier tier, uint64_t pages);
    void add_slab(PageTier tier, const Slab& slab);
    uint64_t take_ids(uint64_t pages);
    void join_free_ids() noexcept;
    void take_free(PageTier tier, uint64_t pages, std::vector<Page>& out);
    void put_back(const Page& page);
    void release_slab(OwnedSlab& slab) noexcept;
    void take_reserved(PageTier tier, uint64_t pages, std::vector<Page>& out);
    void unreserve(PageTier tier, uint64_t pages) noexcept;
    uint64_t left_of_limit(PageTier tier) const;
    TierState& state(PageTier tier) { return tiers_.at(index_of(tier)); }

    const uint64_t page_bytes_;
    const TierPages limit_pages_;
    const std::vector<PageTier> preference_;
    mutable std::mutex mutex_;
    std::array<TierState, kPageTiers> tiers_;
    std::vector<Entry> entries_;             // by id
    std::map<uint64_t, uint64_t> free_ids_;  // of slabs that are gone: first id and how many
    std::vector<OwnedSlab> slabs_;
    std::vector<size_t> empty_slabs_;  // of these, without memory; has room for all
    uint64_t changes_ = 0;
};

}}  // namespace spillway::cuda::tier
