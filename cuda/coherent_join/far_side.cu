// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "coherent_join/far_side.hpp"
#include "coherent_join/keyless_rows.hpp"
#include "tier/tier_policy.hpp"

namespace spillway::cuda { inline namespace coherent_join {

namespace {

constexpr PageTier kAreaTiers[] = {PageTier::kDevice, PageTier::kPeer, PageTier::kHost};

// Pages of the pool are cut where smaller ones are wanted.
uint64_t pool_page_bytes(uint64_t page_bytes) {
    return std::max(page_bytes, kTierPageBytesMin);
}

uint64_t pool_bytes(uint64_t pages, uint64_t page_bytes) {
    const uint64_t whole = pool_page_bytes(page_bytes);
    return (pages * page_bytes + whole - 1) / whole * whole;
}

// Whole stripes of a mapped range: of a peer no more than the limit, whatever the weights round to.
StripeShares stripes_of(const PageAreaSpec& spec, uint64_t stripe_bytes) {
    const uint64_t stripes = (spec.pages * spec.page_bytes + stripe_bytes - 1) / stripe_bytes;
    const StripePattern wanted(spec.shares);
    const uint64_t device = wanted.stripes_before(stripes, PageTier::kDevice);
    const uint64_t peer =
        std::min(wanted.stripes_before(stripes, PageTier::kPeer), spec.peer_limit_bytes / stripe_bytes);
    StripeShares shares;
    shares.device = static_cast<uint32_t>(device);
    shares.peer = static_cast<uint32_t>(peer);
    shares.host = static_cast<uint32_t>(stripes - device - peer);
    return shares;
}

}  // namespace

PageArea::PageArea(Device& device, const PageAreaSpec& spec, Device* peer) {
    if (spec.pages == 0) return;
    take_all(device, spec, peer);
    device_addresses_ = device.memory().allocate(spec.pages * sizeof(char*), "addresses of pages");
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(device_addresses_.as(), addresses_.data(), spec.pages * sizeof(char*),
                                        cudaMemcpyHostToDevice, device.stream()));
}

// Others may have taken a peer's memory since its free memory was looked at. Where another tier lacks memory, that
// fails without the peer as well.
void PageArea::take_all(Device& device, const PageAreaSpec& spec, Device* peer) {
    addresses_.reserve(spec.pages);
    const auto take = [&](const PageAreaSpec& wanted) {
        wanted.mapped ? take_mapped(device, wanted, peer) : take_listed(device, wanted, peer);
    };
    if (spec.shares.peer == 0) return take(spec);
    try {
        take(spec);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kOutOfMemory) throw;
        pool_.reset();
        memory_.reset();
        slabs_.clear();
        PageAreaSpec without = spec;
        without.shares.host += without.shares.peer;
        without.shares.peer = 0;
        take(without);
    }
}

void PageArea::add(char* page, PageTier tier) {
    addresses_.push_back(page);
    ++tier_pages_[index_of(tier)];
}

// Stripes cost calls each, and rounding up to whole ones memory.
void PageArea::take_mapped(Device& device, const PageAreaSpec& spec, Device* peer) {
    const uint64_t bytes = spec.pages * spec.page_bytes;
    memory_ = std::make_unique<InterleavedMemory>(device, mapped_stripe_bytes(bytes), peer);
    const uint64_t stripe_bytes = memory_->stripe_bytes();
    const StripeShares shares = stripes_of(spec, stripe_bytes);
    const uint64_t host_bytes = shares.host * stripe_bytes;
    if (host_bytes > spec.host_limit_bytes) {
        Error error(ErrorCode::kOutOfMemory, "stripes of host memory for partitions of both sides");
        error.tier = Tier::kHost;
        error.limit_reached = true;
        error.wanted_bytes = host_bytes;
        error.free_bytes = error.limit_bytes = spec.host_limit_bytes;
        throw error;
    }
    const std::string obstacle = memory_->obstacle(shares);
    if (!obstacle.empty()) {
        throw Error(ErrorCode::kInvalid, "pages cannot be mapped into one range of addresses: " + obstacle +
                                             "; listed pages need no such mapping");
    }
    range_ = InterleavedRange(*memory_, shares, bytes);
    for (uint64_t i = 0; i < spec.pages; ++i) {
        char* const page = range_.as<char>() + i * spec.page_bytes;
        add(page, tier_of(page));
    }
    base_ = range_.as<const char>();
}

void PageArea::take_listed(Device& device, const PageAreaSpec& spec, Device* peer) {
    const StripePattern pattern(spec.shares);
    std::array<uint64_t, kMemoryTiers> wanted_bytes{};
    for (const PageTier tier : kAreaTiers) {
        wanted_bytes[index_of(tier)] = pool_bytes(pattern.stripes_before(spec.pages, tier), spec.page_bytes);
    }
    // Limits are what is taken here, all at once: slabs are as large as that, and one of each tier is enough.
    PagePoolSpec pool;
    pool.page_bytes = pool_page_bytes(spec.page_bytes);
    pool.device_bytes = wanted_bytes[index_of(PageTier::kDevice)];
    pool.peer_bytes = wanted_bytes[index_of(PageTier::kPeer)];
    pool.host_bytes = std::min(wanted_bytes[index_of(PageTier::kHost)], spec.host_limit_bytes);
    pool_ = std::make_unique<PagePool>(device, pool, peer);
    std::array<std::vector<Page>, kMemoryTiers> taken;
    for (const PageTier tier : kAreaTiers) {
        const uint64_t pool_pages = wanted_bytes[index_of(tier)] / pool.page_bytes;
        take_pages(*pool_, tier, pool_pages, taken[index_of(tier)], "partitions of both sides");
        if (tier != PageTier::kHost) add_slabs(tier, taken[index_of(tier)], pool.page_bytes);
    }
    std::array<uint64_t, kMemoryTiers> used_bytes{};
    for (uint64_t i = 0; i < spec.pages; ++i) {
        const PageTier tier = pattern.tier_of(i);
        uint64_t& used = used_bytes[index_of(tier)];
        const Page& page = taken[index_of(tier)].at(used / pool.page_bytes);
        add(reinterpret_cast<char*>(page.data) + used % pool.page_bytes, tier);
        used += spec.page_bytes;
    }
    base_ = *std::min_element(addresses_.begin(), addresses_.end());
}

