// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "support/error_of.hpp"
#include "support/group_table_check.hpp"

namespace spillway::gpu_test {

namespace {

// Columns: 4-byte key, 1-byte key, 4-byte integers, doubles.
HostTable some_table(uint64_t rows, uint64_t distinct, double null_share) {
    const std::vector<uint64_t> keys = drawn_keys(rows, distinct, test_seed());
    HostTable table;
    table.columns.push_back(group_keys_column(keys, 4));
    std::vector<uint8_t> narrow(rows);
    for (uint64_t row = 0; row < rows; ++row) narrow[row] = static_cast<uint8_t>(random64(test_seed() + 3, row) % 3);
    table.columns.push_back(column_of(narrow));
    table.columns.push_back(value_column(rows, 4, ValueKind::kSigned, test_seed(), 2, null_share));
    table.columns.push_back(value_column(rows, 8, ValueKind::kFloat, test_seed(), 3, null_share));
    if (null_share > 0) {
        table.columns[0].valid_bits = null_mask(rows, null_share, test_seed() + 8);
        table.columns[1].valid_bits = null_mask(rows, null_share, test_seed() + 9);
    }
    return table;
}

const std::vector<TableAggregate> kTableAggregates = {{TableAggregateKind::kCountRows},
                                                      {TableAggregateKind::kCount, 2},
                                                      {TableAggregateKind::kSum, 2, TableValueKind::kSigned, 8},
                                                      {TableAggregateKind::kMin, 2, TableValueKind::kSigned, 4},
                                                      {TableAggregateKind::kMax, 3, TableValueKind::kFloat, 8},
                                                      {TableAggregateKind::kMean, 3, TableValueKind::kFloat, 8},
                                                      {TableAggregateKind::kFirst, 2, TableValueKind::kSigned, 4}};
const std::vector<WantedAggregate> kWantedAggregates = {{Aggregate::kCountRows},
                                                        {Aggregate::kCount, 2},
                                                        {Aggregate::kSum, 2},
                                                        {Aggregate::kMin, 2},
                                                        {Aggregate::kMax, 3, ValueKind::kFloat},
                                                        {Aggregate::kMean, 3, ValueKind::kFloat},
                                                        {Aggregate::kFirst, 2}};

void check_table(const HostTable& table, const std::vector<size_t>& keys, const std::string& what) {
    cuda::OwnedTableGroupBy group;
    for (const size_t key : keys) {
        group.keys.push_back({static_cast<uint32_t>(key), KeyPartKind::kUnsigned, table.columns[key].width});
    }
    group.aggregates = kTableAggregates;
    const HostTable expected = reference_group_by(table, keys, kWantedAggregates);
    for (const GroupByAlgorithm algorithm : algorithms_to_check()) {
        group.algorithm = algorithm;
        const HostTable actual = to_host(cuda::group_table(test_device(), to_device(table), group));
        const std::string difference = row_difference(actual, expected);
        if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
    }
}

uint64_t distinct_values(const HostColumn& column) {
    std::set<std::string> cells;
    for (uint64_t row = 0; row < column.rows(); ++row) {
        std::string cell;
        column.append_cell(row, cell);
        if (column.is_valid(row)) cells.insert(cell);
    }
    return cells.size();
}

}  // namespace

GPU_TEST("group table: one key, two keys, no key, with and without NULLs") {
    const uint64_t rows = small_or_full(2000, 100000);
    for (const double null_share : {0.0, 0.3}) {
        const HostTable table = some_table(rows, rows / 10, null_share);
        check_table(table, {0}, "one key");
        check_table(table, {0, 1}, "two keys");
        check_table(table, {}, "no key");
    }
}

GPU_TEST("group table: no rows") {
    check_table(some_table(0, 1, 0), {0}, "one key");
    check_table(some_table(0, 1, 0), {0, 1}, "two keys");
    check_table(some_table(0, 1, 0), {}, "no key");
}

GPU_TEST("group table: distinct values, of one group and of many") {
    const uint64_t rows = small_or_full(2000, 100000);
    const HostTable host = some_table(rows, 50, 0.2);
    const cuda::DeviceTable table = to_device(host);
    cuda::OwnedTableGroupBy group;
    group.aggregates = {{TableAggregateKind::kCountDistinct, 0, TableValueKind::kUnsigned, 8}};
    const HostTable all = to_host(cuda::group_table(test_device(), table, group));
    CHECK_EQ(all.rows(), 1);
    CHECK_EQ(all.columns[0].value<uint64_t>(0), distinct_values(host.columns[0]));
    // By itself as the key each group has one value, but for the group of NULLs.
    group.keys = {{0, KeyPartKind::kUnsigned, 4}};
    const HostTable each = to_host(cuda::group_table(test_device(), table, group));
    CHECK_EQ(each.rows(), distinct_values(host.columns[0]) + 1);
    for (uint64_t row = 0; row < each.rows(); ++row) {
        CHECK_EQ(each.columns[1].value<uint64_t>(row), each.columns[0].is_valid(row) ? 1 : 0);
    }
}

GPU_TEST("group table: 256 aggregates") {
    const uint64_t rows = small_or_full(1000, 20000);
    const HostTable table = some_table(rows, rows / 10, 0.3);
    cuda::OwnedTableGroupBy group;
    std::vector<WantedAggregate> wanted;
    for (size_t i = 0; i < 256; ++i) {
        group.aggregates.push_back(kTableAggregates[i % kTableAggregates.size()]);
        wanted.push_back(kWantedAggregates[i % kWantedAggregates.size()]);
    }
    for (const std::vector<size_t>& keys : {std::vector<size_t>{}, {0}, {0, 1}}) {
        group.keys.clear();
        for (const size_t key : keys) {
            group.keys.push_back({static_cast<uint32_t>(key), KeyPartKind::kUnsigned, table.columns[key].width});
        }
        const HostTable expected = reference_group_by(table, keys, wanted);
        for (const GroupByAlgorithm algorithm : algorithms_to_check()) {
            group.algorithm = algorithm;
            const HostTable actual = to_host(cuda::group_table(test_device(), to_device(table), group));
            CHECK_EQ(row_difference(actual, expected), "");
        }
    }
}

GPU_TEST("group table: first, any and counts of texts") {
    const uint64_t rows = small_or_full(2000, 50000);
    const std::vector<uint64_t> numbers = drawn_keys(rows, 20, test_seed());
    HostTable host;
    host.columns.push_back(group_keys_column(numbers, 4));
    cuda::DeviceTable table = to_device(host);
    table.columns.push_back(texts_of(numbers, {}));
    cuda::OwnedTableGroupBy group;
    group.keys = {{0, KeyPartKind::kUnsigned, 4}};
    for (const TableAggregateKind kind : {TableAggregateKind::kFirst, TableAggregateKind::kAny,
                                          TableAggregateKind::kCount, TableAggregateKind::kCountDistinct}) {
        group.aggregates.push_back({kind, 1, TableValueKind::kBytes, kind < TableAggregateKind::kFirst ? 8U : 0U});
    }
    const cuda::DeviceTable result = cuda::group_table(test_device(), table, group);
    CHECK_EQ(result.rows, distinct_values(host.columns[0]));
    const auto keys = download(result.columns[0].values.as<uint32_t>(), result.rows);
    const auto counts = download(result.columns[4].values.as<uint64_t>(), result.rows);
    for (const size_t column : {1, 2}) {
        const auto offsets = download(result.columns[column].offsets.as<uint64_t>(), result.rows + 1);
        const auto bytes = download(result.columns[column].values.as<char>(), offsets.back());
        for (uint64_t row = 0; row < result.rows; ++row) {
            const std::string text(bytes.begin() + static_cast<int64_t>(offsets[row]),
                                   bytes.begin() + static_cast<int64_t>(offsets[row + 1]));
            CHECK_EQ(static_cast<uint32_t>(std::stoull(text)), keys[row]);
            CHECK_EQ(counts[row], 1);
        }
    }
}

GPU_TEST("group table: what the CPU engine has to do") {
    HostTable host = some_table(40, 3, 0);
    host.columns.push_back(column_of(std::vector<int64_t>(40, INT64_MAX)));
    const cuda::DeviceTable table = to_device(host);
    const auto refused = [&](const TableAggregate& aggregate, const std::string& text,
                             cuda::ErrorCode code = cuda::ErrorCode::kInvalid) {
        cuda::OwnedTableGroupBy group;
        group.aggregates = {aggregate};
        const cuda::Error error = error_of([&] { cuda::group_table(test_device(), table, group); });
        CHECK_EQ(error.code(), code);
        CHECK(std::string(error.what()).find(text) != std::string::npos);
    };
    refused({TableAggregateKind::kSum, 4, TableValueKind::kSigned, 8}, "does not fit 64 bits",
            cuda::ErrorCode::kOverflow);
    refused({TableAggregateKind::kSum, 1, TableValueKind::kDecimal, 16}, "values of 1 bytes");
    refused({TableAggregateKind::kSum, 2, TableValueKind::kDecimal, 32}, "a result of 32 bytes");
    refused({TableAggregateKind::kMax, 2, TableValueKind::kDecimal, 16}, "a result of 16 bytes");
    refused({TableAggregateKind::kSum, 2, TableValueKind::kBytes, 0}, "byte strings");
    refused({TableAggregateKind::kMax, 1, TableValueKind::kFloat, 1}, "half floats");
    refused({TableAggregateKind::kSum, 9, TableValueKind::kSigned, 8}, "does not have");
}

}  // namespace spillway::gpu_test
