// SPDX-License-Identifier: Apache-2.0
#include "memory_model/staged_memory.hpp"

#include <algorithm>

#include "group_by/plan/group_policy.hpp"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/row_layout.hpp"
#include "staged_group_by/staged_group_policy.hpp"
#include "staged_join/staged_join_policy.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace memory_model {

namespace {

// Lists that are on their way to kernels take this many bytes for each partition or page in them.
constexpr uint64_t kListBytes = 96;
// Scratch of prefix sums and what rounding up takes.
constexpr uint64_t kJoinSlackBytes = 16ULL << 20;
constexpr uint64_t kGroupBySlackBytes = 32ULL << 20;
// The smallest table of groups in GPU memory has three words for a sum of 8 bytes. In the slack there is room for one
// of rows that joins could have.
uint64_t wide_table_bytes(uint64_t row_bytes) {
    return row_bytes <= 4ULL * kRowWordsMax ? 0 : kGlobalSlotsMin * row_bytes * 3 / 2;
}
// A partition takes this many bytes in the tables of the smallest group-by.
constexpr uint64_t kPartitionTableBytes = 256;
// Key and validity bit of a row without a key.
constexpr uint64_t kKeylessBytes = 5;

uint64_t words_of(uint32_t key_bytes, const ColumnWidths& widths) {
    return RowLayout::words_for(key_bytes, widths);
}

void fill_sides(const StagedJoinSpec& spec, uint64_t partitions, StagedJoinMemory& memory) {
    for (int side = 0; side < 2; ++side) {
        const uint64_t row_words = words_of(spec.key_bytes, spec.widths[side]);
        const uint64_t words = packed_words_max(static_cast<uint32_t>(row_words), spec.sizes.chunk_rows, partitions);
        memory.row_bytes[side] = row_words * sizeof(uint32_t);
        memory.chunk_bytes[side] = ChunkLayout(spec.key_bytes, spec.widths[side], spec.sizes.chunk_rows).bytes;
        memory.packed_bytes[side] = words * sizeof(uint32_t);
        memory.run_words = std::max(memory.run_words, words);
        memory.slot_bytes = std::max({memory.slot_bytes, memory.packed_bytes[side], memory.chunk_bytes[side]});
    }
}

}  // namespace

StagedJoinMemory staged_join_memory(const StagedJoinSpec& spec) {
    const StreamSizes& sizes = spec.sizes;
    const uint64_t partitions = 1ULL << sizes.radix_bits;
    const uint64_t page_rows = sizes.pages * sizes.page_rows;
    StagedJoinMemory memory;
    fill_sides(spec, partitions, memory);
    for (const uint32_t width : spec.output_widths()) memory.result_row_bytes += width;
    memory.result_bytes = result_bytes(spec.output_widths(), sizes.result_rows);
    memory.probe_tiles = probe_tiles_max(sizes.chunk_rows, partitions);
    // Two chunks, or two partitions of the mean size that fits: evicted rows leave a chunk at a time.
    memory.index_rows = std::min(page_rows, 2 * std::max(sizes.chunk_rows, page_rows / partitions));
    memory.marked_rows = spec.kind.marks_probe_rows() ? kMarkedChunks * sizes.chunk_rows : 0;

    const uint64_t row_bytes = std::max(memory.row_bytes[0], memory.row_bytes[1]);
    // Partitioned chunks: two, of which one may be in its second pass.
    const uint64_t passes = sizes.radix_bits > kPassBitsMax ? 2 : 1;
    const uint64_t chunk = (sizes.chunk_rows + partitions * kRegionAlignRows) * row_bytes + partitions * 256;
    uint64_t bytes = sizes.chunk_slots * memory.slot_bytes + (1 + passes) * chunk;
    // Rows without a key are partitioned by themselves: two chunks of them, and which rows they are.
    if (spec.kind.keeps_unmatched_build() || spec.kind.keeps_unmatched_probe())
        bytes += 2 * chunk + sizes.chunk_rows / 8;
    bytes += sizes.filter_words * sizeof(uint64_t) + sizes.chunk_rows / 8 + memory.marked_rows;
    bytes += kRunBuffers * memory.run_words * sizeof(uint32_t) + (spec.kind.marks_build_rows() ? page_rows : 0);
    // Extremes of fields.
    bytes += 2 * partitions * kCodeFieldsMax * kFieldExtremesBytes;
    memory.device_bytes = bytes + indexed_join_bytes(spec, memory);
    return memory;
}

