// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "support/group_by_check.hpp"

// Aggregates that are more than one group-by takes, or takes well, and are done in parts.
namespace spillway::gpu_test {

namespace {

const std::vector<Aggregate> kKinds = {Aggregate::kSum,   Aggregate::kMin,   Aggregate::kMax,      Aggregate::kMean,
                                       Aggregate::kCount, Aggregate::kFirst, Aggregate::kCountRows};

ValueKind kind_of_column(uint32_t width, size_t column) {
    if (width < 4) return column % 2 == 0 ? ValueKind::kSigned : ValueKind::kUnsigned;
    return static_cast<ValueKind>(column % 3);
}

struct WideInput {
    HostTable table;
    std::vector<WantedAggregate> aggregates;
};

// So many aggregates of all kinds, three of each column, whose width is one of some, with NULLs in every third one.
WideInput mixed_aggregates(const std::vector<uint64_t>& keys, uint32_t key_width, size_t aggregates,
                           const std::vector<uint32_t>& widths, double null_share, std::vector<uint8_t> key_bits = {}) {
    WideInput wide;
    wide.table.columns.push_back(group_keys_column(keys, key_width, std::move(key_bits)));
    for (size_t i = 0; i < aggregates; ++i) {
        const size_t column = 1 + i / 3;
        const uint32_t width = widths[column % widths.size()];
        const ValueKind kind = kind_of_column(width, column);
        if (column >= wide.table.columns.size()) {
            const double nulls = column % 3 == 0 ? null_share : 0;
            wide.table.columns.push_back(value_column(keys.size(), width, kind, test_seed(), column, nulls));
        }
        wide.aggregates.push_back({kKinds[random64(test_seed() + 5, i) % kKinds.size()], column, kind});
    }
    return wide;
}

void check_wide(WideInput wide, uint64_t expected_groups, const std::string& what,
                const std::vector<GroupByAlgorithm>& algorithms = algorithms_to_check()) {
    const std::vector<WantedAggregate> aggregates = std::move(wide.aggregates);
    check_group_by(GroupInput(std::move(wide.table)), aggregates, expected_groups,
                   what + ", seed " + std::to_string(test_seed()), algorithms, true);
}

}  // namespace

GPU_TEST("group by in parts: sums of 1 to 20 columns, by keys of either width") {
    const uint64_t rows = small_or_full(1503, 5003);
    for (const uint32_t key_width : {4U, 8U}) {
        for (const uint32_t width : {4U, 8U}) {
            WideInput wide;
            wide.table.columns.push_back(group_keys_column(drawn_keys(rows, 300, test_seed()), key_width));
            for (size_t column = 1; column <= 20; ++column) {
                wide.table.columns.push_back(value_column(rows, width, ValueKind::kSigned, test_seed(), column));
            }
            const GroupInput input(std::move(wide.table));
            for (size_t column = 1; column <= 20; ++column) {
                wide.aggregates.push_back({column % 7 == 0 ? Aggregate::kMax : Aggregate::kSum, column});
                if (!full_suite() && column % 5 != 0) continue;
                check_group_by(input, wide.aggregates, 0, std::to_string(column) + " columns", algorithms_to_check(),
                               true);
            }
        }
    }
}

GPU_TEST("group by in parts: 1 to 256 aggregates of all kinds, with NULLs and NULL keys") {
    const uint64_t rows = small_or_full(700, 3000);
    const std::vector<uint64_t> keys = drawn_keys(rows, 90, test_seed());
    const std::vector<uint8_t> key_bits = null_mask(rows, 0.1, test_seed());
    for (const size_t aggregates : {1, 27, 28, 29, 33, 64, 129, 256}) {
        if (!full_suite() && aggregates != 29 && aggregates != 256) continue;
        const std::string what = std::to_string(aggregates) + " aggregates";
        const uint32_t key_width = aggregates % 2 == 0 ? 4 : 8;
        check_wide(mixed_aggregates(keys, key_width, aggregates, {4, 8, 2, 1}, 0.2), 0, what);
        check_wide(mixed_aggregates(keys, key_width, aggregates, {8, 4}, 0, key_bits), 90, what + ", NULL keys");
        check_wide(mixed_aggregates(keys, key_width, aggregates, {4}, 0), 0, what + ", 4 bytes");
    }
}

GPU_TEST("group by in parts: one column with more aggregates than a part takes") {
    const uint64_t rows = small_or_full(700, 3000);
    WideInput wide;
    wide.table.columns.push_back(group_keys_column(drawn_keys(rows, 90, test_seed()), 4));
    wide.table.columns.push_back(value_column(rows, 4, ValueKind::kSigned, test_seed(), 1));
    for (size_t i = 0; i < 100; ++i) wide.aggregates.push_back({kKinds[i % kKinds.size()], 1});
    check_wide(std::move(wide), 0, "one column");
}

GPU_TEST("group by in parts: tables without rows, with one, and with none that has a key") {
    for (const uint64_t rows : {0, 1, 33}) {
        check_wide(mixed_aggregates(drawn_keys(rows, 5, test_seed()), 8, 60, {4, 8, 1}, 0.2), 0, "tiny table");
    }
    check_wide(mixed_aggregates({1, 2, 3}, 4, 60, {4, 8}, 0, {0}), 0, "no row has a key");
}

GPU_TEST("group by in parts: many groups, and keys whose mixed ones lie together") {
    const uint64_t rows = small_or_full(9000, 240000);
    for (const uint32_t key_width : {4U, 8U}) {
        check_wide(mixed_aggregates(drawn_keys(rows, rows / 3, test_seed()), key_width, 12, {4}, 0), rows / 4,
                   "many groups",
                   {GroupByAlgorithm::kHash, GroupByAlgorithm::kHashGlobal, GroupByAlgorithm::kPartitioned});
        // All of these begin at the same slots of the table of places.
        std::vector<uint64_t> keys;
        for (uint64_t row = 0; row < rows / 3; ++row) {
            const uint64_t place = random64(test_seed(), row) % (rows / 3);
            keys.push_back(key_width == 4 ? cuda::unmix32(static_cast<uint32_t>(place)) : cuda::unmix64(place));
        }
        check_wide(mixed_aggregates(keys, key_width, 12, {4}, 0), 0, "equal top bits",
                   {GroupByAlgorithm::kPartitioned, GroupByAlgorithm::kSortedColumns});
    }
}

GPU_TEST("group by in parts: overflows are those of their aggregates") {
    constexpr size_t kSums = 70;
    HostTable table;
    table.columns.push_back(group_keys_column({9, 9}, 4));
    std::vector<WantedAggregate> aggregates;
    for (size_t column = 1; column <= kSums; ++column) {
        const bool is_large = column % 13 == 0 || column == kSums;
        table.columns.push_back(column_of(std::vector<int64_t>{is_large ? std::numeric_limits<int64_t>::max() : 5, 1}));
        aggregates.push_back({Aggregate::kSum, column});
    }
    const GroupInput input(std::move(table));
    for (const GroupByAlgorithm algorithm : kGroupByAlgorithms) {
        const cuda::GroupByResult result = cuda::group_by(test_device(), input.request(algorithm, aggregates, 0, true));
        for (size_t i = 0; i < kSums; ++i) {
            CHECK_EQ(result.sum_overflows[i], (i + 1) % 13 == 0 || i + 1 == kSums);
        }
    }
}

}  // namespace spillway::gpu_test
