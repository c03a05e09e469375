// SPDX-License-Identifier: Apache-2.0
// Group-bys beyond GPU memory: what stays, what is aggregated again, what is spilled, and what comes back in parts.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "memory_model/staged_memory.hpp"
#include "support/error_of.hpp"
#include "support/staged_group_by_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;

const std::vector<WantedAggregate> kSumAndCount = {{Aggregate::kSum, 1}, {Aggregate::kCountRows}};

StreamSizes never_grouped(const StreamSizes& sizes) {
    return with_pre_aggregation(sizes, PreAggregation::kNever);
}

}  // namespace

GPU_TEST("staged group-by: few groups never leave device memory") {
    const uint64_t rows = small_or_full(6000, 100000);
    const StagedGroupByCheck check(keyed_values(drawn_keys(rows, 10, test_seed())), kSumAndCount);
    // Chunks become ten rows each.
    StreamSizes sizes = ample_group_sizes(0, 2);
    sizes.pages = 24;
    const StreamReport grouped = check.run(sizes, "ten groups");
    CHECK_EQ(grouped.spilled_rows[0], 0);
    CHECK_EQ(grouped.grouped_chunks, grouped.chunks);
    CHECK(grouped.partial_rows <= 10 * grouped.chunks);
    // Chunks stay as they are, and pages are aggregated where they lie; the last with partitions larger than what is
    // aggregated at once.
    for (const uint64_t merge_rows : {uint64_t{1 << 16}, sizes.chunk_rows}) {
        sizes.merge_rows = merge_rows;
        const StreamReport kept = check.run(never_grouped(sizes), "ten groups, chunks as they are");
        CHECK_EQ(kept.spilled_rows[0], 0);
        CHECK_EQ(kept.grouped_chunks, 0);
        CHECK_EQ(kept.partial_rows, rows);
        CHECK(kept.compacted_rows > 0);
        CHECK_EQ(kept.resident_partitions, 4);
    }
}

GPU_TEST("staged group-by: no more is aggregated again than the next chunk needs") {
    const uint64_t rows = 20000;
    const StagedGroupByCheck check(keyed_values(drawn_keys(rows, 1000, test_seed())), kSumAndCount);
    // 64 partitions of five pages, and room for all but the last chunk or two.
    StreamSizes sizes = ample_group_sizes(0, 6);
    sizes.pages = (rows - sizes.chunk_rows) / sizes.page_rows + 32;
    const StreamReport report = check.run(never_grouped(sizes), "the last chunk finds no room");
    CHECK_EQ(report.spilled_rows[0], 0);
    CHECK(report.compacted_rows > 0);
    CHECK(2 * report.compacted_rows < rows);
}

GPU_TEST("staged group-by: chunks of many groups are left as they are after a look at the first") {
    const uint64_t rows = 4000;
    const StagedGroupByCheck check(keyed_values(sparse_keys(rows, test_seed())), kSumAndCount);
    const StreamReport report = check.run(ample_group_sizes(rows, 2), "a group per row");
    CHECK_EQ(report.chunks, 8);
    CHECK_EQ(report.grouped_chunks, 1);
    CHECK_EQ(report.spilled_rows[0], 0);
    CHECK_EQ(report.partial_rows, rows);
}

GPU_TEST("staged group-by: partitions leave when there are more groups than pages") {
    const uint64_t rows = small_or_full(4000, 60000);
    const StagedGroupByCheck check(keyed_values(sparse_keys(rows, test_seed())), kSumAndCount);
    StreamSizes sizes = ample_group_sizes(rows / 2, 3);
    const StreamReport half = check.run(sizes, "pages for half of the groups");
    CHECK(half.spilled_rows[0] > 0);
    CHECK(half.spilled_rows[0] < rows);
    CHECK(half.resident_partitions > 0);
    CHECK(half.resident_partitions < 8);
    CHECK_EQ(half.narrowed_parts, 0);
    sizes = least_group_sizes(3);
    sizes.pages = 1 + 8 + fewest_group_pages(sizes);
    CHECK(check.run(sizes, "pages for some chunks").spilled_rows[0] > rows / 2);
}

GPU_TEST("staged group-by: one partition with more groups than pages comes back in parts") {
    const uint64_t rows = small_or_full(2000, 8000);
    const StagedGroupByCheck check(keyed_values(repeated_keys(sparse_keys(rows / 2, test_seed()), 2, test_seed())),
                                   kSumAndCount);
    const StreamReport report = check.run(least_group_sizes(0), "one partition, few pages");
    CHECK(report.spilled_rows[0] > 0);
    CHECK(report.narrowed_parts > 0);
    CHECK_EQ(report.resident_partitions, 0);
    // Rows of few groups do not, however many they are: they become few before they leave, or when they are back.
    const StagedGroupByCheck few(keyed_values(drawn_keys(rows, 50, test_seed()), 4), kSumAndCount);
    CHECK_EQ(few.run(never_grouped(least_group_sizes(0)), "one partition, few groups").narrowed_parts, 0);
    const StagedGroupByCheck hot(keyed_values(one_hot_key(rows, 0.9, test_seed()), 8), kSumAndCount);
    StreamSizes sizes = least_group_sizes(1);
    sizes.pages *= 2;
    hot.run(never_grouped(sizes), "one hot key, chunks as they are");
}

