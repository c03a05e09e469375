// SPDX-License-Identifier: Apache-2.0
#include "memory_model/baseline_memory.hpp"

#include <algorithm>

#include "api/error.hpp"
#include "baseline_join/baseline_join_policy.hpp"
#include "memory_model/staged_memory.hpp"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/row_layout.hpp"
#include "stream/stream_policy.hpp"
#include "tier/tier_policy.hpp"

namespace spillway::cuda { inline namespace memory_model {

namespace {

// Scratch of prefix sums, totals, what rounding up takes.
constexpr uint64_t kTableSlackBytes = 16ULL << 20;
// The same of joins with blocks of many sizes, and lists of ranges of a result in pieces.
constexpr uint64_t kResidentSlackBytes = 32ULL << 20;
// Bytes of counters and bounds of a partition; rows for each byte of what a merge knows of its tiles: 32 of 2,048 rows.
constexpr uint64_t kPartitionListBytes = 128;
constexpr uint64_t kRowsPerTileByte = 64;
constexpr uint64_t kRowNumberBytes = 4;

// Chunks on their way, and packed: two of them, the one that is looked up and the next one. Beside the table.
uint64_t streamed_bytes(const StagedJoinSpec& join, const StagedJoinMemory& memory) {
    const StreamSizes& sizes = join.sizes;
    const uint64_t row_bytes = std::max(memory.row_bytes[0], memory.row_bytes[1]);
    uint64_t bytes = kStreamedChunks * std::max(memory.chunk_bytes[0], memory.chunk_bytes[1]);
    bytes += 2 * (sizes.chunk_rows + kRegionAlignRows) * row_bytes;
    if (join.result == JoinResultKind::kRows) {
        // Places of result rows, and the scratch of their prefix sum, which takes less than as much.
        bytes += 2 * (sizes.chunk_rows / kGroupRows + 2) * sizeof(uint64_t);
        bytes += sizes.result_slots * memory.result_bytes;
    }
    return bytes + kTableSlackBytes;
}

// Partitioned rows of one side: while a second pass moves them they are there twice.
uint64_t partitioned_bytes(uint64_t rows, uint64_t partitions, uint64_t row_bytes) {
    return 2 * (rows + partitions * kRegionAlignRows) * row_bytes + partitions * kPartitionListBytes;
}

// A power of two that leaves partitions with fewer rows than that.
uint64_t resident_partitions(uint64_t build_rows) {
    return 2 * (1 + build_rows / kResidentPartitionRows);
}

// Keys and row numbers of one side as they are sorted: those that have a key, the outcome, the scratch of the sort; and
// the numbers of rows before there is an order.
uint64_t sorted_bytes(uint64_t rows, uint64_t key_bytes) {
    return rows * (3 * (key_bytes + kRowNumberBytes) + 2 * kRowNumberBytes) + rows / kRowsPerTileByte;
}

void set_stripes(const BaselineJoinSpec& spec, BaselineMemory& memory) {
    const uint64_t parts = spec.shares.device + uint64_t{spec.shares.host};
    if (parts == 0) throw Error(ErrorCode::kInvalid, "stripes of a table lie in some memory");
    memory.stripe_bytes = kStripeBytes;
    memory.stripes = (memory.table_bytes + kStripeBytes - 1) / kStripeBytes;
    // StripePattern deals pages in this way: the GPU never gets more than its share.
    memory.device_stripes =
        memory.stripes / parts * spec.shares.device + memory.stripes % parts * spec.shares.device / parts;
}

}  // namespace

BaselineMemory baseline_join_memory(const BaselineJoinSpec& spec) {
    StagedJoinSpec join = spec.join;
    BaselineMemory memory;
    if (spec.algorithm == BaselineJoin::kCpuPartitioned) {
        const StagedJoinMemory staged = staged_join_memory(join);
        memory.device_bytes = join.sizes.chunk_slots * staged.slot_bytes + indexed_join_bytes(join, staged);
        return memory;
    }
    if (spec.algorithm == BaselineJoin::kStreamProbe && spec.stream_probe != StreamProbe::kTable) {
        memory.table_bytes = resident_build_bytes(join, spec.build_rows, spec.stream_probe);
        memory.device_bytes = resident_join_bytes(join, spec.build_rows, spec.stream_probe);
        return memory;
    }
    join.sizes.radix_bits = 0;
    const StagedJoinMemory staged = staged_join_memory(join);
    const uint64_t slots = table_slots(spec.build_rows, kTableLoadPercent);
    memory.table_bytes = slots * staged.row_bytes[0];
    memory.device_bytes = streamed_bytes(join, staged) + (slots + 31) / 32 * sizeof(uint32_t);
    if (spec.algorithm == BaselineJoin::kNpjFar) {
        set_stripes(spec, memory);
        memory.device_bytes += memory.device_stripes * memory.stripe_bytes;
    } else {
        memory.device_bytes += memory.table_bytes;
    }
    return memory;
}

uint64_t resident_build_bytes(const StagedJoinSpec& join, uint64_t build_rows, StreamProbe stream_probe) {
    if (build_rows > kTableRowsMax) throw Error(ErrorCode::kInvalid, "more build rows than any memory holds");
    // It stays as it comes, with a bit per row, too.
    uint64_t raw_bytes = join.key_bytes;
    for (const uint32_t width : join.widths[kBuildSide]) raw_bytes += width;
    const uint64_t bytes = build_rows * raw_bytes + build_rows / 8;
    if (stream_probe == StreamProbe::kSorted) return bytes + sorted_bytes(build_rows, join.key_bytes);
    const uint64_t row_bytes = RowLayout::words_for(join.key_bytes, join.widths[kBuildSide]) * sizeof(uint32_t);
    return bytes + partitioned_bytes(build_rows, resident_partitions(build_rows), row_bytes);
}

uint64_t resident_join_bytes(const StagedJoinSpec& spec, uint64_t build_rows, StreamProbe stream_probe) {
    StagedJoinSpec join = spec;
    join.sizes.radix_bits = 0;
    const StagedJoinMemory staged = staged_join_memory(join);
    uint64_t bytes = resident_build_bytes(join, build_rows, stream_probe);
    bytes += kStreamedChunks * std::max(staged.chunk_bytes[0], staged.chunk_bytes[1]);
    const bool sorts = stream_probe == StreamProbe::kSorted;
    bytes += sorts ? sorted_bytes(join.sizes.chunk_rows, join.key_bytes)
                   : partitioned_bytes(join.sizes.chunk_rows, resident_partitions(build_rows), staged.row_bytes[1]);
    if (join.result != JoinResultKind::kCount) {
        // Pairs of row numbers with their keys, then rows; or rows in chunks of the output, of which each warp may
        // leave one open.
        const uint64_t rows = std::max(join.sizes.result_rows, kPieceRows);
        const uint64_t row_bytes = staged.result_row_bytes + sizeof(uint32_t);
        bytes += sorts ? rows * (2 * kRowNumberBytes + join.key_bytes + row_bytes)
                       : (3 * rows + kOpenResultRows) * row_bytes;
    }
    if (join.result == JoinResultKind::kRows) bytes += join.sizes.result_slots * staged.result_bytes;
    return bytes + kResidentSlackBytes;
}

uint64_t table_slots(uint64_t build_rows, uint32_t load_percent) {
    if (load_percent == 0 || load_percent > kTableLoadMax) {
        throw Error(ErrorCode::kInvalid, "of the slots of a table 1 to 90 % are taken");
    }
    if (build_rows > kTableRowsMax) throw Error(ErrorCode::kInvalid, "more build rows than any memory holds");
    // One slot more, and more than that by the least load, is empty: walks end.
    return std::max(kSlotsMin, build_rows * 100 / load_percent + 1);
}

}}  // namespace spillway::cuda::memory_model
