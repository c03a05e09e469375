// SPDX-License-Identifier: Apache-2.0
#include "memory_model/coherent_memory.hpp"

#include <algorithm>
#include <string>

#include "api/error.hpp"
#include "coherent_join/coherent_policy.hpp"
#include "far_partition/far_policy.hpp"
#include "far_partition/far_sizes.hpp"
#include "hash_join/join_memory.hpp"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/row_layout.hpp"
#include "stream/stream_policy.hpp"
#include "tier/tier_policy.hpp"

namespace spillway::cuda { inline namespace memory_model {

namespace {

void require(bool holds, const char* what) {
    if (!holds) throw Error(ErrorCode::kInvalid, std::string("joins of far memory: ") + what);
}

uint64_t floor_power_of_two(uint64_t value) {
    uint64_t power = 1;
    while (power <= value / 2) power *= 2;
    return power;
}

// Returns far_pages_needed() of all chunks, however they are cut. keyless: rows without a key are kept, as if they
// were a partition more.
uint64_t pages_of_side(uint64_t rows, uint64_t chunks, uint64_t page_rows, int radix_bits, bool keyless) {
    return rows / page_rows + std::min(rows, (chunks << radix_bits) + (keyless ? chunks : 0));
}

uint64_t page_bytes_for(const CoherentJoinSpec& spec, uint64_t row_bytes) {
    const uint64_t partitions = uint64_t{spec.options.chunks} << spec.join.sizes.radix_bits;
    const uint64_t partition_bytes = (spec.rows[0] + spec.rows[1]) / 2 / partitions * row_bytes;
    return std::clamp(floor_power_of_two(partition_bytes / kCoherentPageShare), kCoherentPageBytesMin,
                      kCoherentPageBytesMax);
}

uint64_t group_rows_for(const CoherentJoinSpec& spec, bool second_pass, uint64_t row_bytes, uint64_t limit_bytes) {
    if (spec.options.group_rows > 0) return spec.options.group_rows;
    if (second_pass) {
        const uint64_t mean_rows = std::max(spec.rows[0], spec.rows[1]) >> spec.join.sizes.radix_bits;
        const uint64_t small = std::min(kSecondPassRows, limit_bytes / kSecondPassShare / row_bytes);
        return std::max(small, std::min(2 * mean_rows, limit_bytes / kSecondPassLargeShare / row_bytes));
    }
    const uint64_t mean_rows = spec.rows[0] >> spec.join.sizes.radix_bits;
    const uint64_t small = std::min(kCoherentGroupRows, limit_bytes / kGroupShare / row_bytes);
    return std::max(small, std::min(2 * mean_rows, limit_bytes / kPartitionShare / row_bytes));
}

// Without a second pass: probe rows are gathered where results are rows, where they may be marked, or where they are
// asked to be.
void set_batches(const CoherentJoinSpec& spec, uint64_t limit_bytes, CoherentMemory& memory) {
    const JoinKind& kind = spec.join.kind;
    memory.probe_tiles = kFarProbeTiles;
    if (spec.join.result != JoinResultKind::kRows && kind.inner() && !spec.options.gather_probe) return;
    const uint64_t most_rows = std::min(kStagedRows, limit_bytes / kStagedShare / memory.row_bytes());
    memory.staged_rows = std::max(memory.page_rows, floor_power_of_two(std::min(most_rows, 2 * memory.group_rows())));
    // Each partition of a batch may leave a tile unfilled.
    memory.probe_tiles = memory.staged_rows / kTileRows + std::min(memory.partitions, memory.staged_rows) + 1;
    memory.build_marks = kind.marks_build_rows() ? 2 * memory.group_rows() : 0;
    if (!kind.marks_probe_rows()) return;
    const uint64_t marks =
        spec.options.marked_rows > 0 ? spec.options.marked_rows : std::min(kMarkedRows, limit_bytes / kMarkedShare);
    memory.marked_rows = std::max(memory.page_rows, std::min(spec.rows[kProbeSide], marks));
}

// Directory of at most 4 slots per page, two lists of addresses; cursors, counts and first pages of partitions.
uint64_t partition_bytes_of(const CoherentJoinSpec& spec, const GpuFacts& gpu, const CoherentMemory& memory) {
    FarBufferOptions options;
    options.radix_bits = spec.join.sizes.radix_bits;
    options.grid = spec.options.partition_grid;
    options.partitioner = spec.options.partitioner;
    if (options.partitioner == FarPartitioner::kBest) {
        options.partitioner = best_far_partitioner(gpu, spec.join.key_bytes, options.radix_bits);
    }
    const uint64_t counts = memory.second_pass ? 2 * (memory.partitions << memory.split_bits) : 0;
    return far_buffer_bytes(gpu, options, spec.join.key_bytes) +
           (memory.pages * (2 * kDirectorySlotsPerPage + 2) + memory.partitions * 4 + counts) * sizeof(uint64_t);
}

// Lists of pages on their way: four words each, and half as much again for later ones. Regions of the second pass with
// their counts, and what sums of regions take.
uint64_t second_pass_bytes(const CoherentJoinSpec& spec, const CoherentMemory& memory) {
    const uint64_t group_pieces = 2 * (memory.group_pages + spec.options.chunks * kSecondPassPartitions);
    const uint64_t lists = kSecondPassLists * 6 * (std::min(group_pieces, memory.pages) + 2 * memory.partitions);
    const uint64_t regions = 2 * (6 * (memory.partitions << memory.split_bits) + memory.partitions + 1);
    const uint64_t sums = 3 * (kSecondPassPartitions << memory.split_bits) + 64;
    // A third pass: regions of one partition on both sides with their counts, and how large regions are.
    const uint64_t third = 12 * (uint64_t{1} << (memory.split_bits + kThirdPassBitsMax)) + memory.partitions;
    return 2 * kSecondPassSlots * memory.split_rows() * memory.row_bytes() +
           (lists + regions + sums + third) * sizeof(uint64_t);
}

uint64_t index_bytes(const CoherentJoinSpec& spec, const CoherentMemory& memory) {
    const uint64_t row_bytes = memory.row_bytes();
    const uint64_t pool_rows = 2 * memory.group_rows();
    uint64_t bytes = (pool_rows + index_scratch_rows(memory.group_rows())) * row_bytes;
    bytes += index_buckets_max(pool_rows, memory.partitions) * sizeof(uint32_t);
    bytes += memory.partitions * kIndexedPartitionBytes + memory.pages * sizeof(char*);
    bytes += kIndexCounterBytes * (std::min(memory.partitions, 2 * memory.group_pages) << kPassBitsMax);
    // Lists of what is gathered, and of pieces on their way to probes.
    const uint64_t probe_pieces = std::min(memory.probe_tiles, memory.pages + memory.partitions);
    bytes += (kUnitsAhead + 1) * 2 * (2 * memory.group_pages + memory.partitions) * kRowCopyBytes;
    bytes += kParcelSlots * 2 * std::max(probe_pieces, memory.group_pages + memory.partitions) * kRowPieceBytes;
    bytes += memory.build_marks + memory.marked_rows;
    if (memory.staged_rows > 0) {
        bytes += kUnitsAhead * memory.staged_rows * row_bytes;
        bytes +=
            (kUnitsAhead + 1) * 2 * (memory.staged_rows / memory.page_rows + 2 * memory.partitions) * kRowCopyBytes;
    }
    if (spec.join.result != JoinResultKind::kRows) return bytes;
    return bytes + spec.join.sizes.result_slots * memory.result_bytes + joiner_bytes(memory.probe_tiles);
}

}  // namespace

uint64_t mapped_stripe_bytes(uint64_t bytes) {
    return bytes / kStripeBytes >= kMappedStripesLeast ? kStripeBytes : kStripeBytesMin;
}

uint64_t CoherentMemory::split_rows() const {
    return group_rows() + (kSecondPassPartitions << split_bits) * kRegionAlignRows;
}

uint64_t CoherentMemory::taken_bytes() const {
    return std::max(partition_bytes, join_bytes) + pages * sizeof(char*) + reserve_bytes;
}

uint64_t CoherentMemory::near_pages(uint64_t free_bytes) const {
    const uint64_t taken = taken_bytes();
    return free_bytes > taken ? std::min(pages, (free_bytes - taken) / page_bytes()) : 0;
}

CoherentMemory coherent_join_memory(const CoherentJoinSpec& spec, const GpuFacts& gpu, uint64_t limit_bytes) {
    require(spec.join.can_be_coherent(), "no payload, or one of the key's width");
    require(spec.options.chunks > 0, "a side comes in at least a chunk");
    const int radix_bits = spec.join.sizes.radix_bits;
    require(radix_bits >= 0 && radix_bits <= kFirstPassBitsMax, "0 to 12 radix bits in their first pass");
    CoherentMemory memory;
    memory.row_words = 2 * spec.join.key_bytes / sizeof(uint32_t);
    memory.partitions = 1ULL << radix_bits;
    const uint64_t row_bytes = memory.row_bytes();
    memory.page_rows =
        spec.options.page_rows > 0 ? spec.options.page_rows : page_bytes_for(spec, row_bytes) / row_bytes;
    require((memory.page_rows & (memory.page_rows - 1)) == 0 && memory.page_bytes() >= kFarLineBytes &&
                memory.page_bytes() <= kTierPageBytesMax,
            "pages of a power of two of rows, 128 bytes to 2 MiB");
    const JoinKind& kind = spec.join.kind;
    for (const int side : {kBuildSide, kProbeSide}) {
        const uint64_t rows = spec.rows[side];
        require(rows < 1ULL << 48, "less than 2^48 rows");
        const bool keyless = side == kBuildSide ? kind.keeps_unmatched_build() : kind.keeps_unmatched_probe();
        memory.pages += pages_of_side(rows, spec.options.chunks, memory.page_rows, radix_bits, keyless);
    }
    // Result rows need places of their own, which an index's probes count before they write; rows that are given once,
    // or for having no partner, are marked by such probes. Tables compare the first word of a key alone.
    memory.second_pass = spec.options.second_pass && kind.inner() && spec.join.result != JoinResultKind::kRows &&
                         spec.join.key_columns == 0;
    require(!spec.options.perfect_hash || memory.second_pass, "perfect hashing for counts and sums of inner joins");
    const uint64_t group_rows = group_rows_for(spec, memory.second_pass, row_bytes, limit_bytes);
    memory.group_pages = std::max<uint64_t>(2, (group_rows + memory.page_rows - 1) / memory.page_rows);
    if (memory.second_pass) {
        static_assert(kSecondPassBitsMax == kPassBitsMax && kFirstPassBitsMax + kSecondPassBitsMax <= 32);
        require(spec.options.split_bits >= 0 && spec.options.split_bits <= kSecondPassBitsMax,
                "1 to 8 radix bits in a second pass");
        memory.split_bits = spec.options.split_bits > 0
                                ? spec.options.split_bits
                                : second_pass_bits(gpu, spec.join.key_bytes / sizeof(uint32_t), memory.row_words,
                                                   spec.rows[0] >> radix_bits, radix_bits);
    } else {
        set_batches(spec, limit_bytes, memory);
    }
    if (spec.join.result == JoinResultKind::kRows) {
        memory.result_bytes = result_bytes(spec.join.output_widths(), spec.join.sizes.result_rows);
    }
    memory.partition_bytes = partition_bytes_of(spec, gpu, memory);
    memory.join_bytes = memory.second_pass ? second_pass_bytes(spec, memory) : index_bytes(spec, memory);
    memory.reserve_bytes = kCoherentReserveBytes + limit_bytes / kCoherentReserveShare;
    return memory;
}

}}  // namespace spillway::cuda::memory_model
