// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "support/group_by_check.hpp"

namespace spillway::gpu_test {

namespace {

// Column 1: 4-byte integers, column 2: 8-byte floats.
GroupInput two_columns(const std::vector<uint64_t>& keys, uint32_t key_width, double null_share = 0) {
    HostTable table;
    std::vector<uint8_t> valid;
    if (null_share > 0) valid = null_mask(keys.size(), null_share, test_seed());
    table.columns.push_back(group_keys_column(keys, key_width, valid));
    table.columns.push_back(value_column(keys.size(), 4, ValueKind::kSigned, test_seed(), 1, null_share));
    table.columns.push_back(value_column(keys.size(), 8, ValueKind::kFloat, test_seed(), 2, null_share));
    return GroupInput(std::move(table));
}

const std::vector<WantedAggregate> kAllOfTwoColumns = {{Aggregate::kCountRows},
                                                       {Aggregate::kCount, 1},
                                                       {Aggregate::kSum, 1},
                                                       {Aggregate::kMin, 1},
                                                       {Aggregate::kMax, 1},
                                                       {Aggregate::kMean, 1},
                                                       {Aggregate::kFirst, 1},
                                                       {Aggregate::kSum, 2, ValueKind::kFloat},
                                                       {Aggregate::kMin, 2, ValueKind::kFloat},
                                                       {Aggregate::kMax, 2, ValueKind::kFloat},
                                                       {Aggregate::kMean, 2, ValueKind::kFloat},
                                                       {Aggregate::kFirst, 2, ValueKind::kFloat}};

}  // namespace

GPU_TEST("group by: numbers of groups, key widths, with and without a guess") {
    const uint64_t rows = small_or_full(2000, 200000);
    for (const uint64_t distinct : {uint64_t{1}, uint64_t{3}, uint64_t{400}, rows / 2}) {
        for (const uint32_t key_width : {4U, 8U}) {
            const GroupInput input = two_columns(drawn_keys(rows, distinct, test_seed()), key_width);
            const std::string what = std::to_string(distinct) + " keys of " + std::to_string(key_width) + " bytes";
            check_group_by(input, kAllOfTwoColumns, 0, what);
            if (full_suite()) check_group_by(input, kAllOfTwoColumns, distinct, what + ", expected");
        }
    }
}

GPU_TEST("group by: values of every width and kind, with NULLs") {
    const uint64_t rows = small_or_full(3000, 100000);
    const std::vector<uint64_t> keys = drawn_keys(rows, 200, test_seed());
    for (const double null_share : {0.0, 0.3}) {
        for (const uint32_t width : {1U, 2U, 4U, 8U}) {
            for (const ValueKind kind : {ValueKind::kSigned, ValueKind::kUnsigned, ValueKind::kFloat}) {
                if (kind == ValueKind::kFloat && width < 4) continue;
                HostTable table;
                table.columns.push_back(group_keys_column(keys, width == 8 ? 8 : 4));
                table.columns.push_back(value_column(rows, width, kind, test_seed(), 1, null_share));
                check_group_by(GroupInput(std::move(table)),
                               {{Aggregate::kCount, 1, kind},
                                {Aggregate::kSum, 1, kind},
                                {Aggregate::kMin, 1, kind},
                                {Aggregate::kMax, 1, kind},
                                {Aggregate::kMean, 1, kind},
                                {Aggregate::kFirst, 1, kind}},
                               0, "width " + std::to_string(width) + ", kind " + text_of(kind));
            }
        }
    }
}

GPU_TEST("group by: NULL keys, groups without a value, no aggregates") {
    const uint64_t rows = small_or_full(3000, 100000);
    const GroupInput input = two_columns(drawn_keys(rows, rows / 3, test_seed()), 4, 0.4);
    check_group_by(input, kAllOfTwoColumns, 0, "NULLs everywhere");
    check_group_by(input, {}, 0, "keys alone");
    check_group_by(input, {{Aggregate::kCountRows}}, 0, "count of rows");
}

GPU_TEST("group by: tables without rows, with one, and with none that has a key") {
    for (const uint64_t rows : {0, 1, 33}) {
        check_group_by(two_columns(drawn_keys(rows, 5, test_seed()), 8), kAllOfTwoColumns, 0, "tiny table");
    }
    HostTable table;
    table.columns.push_back(group_keys_column({1, 2, 3}, 4, {0}));
    table.columns.push_back(value_column(3, 4, ValueKind::kSigned, test_seed(), 1));
    check_group_by(GroupInput(std::move(table)), {{Aggregate::kSum, 1}}, 0, "no row has a key");
}

GPU_TEST("group by: extreme keys, among them the one that marks an empty slot") {
    for (const uint32_t key_width : {4U, 8U}) {
        const uint64_t marker = key_width == 4 ? cuda::unmix32(~0U) : cuda::unmix64(~0ULL);
        std::vector<uint64_t> keys;
        for (uint64_t row = 0; row < 3000; ++row) {
            const uint64_t extremes[] = {0, ~0ULL, marker, 1ULL << 31, 1ULL << 63, 7};
            keys.push_back(extremes[random64(test_seed(), row) % 6]);
        }
        check_group_by(two_columns(keys, key_width), kAllOfTwoColumns, 0, "extreme keys");
        check_group_by(two_columns({marker}, key_width), kAllOfTwoColumns, 0, "the marker alone");
    }
}

GPU_TEST("group by: more aggregates than packed rows have room for") {
    const uint64_t rows = small_or_full(3000, 100000);
    HostTable table;
    table.columns.push_back(group_keys_column(drawn_keys(rows, 100, test_seed()), 8));
    std::vector<WantedAggregate> aggregates;
    for (size_t column = 1; column <= 10; ++column) {
        table.columns.push_back(value_column(rows, 8, ValueKind::kSigned, test_seed(), column, column % 3 * 0.2));
        aggregates.push_back({Aggregate::kMax, column});
        aggregates.push_back({Aggregate::kSum, column});
    }
    const GroupInput input(std::move(table));
    check_group_by(input, aggregates, 0, "ten columns of 8 bytes");
    cuda::GroupByRequest request = input.request(GroupByAlgorithm::kHash, aggregates, 0);
    request.aggregates.resize(cuda::kGroupAggregatesMax + 1);
    CHECK_THROWS(cuda::group_by(test_device(), request), cuda::ErrorCode::kInvalid);
}

GPU_TEST("group by: Zipf keys and one hot key") {
    const uint64_t rows = small_or_full(5000, 500000);
    for (const double exponent : {0.5, 1.0, 2.0}) {
        check_group_by(two_columns(zipf_keys(rows, rows / 8, exponent, test_seed()), 4), kAllOfTwoColumns, 0,
                       "Zipf " + std::to_string(exponent));
    }
    // A partition that several units share, and whose groups are merged.
    check_group_by(two_columns(one_hot_key(rows, 0.6, test_seed()), 8), kAllOfTwoColumns, 0, "one hot key");
}

GPU_TEST("group by: seeded trials") {
    const uint64_t trials = small_or_full(3, 60);
    for (uint64_t trial = 0; trial < trials; ++trial) {
        const uint64_t seed = random64(test_seed(), trial);
        RandomSequence random(seed, 0);
        const auto pick = [&](uint64_t below) { return random.next() % below; };
        const uint64_t rows = pick(small_or_full(4000, 100000));
        const uint64_t distinct = 1 + pick(pick(2) == 0 ? 100 : rows + 1);
        const double null_share = pick(2) == 0 ? 0 : 0.2;
        HostTable table;
        std::vector<uint8_t> valid;
        if (pick(3) == 0) valid = null_mask(rows, 0.1, seed);
        table.columns.push_back(group_keys_column(drawn_keys(rows, distinct, seed), pick(2) == 0 ? 4 : 8, valid));
        std::vector<WantedAggregate> aggregates;
        const uint64_t columns = 1 + pick(4);
        for (uint64_t column = 1; column <= columns; ++column) {
            const auto kind = static_cast<ValueKind>(pick(3));
            const uint32_t width = kind == ValueKind::kFloat ? 4U << pick(2) : 1U << pick(4);
            table.columns.push_back(value_column(rows, width, kind, seed, column, null_share));
            for (uint64_t more = 1 + pick(3); more > 0; --more) {
                aggregates.push_back({static_cast<Aggregate>(pick(7)), column, kind});
            }
        }
        check_group_by(GroupInput(std::move(table)), aggregates, pick(2) == 0 ? 0 : distinct,
                       "trial " + std::to_string(trial) + " of seed " + std::to_string(test_seed()));
    }
}

}  // namespace spillway::gpu_test