void PageArea::add_slabs(PageTier tier, const std::vector<Page>& pages, uint64_t page_bytes) {
    for (const Page& page : pages) {
        const char* const begin = reinterpret_cast<const char*>(page.data);
        if (!slabs_.empty() && slabs_.back().tier == tier && slabs_.back().end == begin) {
            slabs_.back().end += page_bytes;
        } else {
            slabs_.push_back({begin, begin + page_bytes, tier});
        }
    }
}

FarPages PageArea::rest(uint64_t page_rows) const {
    FarPages pages;
    pages.addresses = device_addresses_.as<char*>() + taken_;
    pages.pages = addresses_.size() - taken_;
    pages.page_rows = page_rows;
    return pages;
}

FarSide::FarSide(Device& device, PageArea& area, uint32_t row_bytes, uint64_t page_rows, int radix_bits)
    : device_(device), area_(area), row_bytes_(row_bytes), page_rows_(page_rows), rows_(1ULL << radix_bits) {}

uint64_t FarSide::partition(const FarRelation& relation, const FarPartitionOptions& options, bool keyless) {
    if (relation.rows == 0) return 0;
    FarDestination to;
    to.pages = area_.rest(page_rows_);
    if (to.pages.pages == 0) throw Error(ErrorCode::kInvalid, "a side has more rows than the join was made for");
    const FarPartitions done = far_partition(device_, relation, to, options);
    area_.take(done.pages_used);
    Chunk chunk;
    done.host_rows(device_, chunk.pages);
    chunk.counts = done.counts;
    chunk.begin = done.begin;
    for (uint64_t p = 0; p < partitions(); ++p) {
        rows_[p] += chunk.counts[p];
        for (uint64_t row = 0; row < chunk.counts[p]; row += page_rows_) {
            const char* const page = chunk.pages[chunk.begin[p] + row / page_rows_];
            far_rows_ += count_far(page, std::min(page_rows_, chunk.counts[p] - row));
        }
    }
    all_rows_ += relation.rows;
    chunks_.push_back(std::move(chunk));
    return keyless ? keep_keyless(relation) : 0;
}

uint64_t FarSide::count_far(const char* page, uint64_t rows) {
    const PageTier tier = area_.tier_of(page);
    if (tier == PageTier::kPeer) peer_rows_ += rows;
    return tier == PageTier::kDevice ? 0 : rows;
}

uint64_t FarSide::keep_keyless(const FarRelation& relation) {
    const FarPages pages = area_.rest(page_rows_);
    const uint64_t rows = write_keyless_rows(device_, relation, pages);
    if (rows > pages.pages * page_rows_) throw Error(ErrorCode::kInternal, "rows without a key found no page");
    char* const* page = area_.host_rest();
    for (uint64_t row = 0; row < rows; row += page_rows_, ++page) {
        const uint64_t some = std::min(page_rows_, rows - row);
        keyless_.push_back(piece_of(*page, 0, some, 0));
        far_keyless_rows_ += count_far(*page, some);
    }
    area_.take((rows + page_rows_ - 1) / page_rows_);
    return rows;
}

uint64_t FarSide::find_keyless(std::vector<RowPiece>& pieces) const {
    pieces.insert(pieces.end(), keyless_.begin(), keyless_.end());
    return far_keyless_rows_;
}

RowPiece FarSide::piece_of(const char* page, uint64_t slot, uint64_t rows, uint64_t partition) const {
    return {static_cast<uint64_t>(page - area_.base()) / row_bytes_ + slot, rows, partition};
}

uint64_t FarSide::find(uint64_t partition, uint64_t first, uint64_t rows, std::vector<RowPiece>& pieces) const {
    uint64_t far_rows = 0;
    for (const Chunk& chunk : chunks_) {
        const uint64_t count = chunk.counts[partition];
        if (first >= count) {
            first -= count;
            continue;
        }
        for (uint64_t row = first; row < count && rows > 0;) {
            const uint64_t slot = row % page_rows_;
            const uint64_t some = std::min({page_rows_ - slot, count - row, rows});
            const char* const page = chunk.pages[chunk.begin[partition] + row / page_rows_];
            pieces.push_back(piece_of(page, slot, some, partition));
            if (!area_.is_near(page)) far_rows += some;
            row += some;
            rows -= some;
        }
        if (rows == 0) break;
        first = 0;
    }
    return far_rows;
}

}}  // namespace spillway::cuda::coherent_join
