// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
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

}  // namespace

PageArea::PageArea(Device& device, const PageAreaSpec& spec, Device* peer) {
    if (spec.pages == 0) return;
    addresses_.reserve(spec.pages);
    spec.mapped ? take_mapped(device, spec, peer) : take_listed(device, spec, peer);
    device_addresses_ = device.memory().allocate(spec.pages * sizeof(char*), "addresses of pages");
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(device_addresses_.as(), addresses_.data(), spec.pages * sizeof(char*),
                                        cudaMemcpyHostToDevice, device.stream()));
}

// Stripes cost calls each, and rounding up to whole ones memory.
void PageArea::take_mapped(Device& device, const PageAreaSpec& spec, Device* peer) {
    const uint64_t bytes = spec.pages * spec.page_bytes;
    memory_ = std::make_unique<InterleavedMemory>(device, mapped_stripe_bytes(bytes), peer);
    const uint64_t stripe_bytes = memory_->stripe_bytes();
    const uint64_t stripes = (bytes + stripe_bytes - 1) / stripe_bytes;
    const uint64_t host_bytes = StripePattern(spec.shares).stripes_before(stripes, PageTier::kHost) * stripe_bytes;
    if (host_bytes > spec.host_limit_bytes) {
        Error error(ErrorCode::kOutOfMemory, "stripes of host memory for partitions of both sides");
        error.tier = Tier::kHost;
        error.limit_reached = true;
        error.wanted_bytes = host_bytes;
        error.free_bytes = error.limit_bytes = spec.host_limit_bytes;
        throw error;
    }
    range_ = InterleavedRange(*memory_, spec.shares, bytes);
    for (uint64_t i = 0; i < spec.pages; ++i) {
        addresses_.push_back(range_.as<char>() + i * spec.page_bytes);
        if (is_near(addresses_.back())) ++near_pages_;
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
    }
    for (const Page& page : taken[index_of(PageTier::kDevice)]) {
        add_near(reinterpret_cast<const char*>(page.data), pool.page_bytes);
    }
    std::array<uint64_t, kMemoryTiers> used_bytes{};
    for (uint64_t i = 0; i < spec.pages; ++i) {
        const size_t tier = index_of(pattern.tier_of(i));
        const Page& page = taken[tier].at(used_bytes[tier] / pool.page_bytes);
        addresses_.push_back(reinterpret_cast<char*>(page.data) + used_bytes[tier] % pool.page_bytes);
        used_bytes[tier] += spec.page_bytes;
        if (tier == index_of(PageTier::kDevice)) ++near_pages_;
    }
    base_ = *std::min_element(addresses_.begin(), addresses_.end());
}

void PageArea::add_near(const char* page, uint64_t bytes) {
    if (!near_.empty() && near_.back().second == page) {
        near_.back().second += bytes;
    } else {
        near_.emplace_back(page, page + bytes);
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
            if (!area_.is_near(page)) far_rows_ += std::min(page_rows_, chunk.counts[p] - row);
        }
    }
    all_rows_ += relation.rows;
    chunks_.push_back(std::move(chunk));
    return keyless ? keep_keyless(relation) : 0;
}

uint64_t FarSide::keep_keyless(const FarRelation& relation) {
    const FarPages pages = area_.rest(page_rows_);
    const uint64_t rows = write_keyless_rows(device_, relation, pages);
    if (rows > pages.pages * page_rows_) throw Error(ErrorCode::kInternal, "rows without a key found no page");
    char* const* page = area_.host_rest();
    for (uint64_t row = 0; row < rows; row += page_rows_, ++page) {
        const uint64_t some = std::min(page_rows_, rows - row);
        keyless_.push_back(piece_of(*page, 0, some, 0));
        if (!area_.is_near(*page)) far_keyless_rows_ += some;
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
