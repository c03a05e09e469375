// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "support/group_by_check.hpp"

// Keys and columns of 4 and 8 bytes side by side, for which kHash and kPartitioned have kernels of their own.
namespace spillway::gpu_test {

namespace {

struct Column {
    uint32_t width;
    ValueKind kind;
};
constexpr Column kInt4 = {4, ValueKind::kSigned};
constexpr Column kFloat4 = {4, ValueKind::kFloat};
constexpr Column kInt8 = {8, ValueKind::kSigned};
constexpr Column kUint8 = {8, ValueKind::kUnsigned};
constexpr Column kFloat8 = {8, ValueKind::kFloat};

const std::vector<GroupByAlgorithm> kBoth = {GroupByAlgorithm::kHash, GroupByAlgorithm::kPartitioned,
                                             GroupByAlgorithm::kHashGlobal};
const std::vector<GroupByAlgorithm> kHashAlone = {GroupByAlgorithm::kHash};
const std::vector<GroupByAlgorithm> kPartitionedAlone = {GroupByAlgorithm::kPartitioned};

GroupInput input_of(const std::vector<uint64_t>& keys, uint32_t key_width, const std::vector<Column>& columns) {
    HostTable table;
    table.columns.push_back(group_keys_column(keys, key_width));
    for (size_t c = 0; c < columns.size(); ++c) {
        table.columns.push_back(
            value_column(keys.size(), columns[c].width, columns[c].kind, test_seed(), static_cast<uint64_t>(c)));
    }
    return GroupInput(std::move(table));
}

// Those of each column, one kind after the other.
std::vector<WantedAggregate> each(const std::vector<Aggregate>& aggregates, const std::vector<Column>& columns) {
    std::vector<WantedAggregate> all;
    for (const Aggregate aggregate : aggregates) {
        for (size_t c = 0; c < columns.size(); ++c) all.push_back({aggregate, c + 1, columns[c].kind});
    }
    return all;
}

const std::vector<Aggregate> kExtremes = {Aggregate::kMax, Aggregate::kMin};

std::vector<WantedAggregate> sums_of(const std::vector<Column>& columns) {
    std::vector<WantedAggregate> all = each({Aggregate::kSum, Aggregate::kMean}, columns);
    all.push_back({Aggregate::kCountRows});
    return all;
}

}  // namespace

GPU_TEST("group by words: columns of 4 and 8 bytes in any order") {
    const std::vector<std::vector<Column>> tables = {{},
                                                     {kInt8},
                                                     {kFloat8},
                                                     {kInt4, kFloat8},
                                                     {kUint8, kFloat4},
                                                     {kFloat4, kInt8, kInt4},
                                                     {kInt8, kFloat8},
                                                     {kUint8, kUint8, kInt4},
                                                     {kInt4, kFloat4, kInt4, kFloat4}};
    const uint64_t rows = small_or_full(1203, 100003);
    const std::vector<uint64_t> keys = drawn_keys(rows, small_or_full(130, 700), test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        for (const std::vector<Column>& columns : tables) {
            const GroupInput input = input_of(keys, key_width, columns);
            std::vector<WantedAggregate> all = each({Aggregate::kMin, Aggregate::kSum, Aggregate::kMax}, columns);
            const std::string what = "keys of " + std::to_string(key_width) + " bytes, columns of";
            std::string widths;
            for (const Column& column : columns) widths += " " + std::to_string(column.width);
            check_group_by(input, all, 0, what + widths, kBoth);
            all.push_back({Aggregate::kCountRows});
            for (const WantedAggregate& mean : each({Aggregate::kMean}, columns)) all.push_back(mean);
            check_group_by(input, all, 0, what + widths + ", means and counts", kBoth);
        }
    }
}

GPU_TEST("group by words: every number of rows behind the last four") {
    const std::vector<Column> columns = {kInt4, kFloat8};
    for (const uint64_t rows : {0, 1, 2, 3, 4, 5, 130}) {
        const GroupInput input = input_of(drawn_keys(rows, 3, test_seed()), 8, columns);
        check_group_by(input, each(kExtremes, columns), 0, std::to_string(rows) + " rows", kBoth);
        check_group_by(input, sums_of(columns), 0, std::to_string(rows) + " rows, sums", kBoth);
    }
}

GPU_TEST("group by words: extreme keys, among them the one that marks an empty slot") {
    const std::vector<Column> columns = {kInt8, kInt4};
    const uint64_t marker = cuda::unmix64(~0ULL);
    std::vector<uint64_t> keys;
    for (uint64_t row = 0; row < 4501; ++row) {
        // Halves alone do not tell them apart.
        const uint64_t extremes[] = {0, ~0ULL, marker, 1ULL << 63, ~0ULL >> 1, ~0ULL << 32, ~0ULL >> 32, 1ULL << 32};
        keys.push_back(extremes[random64(test_seed(), row) % 8]);
    }
    check_group_by(input_of(keys, 8, columns), sums_of(columns), 0, "extreme keys", kBoth);
    // Slots of 52 bytes, some 3,500 groups per slice with 227 KiB.
    check_group_by(input_of(keys, 8, columns), each({Aggregate::kMin, Aggregate::kMax, Aggregate::kSum}, columns),
                   keys.size(), "extreme keys in two slices", kHashAlone);
    const std::vector<uint64_t> alone(9, marker);
    check_group_by(input_of(alone, 8, columns), each(kExtremes, columns), 0, "the marker alone", kBoth);
}

GPU_TEST("group by words: extreme values, NaN and zeros") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double inf = std::numeric_limits<double>::infinity();
    const int64_t low = std::numeric_limits<int64_t>::min();
    const int64_t high = std::numeric_limits<int64_t>::max();
    const uint64_t top = std::numeric_limits<uint64_t>::max();
    const std::vector<uint64_t> keys = {1, 1, 1, 2, 2, 3, 3, 4, 5, 5};
    const auto check = [&](HostColumn values, ValueKind kind, HostColumn least, HostColumn most) {
        HostTable table;
        table.columns = {group_keys_column(keys, 8), std::move(values)};
        const GroupInput input(std::move(table));
        HostTable expected;
        expected.columns = {column_of(std::vector<uint64_t>{1, 2, 3, 4, 5}), std::move(least), std::move(most)};
        const std::vector<WantedAggregate> wanted = {{Aggregate::kMin, 1, kind}, {Aggregate::kMax, 1, kind}};
        for (const GroupByAlgorithm algorithm : kBoth) {
            const cuda::GroupByResult result = cuda::group_by(test_device(), input.request(algorithm, wanted, 0));
            CHECK_EQ(row_difference(download_groups(result, 8, {8, 8}), expected), "");
        }
    };
    check(column_of(std::vector<double>{1, nan, -inf, inf, -nan, -0.0, -0.0, -nan, -2, -3}), ValueKind::kFloat,
          column_of(std::vector<double>{-inf, inf, 0, nan, -3}), column_of(std::vector<double>{nan, nan, 0, nan, -2}));
    check(column_of(std::vector<int64_t>{low, 0, high, low, low, high, high, -1, -1, 0}), ValueKind::kSigned,
          column_of(std::vector<int64_t>{low, low, high, -1, -1}),
          column_of(std::vector<int64_t>{high, low, high, -1, 0}));
    check(column_of(std::vector<uint64_t>{0, 1, top, top, top, 0, 0, 1ULL << 32, 7, 1ULL << 63}), ValueKind::kUnsigned,
          column_of(std::vector<uint64_t>{0, top, 0, 1ULL << 32, 7}),
          column_of(std::vector<uint64_t>{top, top, 0, 1ULL << 32, 1ULL << 63}));
}

