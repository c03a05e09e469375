// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "far_partition/far_partition.hpp"
#include "stream/row_pieces.hpp"
#include "tier/interleaved_range.hpp"
#include "tier/page_pool.hpp"
#include "tier/stripe_pattern.hpp"

namespace spillway::cuda { inline namespace coherent_join {

struct PageAreaSpec {
    uint64_t page_bytes = 0;  // a power of two, 128 bytes to 2 MiB
    uint64_t pages = 0;
    StripeShares shares;
    uint64_t peer_limit_bytes = 0;  // of stripes; shares of pages keep to it
    uint64_t host_limit_bytes = 0;
    bool mapped = false;  // cut from one range of addresses; shares are of its stripes then
};

// Pages of several tiers in turns, for partitions that take them from the first one on. All partitions grow at the same
// time, so that each has about its share of every tier, and who reads one after the other uses all tiers at once
// (section 5.3 of the Triton join's paper, which maps such pages into one array: `mapped` does, else a list of pages
// serves). Kernels store whole rows to pages of any tier and load them later, and update nothing there atomically: what
// they count lies in memory of the device, so that a peer's memory serves as the host's does.
class PageArea {
  public:
    // peer: one that the device reaches, or more of the same device. Where it has less memory than shares say, all of
    // its pages are the host's. Throws kOutOfMemory where a tier has too little, kInvalid where nothing can be mapped.
    PageArea(Device& device, const PageAreaSpec& spec, Device* peer);

    // Those that nobody has taken, and the same for the host.
    FarPages rest(uint64_t page_rows) const;
    char* const* host_rest() const { return addresses_.data() + taken_; }
    void take(uint64_t pages) { taken_ += pages; }

    uint64_t pages() const { return addresses_.size(); }
    uint64_t near_pages() const { return tier_pages_[index_of(PageTier::kDevice)]; }
    // The lowest address of all: rows are counted from there, whatever memory they are in. Pages begin at multiples of
    // a row's bytes behind it.
    const char* base() const { return base_; }
    PageTier tier_of(const char* page) const {
        if (range_.bytes() > 0) return range_.tier_of(static_cast<uint64_t>(page - range_.as<const char>()));
        for (const Slab& slab : slabs_) {
            if (page >= slab.begin && page < slab.end) return slab.tier;
        }
        return PageTier::kHost;
    }
    // Whether the page lies in the memory of the device itself.
    bool is_near(const char* page) const { return tier_of(page) == PageTier::kDevice; }

  private:
    // Pages that follow each other, of a GPU.
    struct Slab {
        const char* begin;
        const char* end;
        PageTier tier;
    };
    void take_all(Device& device, const PageAreaSpec& spec, Device* peer);
    void take_listed(Device& device, const PageAreaSpec& spec, Device* peer);
    void take_mapped(Device& device, const PageAreaSpec& spec, Device* peer);
    void add_slabs(PageTier tier, const std::vector<Page>& pages, uint64_t page_bytes);
    void add(char* page, PageTier tier);

    std::unique_ptr<PagePool> pool_;
    std::unique_ptr<InterleavedMemory> memory_;  // of the range, which goes first
    InterleavedRange range_;
    std::vector<char*> addresses_;
    std::vector<Slab> slabs_;  // one of a tier, or few
    Allocation device_addresses_;
    const char* base_ = nullptr;
    std::array<uint64_t, kMemoryTiers> tier_pages_{};
    uint64_t taken_ = 0;
};

// The partitions of one side after the first pass: of each chunk a list of pages per partition. Rows have the layout of
// packed rows, the mixed key first and the payload behind it, so that whoever looks packed rows up reads them where
// they are.
class FarSide {
  public:
    FarSide(Device& device, PageArea& area, uint32_t row_bytes, uint64_t page_rows, int radix_bits);

    // Partitions a chunk; has read it when it returns. keyless: rows that have no key are kept, on pages of their own;
    // returns how many those are.
    uint64_t partition(const FarRelation& chunk, const FarPartitionOptions& options, bool keyless);

    uint64_t rows() const { return all_rows_; }  // with those that have no key
    uint64_t rows(uint64_t partition) const { return rows_[partition]; }
    uint64_t partitions() const { return rows_.size(); }
    uint64_t far_rows() const { return far_rows_ + far_keyless_rows_; }  // on pages that are not the device's
    uint64_t peer_rows() const { return peer_rows_; }                    // of them, on a peer's

    // Appends rows [first, first + rows) of a partition as pieces of the area, counted from its base, a page each at
    // most. Returns how many of them are far.
    uint64_t find(uint64_t partition, uint64_t first, uint64_t rows, std::vector<RowPiece>& pieces) const;
    // The same of all rows without a key that were kept; their keys are 0.
    uint64_t find_keyless(std::vector<RowPiece>& pieces) const;

  private:
    struct Chunk {
        std::vector<uint64_t> counts;  // by partition
        std::vector<uint64_t> begin;   // of each list among the pages
        std::vector<char*> pages;
    };

    uint64_t keep_keyless(const FarRelation& chunk);
    // Counts rows of a page that are far. Returns how many those are.
    uint64_t count_far(const char* page, uint64_t rows);
    RowPiece piece_of(const char* page, uint64_t slot, uint64_t rows, uint64_t partition) const;

    Device& device_;
    PageArea& area_;
    const uint32_t row_bytes_;
    const uint64_t page_rows_;
    std::vector<Chunk> chunks_;
    std::vector<uint64_t> rows_;
    std::vector<RowPiece> keyless_;  // a page each at most
    uint64_t far_keyless_rows_ = 0;
    uint64_t all_rows_ = 0;
    uint64_t far_rows_ = 0;
    uint64_t peer_rows_ = 0;
};

}}  // namespace spillway::cuda::coherent_join
