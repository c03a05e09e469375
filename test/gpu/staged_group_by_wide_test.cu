// SPDX-License-Identifier: Apache-2.0
// Group-bys beyond GPU memory whose partial rows are wider than rows of joins: up to all accumulators that there may
// be, in memory, spilled to host memory and to disk.
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "memory_model/staged_memory.hpp"
#include "support/error_of.hpp"
#include "support/spill_disks.hpp"
#include "support/staged_group_by_check.hpp"

namespace spillway::gpu_test {

namespace {

constexpr auto kMost = static_cast<size_t>(cuda::kGroupAggregatesMax);

// Keys and so many columns of 4 bytes, each of which is summed in 8: those of even numbers unsigned, the others signed,
// as the halves of 64-bit numbers are.
HostTable table_of_halves(const std::vector<uint64_t>& keys, uint32_t key_width, size_t columns,
                          double null_share = 0) {
    HostTable table;
    std::vector<uint8_t> valid;
    if (null_share > 0) valid = null_mask(keys.size(), null_share, test_seed());
    table.columns.push_back(group_keys_column(keys, key_width, std::move(valid)));
    for (size_t c = 1; c <= columns; ++c) {
        const ValueKind kind = c % 2 == 0 ? ValueKind::kUnsigned : ValueKind::kSigned;
        table.columns.push_back(value_column(keys.size(), 4, kind, test_seed(), c));
    }
    return table;
}

std::vector<WantedAggregate> sums_of(size_t columns, bool counted) {
    std::vector<WantedAggregate> wanted;
    for (size_t c = 1; c <= columns; ++c) {
        wanted.push_back({Aggregate::kSum, c, c % 2 == 0 ? ValueKind::kUnsigned : ValueKind::kSigned});
    }
    if (counted) wanted.push_back({Aggregate::kCountRows});
    return wanted;
}

StagedGroupByCheck check_of_halves(const std::vector<uint64_t>& keys, uint32_t key_width, size_t columns, bool counted,
                                   double null_share = 0) {
    return StagedGroupByCheck(table_of_halves(keys, key_width, columns, null_share), sums_of(columns, counted),
                              null_share > 0);
}

uint64_t row_bytes_of(const StagedGroupByCheck& check) {
    return cuda::staged_group_by_memory(check.spec(least_group_sizes(0))).row_bytes;
}

// Chunks as they are, too: then all of their rows pass through every kernel for partial rows.
void check_all_ways(const StagedGroupByCheck& check, int radix_bits, const std::string& what) {
    const uint64_t rows = check.table().rows();
    check.run(ample_group_sizes(rows, radix_bits), what + ", pages for all");
    check.run(least_group_sizes(radix_bits), what + ", least pages");
    for (StreamSizes sizes : {ample_group_sizes(rows / 2, radix_bits), least_group_sizes(radix_bits)}) {
        sizes = with_pre_aggregation(sizes, PreAggregation::kNever);
        check.run(sizes, what + ", " + std::to_string(sizes.pages) + " pages, chunks as they are");
    }
}

}  // namespace

GPU_TEST("staged group-by of wide rows: from two exact sums to all accumulators") {
    const uint64_t rows = small_or_full(1500, 20000);
    for (const uint32_t key_width : {4U, 8U}) {
        for (const size_t columns : {size_t{4}, size_t{5}, size_t{12}, size_t{24}, kMost}) {
            if (!full_suite() && (columns / 4 + key_width / 4 + test_seed()) % 2 != 0) continue;
            const bool counted = columns < kMost;
            const StagedGroupByCheck check =
                check_of_halves(drawn_keys(rows, rows / 3, test_seed()), key_width, columns, counted);
            CHECK_EQ(row_bytes_of(check), key_width + 8 * columns + (counted ? 8 : 0));
            check_all_ways(check, 2, std::to_string(columns) + " sums, keys of " + std::to_string(key_width));
        }
    }
}

GPU_TEST("staged group-by of wide rows: numbers of groups, NULL keys, two passes") {
    const uint64_t rows = small_or_full(1500, 30000);
    for (const uint64_t groups : {uint64_t{1}, uint64_t{40}, rows}) {
        const std::vector<uint64_t> keys =
            groups == rows ? sparse_keys(rows, test_seed()) : drawn_keys(rows, groups, test_seed());
        const std::string what = std::to_string(groups) + " groups";
        check_all_ways(check_of_halves(keys, 8, 6, true), 3, what);
        check_all_ways(check_of_halves(keys, 4, 7, true, 0.1), 2, what + " with NULL keys");
    }
    const StagedGroupByCheck passes = check_of_halves(sparse_keys(rows, test_seed()), 8, 9, true, 0.02);
    for (const int bits : {0, 9, 11}) {
        if (!full_suite() && bits == 11) continue;
        passes.run(ample_group_sizes(rows, bits), std::to_string(bits) + " bits");
        passes.run(least_group_sizes(bits), std::to_string(bits) + " bits, least pages");
    }
}

GPU_TEST("staged group-by of wide rows: extremes of every width, side by side with sums and means") {
    struct Type {
        uint32_t width;
        ValueKind kind;
    };
    constexpr Type kTypes[] = {{1, ValueKind::kUnsigned}, {8, ValueKind::kFloat},   {2, ValueKind::kSigned},
                               {4, ValueKind::kUnsigned}, {8, ValueKind::kSigned},  {1, ValueKind::kSigned},
                               {4, ValueKind::kFloat},    {2, ValueKind::kUnsigned}};
    const uint64_t rows = small_or_full(1200, 12000);
    HostTable table;
    table.columns.push_back(group_keys_column(drawn_keys(rows, rows / 4, test_seed()), 4));
    std::vector<WantedAggregate> extremes;
    std::vector<WantedAggregate> mixed = {{Aggregate::kCountRows}};
    for (size_t c = 1; c <= std::size(kTypes); ++c) {
        const Type type = kTypes[c - 1];
        table.columns.push_back(value_column(rows, type.width, type.kind, test_seed(), c));
        extremes.push_back({Aggregate::kMin, c, type.kind});
        extremes.push_back({Aggregate::kMax, c, type.kind});
        mixed.push_back({Aggregate::kMax, c, type.kind});
        if (c % 2 == 0) mixed.push_back({Aggregate::kMean, c, type.kind});
        if (c % 3 != 0) mixed.push_back({Aggregate::kMin, c, type.kind});
    }
    const StagedGroupByCheck of_extremes(table, extremes);
    CHECK_EQ(row_bytes_of(of_extremes), 4 + 2 * 30);
    check_all_ways(of_extremes, 2, "extremes");
    // A row of 4 + 2 bytes behind the words: its last word is filled in part.
    extremes.resize(extremes.size() - 1);
    const StagedGroupByCheck padded(table, extremes);
    CHECK_EQ(row_bytes_of(padded), 4 + 2 * 30);
    check_all_ways(padded, 3, "extremes with padding");
    check_all_ways(StagedGroupByCheck(table, mixed), 2, "extremes and means");
}

GPU_TEST("staged group-by of wide rows: tiny pages, one partition that comes back in parts, disk") {
    const uint64_t rows = small_or_full(1200, 9000);
    const StagedGroupByCheck check =
        check_of_halves(repeated_keys(sparse_keys(rows / 2, test_seed()), 2, test_seed()), 8, 10, true, 0.01);
    const StreamReport parts = check.run(least_group_sizes(0), "one partition, few pages");
    CHECK(parts.spilled_rows[0] > 0);
    CHECK(parts.narrowed_parts > 0);
    StreamSizes tiny = least_group_sizes(3, 64, 8);
    CHECK(check.run(tiny, "pages of eight rows").spilled_rows[0] > 0);
    tiny.spill_block_bytes = 4096;
    tiny.spill_bytes = 8192;
    tiny.disk_block_bytes = 4096;
    tiny.disk_blocks = 4;
    MemoryDisk disk;
    const StagedGroupBySpec spec = check.spec(tiny);
    PinnedChunks source = check.chunks(tiny);
    CollectingSink sink = check.sink(spec);
    const StreamReport report = check.run(test_device(), spec, source, sink, "on disk", &disk);
    CHECK(report.disk_written_bytes > 0);
    CHECK_EQ(report.disk_read_bytes, disk.read_bytes());
}

GPU_TEST("staged group-by of wide rows: device memory is what the sizes say, and more accumulators are refused") {
    const uint64_t rows = small_or_full(3000, 1 << 18);
    StreamSizes sizes = ample_group_sizes(rows / 2, 4, small_or_full(1000, 1 << 15), small_or_full(128, 1024));
    sizes.spill_bytes = 1ULL << 30;
    sizes.spill_block_bytes = 4ULL << 20;
    for (const size_t columns : {size_t{4}, kMost}) {
        const StagedGroupByCheck check =
            check_of_halves(sparse_keys(rows, test_seed()), 8, columns, columns < kMost, 0.01);
        for (const auto pre : {PreAggregation::kAlways, PreAggregation::kNever}) {
            const StagedGroupBySpec spec = check.spec(with_pre_aggregation(sizes, pre));
            cuda::Device device(test_device().ordinal(), 8ULL << 30, 2ULL << 30);
            const uint64_t said_bytes = cuda::staged_group_by_memory(spec).device_bytes;
            check.run(device, spec, "a device of its own");
            const uint64_t most_bytes = said_bytes + said_bytes / 64 + (16ULL << 20);
            if (device.memory().peak_bytes() > most_bytes) {
                fail(text_of(device.memory().peak_bytes()) + " bytes were taken, " + text_of(said_bytes) + " announced",
                     __FILE__, __LINE__);
            }
        }
    }
    // Means of all columns add a count to as many sums.
    const StagedGroupByCheck most = check_of_halves(sparse_keys(100, test_seed()), 8, kMost, false);
    StagedGroupBySpec spec = most.spec(ample_group_sizes(100, 1));
    for (cuda::StagedAggregate& aggregate : spec.aggregates) aggregate.kind = cuda::GroupAggregateKind::kMean;
    const cuda::Error error = error_of([&] { const StagedGroupBy unused(test_device(), spec); });
    CHECK_EQ(error.code(), cuda::ErrorCode::kInvalid);
    most.run(ample_group_sizes(100, 1), "after what was refused");
}

}  // namespace spillway::gpu_test