GPU_TEST("group by words: sums of doubles that are not finite") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double inf = std::numeric_limits<double>::infinity();
    HostTable table;
    table.columns.push_back(group_keys_column({1, 1, 2, 2, 3, 3, 4, 4}, 8));
    table.columns.push_back(column_of(std::vector<double>{inf, 1, -inf, -1, -0.0, -0.0, nan, 1}));
    table.columns.push_back(column_of(std::vector<float>{0.5F, 0.25F, -0.0F, -0.0F, 1e30F, 1e30F, -1, 1}));
    const GroupInput input(std::move(table));
    const std::vector<WantedAggregate> wanted = {{Aggregate::kSum, 1, ValueKind::kFloat},
                                                 {Aggregate::kSum, 2, ValueKind::kFloat}};
    for (const GroupByAlgorithm algorithm : kBoth) {
        const cuda::GroupByResult result = cuda::group_by(test_device(), input.request(algorithm, wanted, 0));
        const HostTable groups = download_groups(result, 8, {8, 8});
        CHECK_EQ(groups.rows(), 4);
        for (uint64_t row = 0; row < groups.rows(); ++row) {
            const auto key = groups.columns[0].value<uint64_t>(row);
            const auto sum = groups.columns[1].value<double>(row);
            const double of_floats[] = {0.75, 0, 2.0 * 1e30F, 0};
            CHECK_EQ(groups.columns[2].value<double>(row), of_floats[key - 1]);
            CHECK(key == 1 ? sum == inf : key == 2 ? sum == -inf : key == 3 ? sum == 0 : sum != sum);
        }
    }
}

