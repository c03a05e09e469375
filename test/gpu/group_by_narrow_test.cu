// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "support/group_by_check.hpp"

// Columns of 4 bytes by a 4-byte key; group_by_words_test.cu has those of 8 bytes.
namespace spillway::gpu_test {

namespace {

// Columns 1, 2 and 3: signed, unsigned and floats, without NULLs.
GroupInput three_columns(const std::vector<uint64_t>& keys) {
    HostTable table;
    table.columns.push_back(group_keys_column(keys, 4));
    table.columns.push_back(value_column(keys.size(), 4, ValueKind::kSigned, test_seed(), 1));
    table.columns.push_back(value_column(keys.size(), 4, ValueKind::kUnsigned, test_seed(), 2));
    table.columns.push_back(value_column(keys.size(), 4, ValueKind::kFloat, test_seed(), 3));
    return GroupInput(std::move(table));
}

// What adds up, beside what compares; a column that two aggregates have, and rows that are counted.
const std::vector<WantedAggregate> kSums = {{Aggregate::kSum, 1, ValueKind::kSigned},
                                            {Aggregate::kMin, 1, ValueKind::kSigned},
                                            {Aggregate::kSum, 2, ValueKind::kUnsigned},
                                            {Aggregate::kMean, 1, ValueKind::kSigned},
                                            {Aggregate::kCountRows}};

// As many as the kernel takes.
const std::vector<WantedAggregate> kFourValues = {{Aggregate::kMin, 1, ValueKind::kSigned},
                                                  {Aggregate::kMax, 2, ValueKind::kUnsigned},
                                                  {Aggregate::kMin, 3, ValueKind::kFloat},
                                                  {Aggregate::kMax, 1, ValueKind::kSigned}};

// Slots of 52 bytes, so that few groups take slices: no more groups are expected than there are rows.
const std::vector<WantedAggregate> kNineValues = {
    {Aggregate::kMin, 1, ValueKind::kSigned},   {Aggregate::kMax, 1, ValueKind::kSigned},
    {Aggregate::kSum, 1, ValueKind::kSigned},   {Aggregate::kMin, 2, ValueKind::kUnsigned},
    {Aggregate::kMax, 2, ValueKind::kUnsigned}, {Aggregate::kSum, 2, ValueKind::kUnsigned},
    {Aggregate::kMin, 3, ValueKind::kFloat},    {Aggregate::kMax, 3, ValueKind::kFloat},
    {Aggregate::kSum, 3, ValueKind::kFloat}};

}  // namespace

GPU_TEST("group by narrow: none to five aggregates") {
    const uint64_t rows = small_or_full(1503, 100003);
    const GroupInput input = three_columns(drawn_keys(rows, 700, test_seed()));
    std::vector<WantedAggregate> aggregates = kFourValues;
    aggregates.push_back({Aggregate::kMax, 3, ValueKind::kFloat});
    for (;;) {
        check_group_by(input, aggregates, 0, std::to_string(aggregates.size()) + " aggregates");
        if (aggregates.empty()) break;
        aggregates.pop_back();
    }
}

GPU_TEST("group by narrow: every number of rows behind the last four") {
    for (const uint64_t rows : {0, 1, 2, 3, 4, 5, 130}) {
        check_group_by(three_columns(drawn_keys(rows, 3, test_seed())), kFourValues, 0, std::to_string(rows) + " rows");
    }
}

GPU_TEST("group by narrow: extreme keys, among them the one that marks an empty slot") {
    const uint64_t marker = cuda::unmix32(~0U);
    std::vector<uint64_t> keys;
    for (uint64_t row = 0; row < 4501; ++row) {
        const uint64_t extremes[] = {0, ~0ULL, marker, 1ULL << 31, 7};
        keys.push_back(extremes[random64(test_seed(), row) % 5]);
    }
    check_group_by(three_columns(keys), kFourValues, 0, "extreme keys");
    check_group_by(three_columns(keys), kNineValues, keys.size(), "extreme keys in two slices",
                   {GroupByAlgorithm::kHash});
    check_group_by(three_columns(std::vector<uint64_t>(9, marker)), kFourValues, 0, "the marker alone");
}

GPU_TEST("group by narrow: extreme values, NaN and zeros") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float inf = std::numeric_limits<float>::infinity();
    const int32_t low = std::numeric_limits<int32_t>::min();
    const int32_t high = std::numeric_limits<int32_t>::max();
    HostTable table;
    table.columns.push_back(group_keys_column({1, 1, 1, 2, 2, 3, 3, 4, 5, 5}, 4));
    table.columns.push_back(column_of(std::vector<float>{1, nan, -inf, inf, -nan, -0.0F, -0.0F, -nan, -2, -3}));
    table.columns.push_back(column_of(std::vector<int32_t>{low, 0, high, low, low, high, high, -1, -1, 0}));
    const GroupInput input(std::move(table));
    HostTable expected;
    expected.columns.push_back(column_of(std::vector<uint32_t>{1, 2, 3, 4, 5}));
    expected.columns.push_back(column_of(std::vector<float>{-inf, inf, 0, nan, -3}));
    expected.columns.push_back(column_of(std::vector<float>{nan, nan, 0, nan, -2}));
    expected.columns.push_back(column_of(std::vector<int32_t>{low, low, high, -1, -1}));
    expected.columns.push_back(column_of(std::vector<int32_t>{high, low, high, -1, 0}));
    const std::vector<WantedAggregate> aggregates = {{Aggregate::kMin, 1, ValueKind::kFloat},
                                                     {Aggregate::kMax, 1, ValueKind::kFloat},
                                                     {Aggregate::kMin, 2, ValueKind::kSigned},
                                                     {Aggregate::kMax, 2, ValueKind::kSigned}};
    for (const GroupByAlgorithm algorithm : kGroupByAlgorithms) {
        const cuda::GroupByResult result = cuda::group_by(test_device(), input.request(algorithm, aggregates, 0));
        CHECK_EQ(row_difference(download_groups(result, 4, {4, 4, 4, 4}), expected), "");
    }
}

