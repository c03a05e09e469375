// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "coherent_join/coherent_policy.hpp"
#include "coherent_join/coherent_shape.hpp"
#include "coherent_join/region_places.hpp"
#include "far_partition/far_policy.hpp"
#include "far_partition/far_target.cuh"
#include "hash_join/join_plan.hpp"
#include "hash_join/region_sums.hpp"
#include "out_of_core/batch_joiner.hpp"
#include "out_of_core/join_state.hpp"
#include "out_of_core/result_writer.hpp"
#include "out_of_core/row_index.hpp"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/split_regions.hpp"
#include "tier/tier_policy.hpp"

namespace spillway::cuda {

namespace {

void require(bool holds, const char* what) {
    if (!holds) throw Error(ErrorCode::kInvalid, std::string("joins of far memory: ") + what);
}

uint64_t floor_power_of_two(uint64_t value) {
    uint64_t power = 1;
    while (power <= value / 2) power *= 2;
    return power;
}

void check(const CoherentSpec& spec) {
    require(spec.join.kind.inner(), "inner joins alone");
    for (const std::vector<uint32_t>& widths : spec.join.widths) {
        require(widths.empty() || (widths.size() == 1 && widths[0] == spec.join.key_bytes),
                "no payload, or one of the key's width");
    }
    require(spec.options.chunks > 0, "a side comes in at least a chunk");
}

// As far_pages_needed() of all chunks, however they are cut.
uint64_t pages_of_side(uint64_t rows, uint64_t chunks, uint64_t page_rows, int radix_bits) {
    return rows / page_rows + std::min(rows, chunks << radix_bits);
}

uint64_t page_bytes_for(const CoherentSpec& spec, uint64_t row_bytes) {
    const uint64_t partitions = uint64_t{spec.options.chunks} << spec.join.sizes.radix_bits;
    const uint64_t partition_bytes = (spec.rows[0] + spec.rows[1]) / 2 / partitions * row_bytes;
    return std::clamp(floor_power_of_two(partition_bytes / kCoherentPageShare), kCoherentPageBytesMin,
                      kCoherentPageBytesMax);
}

uint64_t limit_of(const CoherentSpec& spec, Device& device) {
    const uint64_t limit_bytes = device.memory().limit_bytes();
    return spec.options.device_bytes == 0 ? limit_bytes : std::min(spec.options.device_bytes, limit_bytes);
}

// Result rows need places of their own, which an index's probes count before they write.
bool has_second_pass(const CoherentSpec& spec) {
    return spec.options.second_pass && spec.join.result != OutOfCoreResult::kRows;
}

uint64_t group_rows_for(const CoherentSpec& spec, uint64_t row_bytes, uint64_t limit_bytes) {
    if (spec.options.group_rows > 0) return spec.options.group_rows;
    if (has_second_pass(spec)) {
        const uint64_t mean_rows = std::max(spec.rows[0], spec.rows[1]) >> spec.join.sizes.radix_bits;
        const uint64_t small = std::min(kSecondPassRows, limit_bytes / kSecondPassShare / row_bytes);
        return std::max(small, std::min(2 * mean_rows, limit_bytes / kSecondPassLargeShare / row_bytes));
    }
    const uint64_t mean_rows = spec.rows[0] >> spec.join.sizes.radix_bits;
    const uint64_t small = std::min(kCoherentGroupRows, limit_bytes / kGroupShare / row_bytes);
    return std::max(small, std::min(2 * mean_rows, limit_bytes / kPartitionShare / row_bytes));
}

}  // namespace

FarPartitionOptions first_pass_options(const CoherentSpec& spec, const DeviceProperties& properties) {
    FarPartitionOptions options;
    options.radix_bits = spec.join.sizes.radix_bits;
    options.partitioner =
        spec.options.partitioner.value_or(best_far_partitioner(properties, spec.join.key_bytes, options.radix_bits));
    options.grid = spec.options.partition_grid;
    return options;
}

CoherentShape CoherentShape::make(const CoherentSpec& spec, Device& device) {
    check(spec);
    const uint64_t limit_bytes = limit_of(spec, device);
    OutOfCoreSpec join = spec.join;
    for (std::vector<uint32_t>& widths : join.widths) widths.resize(1, join.key_bytes);  // where there is none, the key
    join.sizes.chunk_rows = std::max<uint64_t>(1, join.sizes.chunk_rows);
    const JoinShape staged = JoinShape::make(join);  // checks the result's columns
    CoherentShape shape;
    shape.rows = staged.rows[0];
    shape.columns = staged.columns;
    shape.partitions = staged.partitions;
    const uint64_t row_bytes = shape.rows.row_bytes();
    shape.page_rows = spec.options.page_rows > 0 ? spec.options.page_rows : page_bytes_for(spec, row_bytes) / row_bytes;
    require((shape.page_rows & (shape.page_rows - 1)) == 0 && shape.page_bytes() >= kFarLineBytes &&
                shape.page_bytes() <= kTierPageBytesMax,
            "pages of a power of two of rows, 128 bytes to 2 MiB");
    for (const uint64_t rows : spec.rows) {
        require(rows < 1ULL << 48, "less than 2^48 rows");
        shape.pages += pages_of_side(rows, spec.options.chunks, shape.page_rows, join.sizes.radix_bits);
    }
    require(shape.pages <= kPagesMax, "less than 2^26 pages");
    const uint64_t group_rows = group_rows_for(spec, row_bytes, limit_bytes);
    shape.group_pages = std::max<uint64_t>(2, (group_rows + shape.page_rows - 1) / shape.page_rows);
    shape.second_pass = has_second_pass(spec);
    if (shape.second_pass) {
        const int done = join.sizes.radix_bits;
        shape.split_bits = second_pass_bits(device, shape.rows, spec.rows[0] >> done, done);
        return shape;
    }
    shape.batch_tiles = kFarProbeTiles;
    if (join.result != OutOfCoreResult::kRows && !spec.options.gather_probe) return shape;
    const uint64_t most_rows = std::min(kStagedRows, limit_bytes / kStagedShare / row_bytes);
    shape.staged_rows = std::max(shape.page_rows, floor_power_of_two(std::min(most_rows, 2 * shape.group_rows())));
    // Each partition of a batch may leave a tile unfilled.
    shape.batch_tiles = shape.staged_rows / kTileRows + std::min(shape.partitions, shape.staged_rows) + 1;
    return shape;
}

uint64_t CoherentShape::partition_bytes(const DeviceProperties& properties, const CoherentSpec& spec) const {
    // Directory of at most 4 slots per page, two lists of addresses; cursors, counts and first pages of partitions.
    const uint64_t counts = second_pass ? 2 * (partitions << split_bits) : 0;
    return far_buffer_bytes(properties, first_pass_options(spec, properties), spec.join.key_bytes) +
           (pages * (2 * kDirectorySlotsPerPage + 2) + partitions * 4 + counts) * sizeof(uint64_t);
}

uint64_t CoherentShape::split_rows() const {
    return group_rows() + (kSecondPassPartitions << split_bits) * kRegionAlignRows;
}

// Pages are cut evenly, into tiles as large as a block of the pass takes.
uint32_t CoherentShape::split_tile_rows(Device& device) const {
    const uint64_t most = cuda::split_tile_rows(device, rows, split_bits);
    const uint64_t tiles = (page_rows + most - 1) / most;
    const uint64_t even = (page_rows + tiles - 1) / tiles;
    return static_cast<uint32_t>((even + kTileRowsStep - 1) / kTileRowsStep * kTileRowsStep);
}

uint64_t CoherentShape::join_bytes(const CoherentSpec& spec) const {
    const uint64_t row_bytes = rows.row_bytes();
    if (second_pass) {
        // Lists of pages on their way: four words each, and half as much again for later ones.
        const uint64_t group_pieces = 2 * (group_pages + spec.options.chunks * kSecondPassPartitions);
        const uint64_t words = kSecondPassLists * 6 * (std::min(group_pieces, pages) + 2 * partitions);
        return 2 * kSecondPassSlots * split_rows() * row_bytes + words * sizeof(uint64_t) +
               RegionPlaces::memory_bytes(partitions, split_bits) +
               RegionSums::memory_bytes(kSecondPassPartitions << split_bits);
    }
    const uint64_t pool_rows = 2 * group_rows();
    uint64_t bytes = pool_rows * row_bytes + RowIndex::scratch_rows(group_rows()) * row_bytes;
    bytes += RowIndex::buckets_max(pool_rows, partitions) * sizeof(uint32_t);
    bytes += partitions * sizeof(IndexedPartition) + pages * sizeof(char*);
    // Counters of the index, of 2^8 regions per partition: five words each.
    bytes += 5 * sizeof(uint64_t) * (std::min(partitions, 2 * group_pages) << kPassBitsMax);
    // Lists of what is gathered, and of pieces on their way to probes.
    const uint64_t probe_pieces = std::min(batch_tiles, pages + partitions);
    bytes += (kUnitsAhead + 1) * 2 * (2 * group_pages + partitions) * sizeof(RowCopy);
    bytes += kParcelSlots * 2 * std::max(probe_pieces, group_pages + partitions) * sizeof(RowPiece);
    if (staged_rows > 0) {
        bytes += kUnitsAhead * staged_rows * row_bytes;
        bytes += (kUnitsAhead + 1) * 2 * (staged_rows / page_rows + 2 * partitions) * sizeof(RowCopy);
    }
    if (spec.join.result != OutOfCoreResult::kRows) return bytes;
    bytes += spec.join.sizes.result_slots * ResultWriter::slot_bytes(columns, spec.join.sizes.result_rows);
    return bytes + BatchJoiner::memory_bytes(batch_tiles);
}

StripeShares CoherentShape::shares(Device& device, const CoherentSpec& spec, bool has_peer) const {
    const StripeShares& wanted = spec.options.shares;
    if (wanted.device + uint64_t{wanted.peer} + wanted.host > 0) return wanted;
    const uint64_t limit_bytes = limit_of(spec, device);
    const uint64_t used_bytes = std::max(partition_bytes(device.properties(), spec), join_bytes(spec)) +
                                pages * sizeof(char*) + kCoherentReserveBytes + limit_bytes / kCoherentReserveShare;
    const uint64_t free_bytes = std::min(device.memory().free_bytes(), limit_bytes);
    const uint64_t cache_bytes = free_bytes > used_bytes ? free_bytes - used_bytes : 0;
    const uint64_t near_pages = std::min(pages, cache_bytes / page_bytes());
    StripeShares shares;
    shares.device = static_cast<uint32_t>(near_pages);
    (has_peer ? shares.peer : shares.host) = static_cast<uint32_t>(pages - near_pages);
    return shares;
}

}  // namespace spillway::cuda
