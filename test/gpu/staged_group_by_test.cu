// SPDX-License-Identifier: Apache-2.0
// Group-bys beyond GPU memory: sizes, keys, aggregates.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "support/staged_group_by_check.hpp"

namespace spillway::gpu_test {

namespace {

const std::vector<WantedAggregate> kSumAndCount = {{Aggregate::kSum, 1}, {Aggregate::kCountRows}};

// Pages for everything, and as few as there may be.
std::vector<StreamSizes> memories(uint64_t rows, int radix_bits) {
    return {ample_group_sizes(rows, radix_bits), least_group_sizes(radix_bits)};
}

void check_memories(const StagedGroupByCheck& check, int radix_bits, const std::string& what) {
    for (const StreamSizes& sizes : memories(check.table().rows(), radix_bits)) {
        check.run(sizes, what + ", " + std::to_string(sizes.pages) + " pages, " + std::to_string(radix_bits) + " bits");
    }
}

void check_keys(const std::vector<uint64_t>& keys, const std::string& what) {
    for (const uint32_t width : {4U, 8U}) {
        if (!full_suite() && (width == 4) != (test_seed() % 2 == 0)) continue;
        const StagedGroupByCheck check(keyed_values(keys, width), kSumAndCount);
        check_memories(check, 2, what + ", keys of " + std::to_string(width) + " bytes");
    }
}

}  // namespace

GPU_TEST("staged group-by: sizes around the capacities of chunks and pages") {
    constexpr uint64_t kChunkRows = 200;
    uint64_t turn = test_seed();
    for (const uint64_t rows : {uint64_t{0}, uint64_t{1}, uint64_t{2}, kChunkRows - 1, kChunkRows, kChunkRows + 1,
                                uint64_t{256}, 2 * kChunkRows + 1, 5 * kChunkRows}) {
        if (!full_suite() && rows > 1 && ++turn % 2 == 0) continue;
        const StagedGroupByCheck check(keyed_values(drawn_keys(rows, rows / 2 + 1, test_seed())), kSumAndCount);
        check.run(ample_group_sizes(rows, 2, kChunkRows), std::to_string(rows) + " rows");
        check.run(least_group_sizes(1, kChunkRows), std::to_string(rows) + " rows, least pages");
    }
}

GPU_TEST("staged group-by: chunks of one row, of none, of all") {
    StagedGroupByCheck check(keyed_values(drawn_keys(900, 300, test_seed()), 8, 0.05), kSumAndCount, true);
    const std::vector<std::vector<uint64_t>> all_cuts = {{0, 500}, {1, 400, 0, 0, 37}, {33, 500, 1}};
    for (size_t c = 0; c < all_cuts.size(); ++c) {
        if (!full_suite() && c != test_seed() % all_cuts.size()) continue;
        check.cuts = all_cuts[c];
        check.run(ample_group_sizes(900, 2), "chunks of kind " + std::to_string(c));
    }
    StagedGroupByCheck empty(keyed_values({}), kSumAndCount);
    empty.cuts = {0, 0, 500};
    empty.run(ample_group_sizes(0, 3), "chunks without rows alone");
}

GPU_TEST("staged group-by: numbers of groups, with and without groups of chunks") {
    const uint64_t rows = small_or_full(3000, 40000);
    for (const uint64_t groups : {uint64_t{1}, uint64_t{10}, rows / 2, rows}) {
        const std::vector<uint64_t> keys =
            groups == rows ? sparse_keys(rows, test_seed()) : drawn_keys(rows, groups, test_seed());
        const StagedGroupByCheck check(keyed_values(keys), kSumAndCount);
        for (const auto pre : {PreAggregation::kAuto, PreAggregation::kAlways, PreAggregation::kNever}) {
            if (!full_suite() && pre == PreAggregation::kAlways) continue;
            const std::string what = std::to_string(groups) + " groups, pre-aggregation " + text_of(pre);
            check.run(with_pre_aggregation(ample_group_sizes(rows, 3), pre), what);
            check.run(with_pre_aggregation(least_group_sizes(3), pre), what + ", least pages");
        }
    }
}

// Chunks of 500 rows have few groups up to 62. Those of the first ones differ, so that lists of them stay long when
// they are aggregated and go on to the pages; the others have the same five.
GPU_TEST("staged group-by: chunks with few groups, other ones and the same ones") {
    constexpr uint64_t kChunkRows = 500;
    const uint64_t chunks = small_or_full(40, 90);
    for (const uint64_t each : {uint64_t{1}, uint64_t{62}, uint64_t{63}}) {
        std::vector<uint64_t> keys;
        for (uint64_t row = 0; row < chunks * kChunkRows; ++row) {
            const uint64_t chunk = row / kChunkRows;
            keys.push_back(chunk < chunks / 2 ? chunk * each + row % each : row % 5);
        }
        const std::string what = std::to_string(each) + " groups a chunk";
        for (const double null_share : {0.0, 0.3}) {
            const StagedGroupByCheck check(keyed_values(keys, 8, null_share), kSumAndCount, null_share > 0);
            check.run(ample_group_sizes(keys.size(), 3, kChunkRows), what);
            check.run(least_group_sizes(3, kChunkRows), what + ", least pages");
        }
    }
    // One list is all that there is.
    const StagedGroupByCheck check(keyed_values(std::vector<uint64_t>(chunks * kChunkRows, 7)), kSumAndCount);
    CHECK_EQ(check.run(ample_group_sizes(chunks * kChunkRows, 3, kChunkRows), "one group").partial_rows, 1);
}

GPU_TEST("staged group-by: dense, negative, random, Zipf and hot keys") {
    const uint64_t rows = small_or_full(1500, 10000);
    const std::vector<uint64_t> dense = dense_permutation(rows / 2, test_seed());
    check_keys(repeated_keys(dense, 2, test_seed()), "dense");
    std::vector<uint64_t> negative;
    for (uint64_t row = 0; row < rows; ++row) negative.push_back(row % 700 - 350);
    check_keys(negative, "around 0");
    // Keys that tables of groups mark empty slots with.
    std::vector<uint64_t> ones = negative;
    for (uint64_t row = 0; row < rows; row += 3) ones[row] = ~0ULL;
    check_keys(ones, "all bits set");
    check_keys(zipf_keys(rows, 2 * rows, 1.1, test_seed()), "Zipf");
    check_keys(one_hot_key(rows, 0.7, test_seed()), "one hot key");
    check_keys(std::vector<uint64_t>(rows, test_seed() * 77), "one key");
}

GPU_TEST("staged group-by: NULL keys, as a group and left out") {
    const uint64_t rows = small_or_full(1500, 20000);
    for (const double share : {0.01, 0.6, 1.0}) {
        const HostTable table = keyed_values(drawn_keys(rows, rows / 4, test_seed()), 4, share);
        for (const bool null_group : {false, true}) {
            const StagedGroupByCheck check(table, kSumAndCount, null_group);
            const std::string what = "NULL keys of share " + std::to_string(share);
            check.run(ample_group_sizes(rows, 2), what);
            if (full_suite() || share < 0.1) check.run(least_group_sizes(2), what + ", least pages");
        }
    }
    // More chunks with NULLs than partial rows are kept of.
    if (!full_suite()) return;
    constexpr uint64_t kMany = 2300;
    StagedGroupByCheck check(keyed_values(drawn_keys(kMany, 3, test_seed()), 8, 0.95), {{Aggregate::kMax, 1}}, true);
    check.cuts = {1};
    check.run(ample_group_sizes(kMany, 0), "a chunk per row");
}

GPU_TEST("staged group-by: every aggregate of every type") {
    struct Type {
        uint32_t width;
        ValueKind kind;
    };
    constexpr Type kTypes[] = {{1, ValueKind::kSigned},   {2, ValueKind::kSigned},   {4, ValueKind::kSigned},
                               {8, ValueKind::kSigned},   {1, ValueKind::kUnsigned}, {2, ValueKind::kUnsigned},
                               {4, ValueKind::kUnsigned}, {8, ValueKind::kUnsigned}, {4, ValueKind::kFloat},
                               {8, ValueKind::kFloat}};
    const uint64_t rows = small_or_full(1200, 12000);
    const std::vector<uint64_t> keys = drawn_keys(rows, rows / 3, test_seed());
    for (size_t t = 0; t < std::size(kTypes); ++t) {
        if (!full_suite() && t % 3 != test_seed() % 3) continue;
        const Type type = kTypes[t];
        HostTable table;
        table.columns.push_back(group_keys_column(keys, 8, null_mask(rows, 0.05, test_seed())));
        table.columns.push_back(value_column(rows, type.width, type.kind, test_seed(), 1));
        const std::vector<std::vector<WantedAggregate>> lists = {
            {{Aggregate::kSum, 1, type.kind}, {Aggregate::kMean, 1, type.kind}, {Aggregate::kCount, 1, type.kind}},
            {{Aggregate::kMin, 1, type.kind}, {Aggregate::kMax, 1, type.kind}, {Aggregate::kCountRows}}};
        for (const auto& list : lists) {
            const StagedGroupByCheck check(table, list, true);
            const auto pre = t % 2 == 0 ? PreAggregation::kAlways : PreAggregation::kNever;
            const std::string what = "values of " + std::to_string(type.width) + " bytes, kind " + text_of(type.kind);
            check.run(with_pre_aggregation(ample_group_sizes(rows, 2), pre), what);
            check.run(with_pre_aggregation(least_group_sizes(2), pre), what + ", least pages");
        }
    }
}

GPU_TEST("staged group-by: several columns, and none") {
    const uint64_t rows = small_or_full(1300, 9000);
    HostTable table;
    table.columns.push_back(group_keys_column(drawn_keys(rows, rows / 5, test_seed()), 4));
    table.columns.push_back(value_column(rows, 4, ValueKind::kUnsigned, test_seed(), 1));
    table.columns.push_back(value_column(rows, 2, ValueKind::kSigned, test_seed(), 2));
    table.columns.push_back(value_column(rows, 1, ValueKind::kUnsigned, test_seed(), 3));
    check_memories(StagedGroupByCheck(table, {{Aggregate::kMax, 3, ValueKind::kUnsigned},
                                              {Aggregate::kSum, 1, ValueKind::kUnsigned},
                                              {Aggregate::kMin, 2},
                                              {Aggregate::kMax, 3, ValueKind::kUnsigned},
                                              {Aggregate::kMean, 2}}),
                   3, "three columns");
    check_memories(StagedGroupByCheck(table, {}), 3, "distinct keys");
    HostTable alone;
    alone.columns.push_back(table.columns[0]);
    check_memories(StagedGroupByCheck(alone, {{Aggregate::kCountRows}}), 3, "keys alone");
}

GPU_TEST("staged group-by: groups that are only counted") {
    const uint64_t rows = small_or_full(1500, 20000);
    const StagedGroupByCheck check(keyed_values(drawn_keys(rows, rows / 3, test_seed()), 8, 0.05), kSumAndCount, true);
    for (const StreamSizes& sizes : memories(rows, 2)) {
        const StagedGroupBySpec spec = check.spec(sizes);
        PinnedChunks source = check.chunks(sizes);
        StagedGroupBy group_by(test_device(), spec);
        group_by.run(0, source, nullptr);
        const StreamReport& report = group_by.report();
        CHECK_EQ(report.result_rows, check.expected().rows());
        CHECK_EQ(report.d2h_bytes, report.spilled_bytes[0]);
        CHECK(source.all_released());
    }
}

}  // namespace spillway::gpu_test