GPU_TEST("group by narrow: slices of the hash range") {
    // Some 4,000 groups per slice with 227 KiB: one slice, two, and more than there may be.
    const uint64_t rows = small_or_full(9001, 300001);
    for (const uint64_t distinct : {3500, 7000, 60000}) {
        if (!full_suite() && distinct == 3500) continue;
        check_group_by(three_columns(drawn_keys(rows, distinct, test_seed())), kNineValues, distinct,
                       std::to_string(distinct) + " groups", {GroupByAlgorithm::kHash});
    }
}

GPU_TEST("group by narrow: partitions of every size in one pass and in two") {
    // Rows behind the last four of a partition, empty partitions, one and two blocks per multiprocessor.
    const std::vector<GroupByAlgorithm> partitioned = {GroupByAlgorithm::kPartitioned};
    for (const uint64_t distinct : {1, 130, 3000, 900000}) {
        const uint64_t rows = distinct == 900000 ? small_or_full(20003, 3000003) : small_or_full(9001, 1500001);
        const std::vector<uint64_t> keys = drawn_keys(rows, distinct, test_seed());
        check_group_by(three_columns(keys), kFourValues, distinct, std::to_string(distinct) + " groups", partitioned);
    }
}

GPU_TEST("group by narrow: heavy partitions are aggregated in units") {
    const uint64_t rows = small_or_full(40007, 4000003);
    const std::vector<GroupByAlgorithm> partitioned = {GroupByAlgorithm::kPartitioned};
    check_group_by(three_columns(one_hot_key(rows, 0.7, test_seed())), kFourValues, 0, "one hot key", partitioned);
    check_group_by(three_columns(zipf_keys(rows, rows / 4, 1.5, test_seed())), kFourValues, 0, "Zipf", partitioned);
}

GPU_TEST("group by narrow: keys that find no place in a block's table") {
    // All begin at the first slot. In the full suite so many that the attempt is given up.
    const uint64_t rows = small_or_full(6001, 4000001);
    std::vector<uint64_t> keys;
    for (uint64_t row = 0; row < rows; ++row) {
        keys.push_back(cuda::unmix32(static_cast<uint32_t>(random64(test_seed(), row) % 50000)));
    }
    check_group_by(three_columns(keys), kFourValues, 100, "one first slot", {GroupByAlgorithm::kHash});
}