uint64_t indexed_join_bytes(const StagedJoinSpec& spec, const StagedJoinMemory& memory) {
    const StreamSizes& sizes = spec.sizes;
    const uint64_t partitions = 1ULL << sizes.radix_bits;
    const uint64_t page_rows = sizes.pages * sizes.page_rows;
    uint64_t bytes = page_rows * memory.row_bytes[0];
    bytes += index_scratch_rows(memory.index_rows) * memory.row_bytes[0] +
             index_buckets_max(page_rows, partitions) * sizeof(uint32_t);
    bytes += partitions * kIndexedPartitionBytes + sizes.pages * sizeof(uint32_t);
    if (spec.result == JoinResultKind::kRows) {
        bytes += sizes.result_slots * memory.result_bytes + joiner_bytes(memory.probe_tiles);
    }
    bytes += kIndexCounterBytes * (partitions << kPassBitsMax);
    // Lists on their way.
    const uint64_t lists = (partitions + sizes.chunk_rows / std::max<uint64_t>(sizes.page_rows, 1)) * kListBytes;
    return bytes + kParcelSlots * lists + memory.index_rows / 8 + kJoinSlackBytes;
}

PartialColumn partial_of(const StagedGroupBySpec& spec, const StagedAggregate& aggregate) {
    PartialColumn partial;
    if (aggregate.kind == GroupAggregateKind::kCountRows || aggregate.kind == GroupAggregateKind::kCount) {
        return partial;
    }
    partial.kind = aggregate.kind == GroupAggregateKind::kMean ? GroupAggregateKind::kSum : aggregate.kind;
    partial.value_kind = aggregate.value_kind;
    partial.column = aggregate.column;
    partial.decided_by = aggregate.decided_by;
    partial.column_bytes = spec.widths.at(aggregate.column);
    partial.width = partial.kind == GroupAggregateKind::kSum ? 8 : partial.column_bytes;
    return partial;
}

std::vector<PartialColumn> partial_columns(const StagedGroupBySpec& spec) {
    std::vector<PartialColumn> partials;
    const auto add = [&](const PartialColumn& wanted) {
        for (const PartialColumn& partial : partials) {
            if (partial.same(wanted)) return;
        }
        partials.push_back(wanted);
    };
    for (const StagedAggregate& aggregate : spec.aggregates) {
        if (aggregate.kind == GroupAggregateKind::kMean) add({});
        add(partial_of(spec, aggregate));
    }
    return partials;
}

StagedGroupByMemory staged_group_by_memory(const StagedGroupBySpec& spec) {
    const StreamSizes& sizes = spec.sizes;
    const uint64_t partitions = 1ULL << sizes.radix_bits;
    ColumnWidths widths;
    uint64_t widened_bytes = 0;  // of accumulators that are wider than their columns
    for (const PartialColumn& partial : partial_columns(spec)) {
        widths.push_back(partial.width);
        widened_bytes += partial.column_bytes < partial.width ? partial.width : 0;
    }
    StagedGroupByMemory memory;
    const auto row_words = static_cast<uint32_t>(words_of(spec.key_bytes, widths));
    memory.row_bytes = row_words * sizeof(uint32_t);
    memory.chunk_bytes = ChunkLayout(spec.key_bytes, spec.widths, sizes.chunk_rows).bytes;
    memory.run_words = packed_words_max(row_words, sizes.chunk_rows, partitions);
    memory.packed_bytes = memory.run_words * sizeof(uint32_t);
    memory.slot_bytes = std::max(memory.packed_bytes, memory.chunk_bytes);
    memory.result_bytes = result_bytes(spec.output_widths(), sizes.result_rows);
    memory.list_rows = std::min(sizes.chunk_rows, kGroupListRows);

    // Partitioned chunks: two, of which one may be in its second pass.
    const uint64_t passes = sizes.radix_bits > kPassBitsMax ? 2 : 1;
    const uint64_t gaps = partitions * kRegionAlignRows * memory.row_bytes;
    uint64_t bytes =
        sizes.chunk_slots * memory.slot_bytes + (1 + passes) * (sizes.chunk_rows * memory.row_bytes + gaps);
    bytes += kRunBuffers * memory.run_words * sizeof(uint32_t);
    bytes += sizes.pages * sizes.page_rows * memory.row_bytes;
    // Rows that leave or come back, groups of the last chunk, columns of it that are widened, keys of keyless rows,
    // keys that are mixed again; columns of rows that are aggregated. The list of few groups, and its groups.
    bytes += sizes.chunk_rows *
             (2 * memory.row_bytes + widened_bytes + (spec.null_group ? kKeylessBytes : 0) + spec.key_bytes);
    bytes += 2 * memory.list_rows * memory.row_bytes;
    // What is decided by another column takes less than a group-by does, after it.
    bytes += (1 + kGroupByRowsPerRow) * sizes.merge_rows * memory.row_bytes + gaps;
    bytes += sizes.result_slots * memory.result_bytes;
    // Lists on their way, extremes of fields, tables of a group-by at least.
    const uint64_t lists = (partitions + sizes.merge_rows / std::max<uint64_t>(sizes.page_rows, 1)) * kListBytes;
    memory.device_bytes = bytes + kParcelSlots * lists +
                          2 * partitions * (kCodeFieldsMax * kFieldExtremesBytes + kPartitionTableBytes) +
                          kGroupBySlackBytes + wide_table_bytes(memory.row_bytes);
    return memory;
}

}}  // namespace spillway::cuda::memory_model