GPU_TEST("group by words: slices of the hash range") {
    const std::vector<Column> columns = {kInt8, kFloat8};
    // Slots of 24 bytes, some 7,700 groups per slice with 227 KiB: one slice, two, three, and more than there may be.
    // No more groups are expected than there are rows: two slices in the small suite.
    const uint64_t rows = small_or_full(9001, 300001);
    for (const uint64_t distinct : {7000, 13000, 20000, 60000}) {
        if (!full_suite() && distinct != 20000) continue;
        const GroupInput input = input_of(drawn_keys(rows, distinct, test_seed()), 8, columns);
        check_group_by(input, each({Aggregate::kMax}, columns), distinct, std::to_string(distinct) + " groups", kBoth);
    }
}

GPU_TEST("group by words: partitions of every size in one pass and in two") {
    const std::vector<Column> columns = {kInt8, kFloat8};
    const std::vector<Column> odd = {kInt4, kUint8};
    for (const uint64_t distinct : {1, 130, 3000, 900000}) {
        if (!full_suite() && distinct > 130) continue;
        const uint64_t rows = distinct == 900000 ? 3000003 : small_or_full(4501, 1500001);
        const std::vector<uint64_t> keys = drawn_keys(rows, distinct, test_seed());
        const std::string what = std::to_string(distinct) + " groups";
        check_group_by(input_of(keys, 8, columns), each(kExtremes, columns), distinct, what, kPartitionedAlone);
        check_group_by(input_of(keys, 8, odd), sums_of(odd), distinct, what + ", odd words", kPartitionedAlone);
        check_group_by(input_of(keys, 8, {}), {}, distinct, what + ", keys alone", kPartitionedAlone);
    }
}

GPU_TEST("group by words: heavy partitions are aggregated in units") {
    const std::vector<Column> columns = {kFloat8, kInt8};
    const uint64_t rows = small_or_full(20007, 2000003);
    check_group_by(input_of(one_hot_key(rows, 0.7, test_seed()), 8, columns), sums_of(columns), 0, "one hot key",
                   kPartitionedAlone);
    check_group_by(input_of(zipf_keys(rows, rows / 4, 1.5, test_seed()), 8, columns), each(kExtremes, columns), 0,
                   "Zipf", kPartitionedAlone);
}