GPU_TEST("staged group-by: resident partitions larger than what is aggregated at once") {
    const uint64_t rows = small_or_full(3000, 30000);
    for (const uint64_t groups : {rows / 3, rows}) {
        const std::vector<uint64_t> keys =
            groups == rows ? sparse_keys(rows, test_seed()) : drawn_keys(rows, groups, test_seed());
        const StagedGroupByCheck check(keyed_values(keys), kSumAndCount);
        StreamSizes sizes = ample_group_sizes(rows, 0);
        sizes.merge_rows = sizes.chunk_rows;
        const StreamReport report = check.run(never_grouped(sizes), "one large partition");
        CHECK_EQ(report.spilled_rows[0], 0);
        CHECK(report.compacted_rows >= rows);
    }
}

GPU_TEST("staged group-by: result buffers of one row, and of some") {
    const uint64_t rows = small_or_full(600, 6000);
    const StagedGroupByCheck check(keyed_values(drawn_keys(rows, rows / 6, test_seed()), 8, 0.02), kSumAndCount, true);
    for (const uint64_t result_rows : {1, 7, 100000}) {
        for (const uint32_t slots : {1U, 3U}) {
            if (!full_suite() && (slots == 1) != (result_rows == 1)) continue;
            StreamSizes sizes = least_group_sizes(2);
            sizes.result_rows = result_rows;
            sizes.result_slots = slots;
            check.run(sizes, "results by " + std::to_string(result_rows));
        }
    }
}

GPU_TEST("staged group-by: sums that do not fit 64 bits") {
    // The rows of the sum that overflows lie in one chunk, and then in two.
    for (const uint64_t chunk_rows : {64, 1}) {
        for (const auto pre : {PreAggregation::kAlways, PreAggregation::kNever}) {
            HostTable table;
            table.columns.push_back(group_keys_column({7, 8, 7, 9}, 8));
            table.columns.push_back(column_of(std::vector<int64_t>{INT64_MAX, 1, 1, -1}));
            const StagedGroupByCheck check(table, {{Aggregate::kMax, 1}});
            StagedGroupBySpec spec = check.spec(with_pre_aggregation(ample_group_sizes(4, 1, chunk_rows, 8), pre));
            spec.aggregates[0].kind = cuda::GroupAggregateKind::kSum;
            PinnedChunks source = check.chunks(spec.sizes);
            CollectingSink sink = check.sink(spec);
            const cuda::Error error = error_of([&] { StagedGroupBy(test_device(), spec).run(0, source, &sink); });
            CHECK_EQ(error.code(), ErrorCode::kOverflow);
        }
    }
}

GPU_TEST("staged group-by: sizes say what device memory they take") {
    const uint64_t rows = small_or_full(3000, 1 << 20);
    const StagedGroupByCheck check(keyed_values(sparse_keys(rows, test_seed()), 8, 0.01), kSumAndCount, true);
    StreamSizes sizes = ample_group_sizes(rows / 2, 4, small_or_full(1000, 1 << 16), small_or_full(128, 1024));
    sizes.spill_bytes = 1ULL << 30;
    sizes.spill_block_bytes = 4ULL << 20;
    for (const auto pre : {PreAggregation::kAlways, PreAggregation::kNever}) {
        const StagedGroupBySpec spec = check.spec(with_pre_aggregation(sizes, pre));
        cuda::Device device(test_device().ordinal(), 4ULL << 30, 2ULL << 30);
        const uint64_t said_bytes = cuda::staged_group_by_memory(spec).device_bytes;
        CHECK(said_bytes >= sizes.pages * sizes.page_rows * 24);
        check.run(device, spec, "a device of its own");
        const uint64_t most_bytes = said_bytes + said_bytes / 64 + (16ULL << 20);
        if (device.memory().peak_bytes() > most_bytes) {
            fail(text_of(device.memory().peak_bytes()) + " bytes were taken, " + text_of(said_bytes) + " announced",
                 __FILE__, __LINE__);
        }
        CHECK_EQ(device.memory().blocks(), 0);
        for (const auto size : {&StreamSizes::pages, &StreamSizes::merge_rows}) {
            StagedGroupBySpec more = spec;
            more.sizes.*size *= 2;
            CHECK(cuda::staged_group_by_memory(more).device_bytes > said_bytes);
        }
    }
}

}  // namespace spillway::gpu_test