GPU_TEST("group by narrow: far more groups than expected, Zipf keys and one hot key") {
    const uint64_t many = small_or_full(5000, 300000);
    check_group_by(three_columns(dense_permutation(many, test_seed())), kFourValues, 1, "one expected");
    const uint64_t rows = small_or_full(5002, 300002);
    check_group_by(three_columns(zipf_keys(rows, rows / 8, 1.0, test_seed())), kFourValues, 0, "Zipf keys");
    check_group_by(three_columns(one_hot_key(rows, 0.6, test_seed())), kFourValues, 0, "one hot key");
}

GPU_TEST("group by narrow: sums, means and counts, few groups and many, hot ones") {
    const uint64_t rows = small_or_full(9002, 1000003);
    for (const uint64_t distinct : {1, 3, 40, 3000, 30000}) {
        if (!full_suite() && (distinct == 3 || distinct == 30000)) continue;
        check_group_by(three_columns(drawn_keys(rows, distinct, test_seed())), kSums, distinct,
                       std::to_string(distinct) + " groups");
    }
    check_group_by(three_columns(one_hot_key(rows, 0.6, test_seed())), kSums, 0, "one hot key");
    check_group_by(three_columns(drawn_keys(rows, 900, test_seed())), {{Aggregate::kCountRows}}, 0, "counts alone");
}

GPU_TEST("group by narrow: sums alone of two columns, which have a kernel of their own") {
    const std::vector<GroupByAlgorithm> hashed = {GroupByAlgorithm::kHash};
    const std::vector<WantedAggregate> sums = {{Aggregate::kSum, 1, ValueKind::kSigned},
                                               {Aggregate::kSum, 2, ValueKind::kUnsigned}};
    std::vector<WantedAggregate> means = sums;
    means.push_back({Aggregate::kMean, 1, ValueKind::kSigned});
    means.push_back({Aggregate::kCountRows});
    const uint64_t rows = small_or_full(9002, 1000003);
    // By pairs of slots and by buckets; 9,000 means take two slices, as 16,000 sums do.
    for (const uint64_t distinct : {1, 40, 5000, 9000, 16000}) {
        const GroupInput input = three_columns(drawn_keys(rows, distinct, test_seed()));
        const std::string what = std::to_string(distinct) + " groups";
        if (full_suite() || distinct <= 5000) check_group_by(input, sums, distinct, what, hashed);
        if (full_suite() || distinct == 40 || distinct == 9000) {
            check_group_by(input, means, distinct, what + ", means and counts", hashed);
        }
    }
    check_group_by(three_columns(one_hot_key(rows, 0.6, test_seed())), sums, 0, "one hot key", hashed);
}

GPU_TEST("group by narrow: sums whose words carry, of either sign") {
    HostTable table;
    std::vector<uint64_t> keys;
    std::vector<int32_t> values;
    const uint64_t rows = small_or_full(4001, 400001);
    for (uint64_t row = 0; row < rows; ++row) {
        keys.push_back(row % 3 == 0 ? 5 : random64(test_seed(), row) % 90);
        const int32_t extremes[] = {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), -1, 0, 1};
        values.push_back(extremes[random64(test_seed() + 1, row) % 5]);
    }
    table.columns.push_back(group_keys_column(keys, 4));
    table.columns.push_back(column_of(values));
    std::reverse(values.begin(), values.end());
    table.columns.push_back(column_of(values));
    const GroupInput input(std::move(table));
    check_group_by(input, {{Aggregate::kSum, 1, ValueKind::kSigned}, {Aggregate::kMean, 1, ValueKind::kSigned}}, 0,
                   "signed");
    check_group_by(input, {{Aggregate::kSum, 1, ValueKind::kSigned}, {Aggregate::kSum, 2, ValueKind::kUnsigned}}, 0,
                   "two columns", {GroupByAlgorithm::kHash});
    check_group_by(input, {{Aggregate::kSum, 1, ValueKind::kUnsigned}, {Aggregate::kCountRows}}, 0, "unsigned");
}

}  // namespace spillway::gpu_test