GPU_TEST("group by words: keys that find no place in a block's table") {
    // All begin at the first slot. In the full suite so many that the attempt is given up.
    const std::vector<Column> columns = {kInt8, kInt4};
    const uint64_t rows = small_or_full(6001, 4000001);
    std::vector<uint64_t> keys;
    for (uint64_t row = 0; row < rows; ++row) keys.push_back(cuda::unmix64(random64(test_seed(), row) % 50000));
    check_group_by(input_of(keys, 8, columns), each(kExtremes, columns), 100, "one first slot", kHashAlone);
}

GPU_TEST("group by words: far more groups than expected, Zipf keys and unique ones") {
    const std::vector<Column> columns = {kInt8, kFloat8};
    const uint64_t many = small_or_full(5001, 300001);
    const GroupInput unique = input_of(dense_permutation(many, test_seed()), 8, columns);
    check_group_by(unique, each({Aggregate::kMax}, columns), 1, "one expected", kBoth);
    check_group_by(unique, sums_of(columns), 0, "a group per row", kBoth);
    const uint64_t rows = small_or_full(5002, 300002);
    check_group_by(input_of(zipf_keys(rows, rows / 8, 1.0, test_seed()), 8, columns), sums_of(columns), 0, "Zipf keys",
                   kBoth);
}

GPU_TEST("group by words: sums, means and counts, few groups and many, hot ones") {
    const std::vector<Column> columns = {kFloat8, kInt8};
    const std::vector<Column> floats = {kFloat4, kUint8, kFloat4};
    const uint64_t rows = small_or_full(4502, 1000003);
    for (const uint64_t distinct : {1, 3, 40, 3000, 30000}) {
        if (!full_suite() && distinct != 1 && distinct != 40) continue;
        const std::vector<uint64_t> keys = drawn_keys(rows, distinct, test_seed());
        const std::string what = std::to_string(distinct) + " groups";
        check_group_by(input_of(keys, 8, columns), sums_of(columns), distinct, what, kBoth);
        check_group_by(input_of(keys, 4, floats), sums_of(floats), distinct, what + ", 4-byte keys", kBoth);
    }
    check_group_by(input_of(one_hot_key(rows, 0.6, test_seed()), 8, columns), sums_of(columns), 0, "one hot key",
                   kBoth);
}

GPU_TEST("group by words: sums whose words carry, of either sign") {
    const uint64_t rows = small_or_full(4001, 400001);
    std::vector<uint64_t> keys;
    std::vector<int64_t> values;
    for (uint64_t row = 0; row < rows; ++row) {
        keys.push_back(row % 3 == 0 ? 5 : random64(test_seed(), row) % 90);
        const int64_t extremes[] = {-1, 1, 0, 0xffffffff, -0x100000000, 1LL << 31, -(1LL << 44), (1LL << 44) - 1};
        values.push_back(extremes[random64(test_seed() + 1, row) % 8]);
    }
    for (const uint32_t key_width : {4U, 8U}) {
        HostTable table;
        table.columns.push_back(group_keys_column(keys, key_width));
        table.columns.push_back(column_of(values));
        std::vector<uint64_t> large(rows);
        for (uint64_t row = 0; row < rows; ++row) large[row] = static_cast<uint64_t>(values[row]) & ~0ULL >> 19;
        table.columns.push_back(column_of(large));
        check_group_by(GroupInput(std::move(table)),
                       {{Aggregate::kSum, 1, ValueKind::kSigned},
                        {Aggregate::kMean, 1, ValueKind::kSigned},
                        {Aggregate::kSum, 2, ValueKind::kUnsigned}},
                       0, "keys of " + std::to_string(key_width) + " bytes", kBoth);
    }
}

GPU_TEST("group by words: rows of more words than the kernels are compiled for") {
    const std::vector<Column> columns = {kInt8, kInt4, kFloat8, kInt8};
    const GroupInput input = input_of(drawn_keys(small_or_full(1503, 100003), 90, test_seed()), 8, columns);
    check_group_by(input, each(kExtremes, columns), 0, "seven words", kBoth);
}

}  // namespace spillway::gpu_test
