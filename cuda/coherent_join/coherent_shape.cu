// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/error.hpp"
#include "coherent_join/coherent_shape.hpp"
#include "far_partition/far_policy.hpp"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/radix_policy.hpp"
#include "tier/stripe_pattern.hpp"
#include "tier/tier_policy.hpp"

namespace spillway::cuda { inline namespace coherent_join {

namespace {

uint64_t limit_of(const CoherentJoinSpec& spec, Device& device) {
    const uint64_t limit_bytes = device.memory().limit_bytes();
    return spec.options.device_bytes == 0 ? limit_bytes : std::min(spec.options.device_bytes, limit_bytes);
}

// Pages that find room there, in whole ones of a pool.
uint64_t peer_pages(const CoherentJoinSpec& spec, Device& peer, uint64_t page_bytes) {
    const uint64_t limit_bytes = std::min(spec.join.sizes.peer_bytes, peer.memory().free_bytes());
    const uint64_t whole = std::max(page_bytes, kTierPageBytesMin);
    return limit_bytes / whole * (whole / page_bytes);
}

}  // namespace

FarPartitionOptions first_pass_options(const CoherentJoinSpec& spec, const DeviceProperties& properties) {
    FarPartitionOptions options;
    options.radix_bits = spec.join.sizes.radix_bits;
    options.partitioner = spec.options.partitioner;
    if (options.partitioner == FarPartitioner::kBest) {
        options.partitioner = best_far_partitioner(properties, spec.join.key_bytes, options.radix_bits);
    }
    options.grid = spec.options.partition_grid;
    return options;
}

CoherentShape CoherentShape::make(const CoherentJoinSpec& spec, Device& device) {
    CoherentShape shape;
    // Where there is no payload, the key.
    shape.rows = RowLayout::make(spec.join.key_bytes, {spec.join.key_bytes}).with_key_columns(spec.join.key_columns);
    shape.columns = ResultWindow::make(spec.join, shape.rows, shape.rows);
    static_cast<CoherentMemory&>(shape) = coherent_join_memory(spec, device.properties(), limit_of(spec, device));
    if (shape.pages > kPagesMax) throw Error(ErrorCode::kInvalid, "joins of far memory: less than 2^26 pages");
    return shape;
}

// Pages are cut evenly, into tiles as large as a block of the pass takes.
uint32_t CoherentShape::split_tile_rows(Device& device) const {
    const uint64_t most = cuda::split_tile_rows(device, rows, split_bits);
    const uint64_t tiles = (page_rows + most - 1) / most;
    const uint64_t even = (page_rows + tiles - 1) / tiles;
    return static_cast<uint32_t>((even + kTileRowsStep - 1) / kTileRowsStep * kTileRowsStep);
}

StripeShares CoherentShape::shares(Device& device, const CoherentJoinSpec& spec, Device* peer) const {
    const StripePattern wanted(spec.options.shares);
    if (spec.options.shares.peer > 0) return spec.options.shares;
    const uint64_t free_bytes = std::min(device.memory().free_bytes(), limit_of(spec, device));
    const uint64_t near = wanted.empty() ? near_pages(free_bytes) : wanted.stripes_before(pages, PageTier::kDevice);
    const uint64_t there = peer == nullptr ? 0 : peer_pages(spec, *peer, page_bytes());
    device.make_current();  // the peer was, for its free memory
    if (there == 0 && !wanted.empty()) return spec.options.shares;
    StripeShares shares;
    shares.device = static_cast<uint32_t>(near);
    shares.peer = static_cast<uint32_t>(std::min(pages - near, there));
    shares.host = static_cast<uint32_t>(pages - near - shares.peer);
    return shares;
}

}}  // namespace spillway::cuda::coherent_join
