// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest_mean.hpp"
#include "gpu_test.hpp"
#include "support/error_of.hpp"
#include "support/group_table_check.hpp"

namespace spillway::gpu_test {

namespace {

// Column 0: 4-byte keys, column 1: numbers of `width` bytes; and the sum and the count of each key's values.
struct DecimalInput {
    DecimalInput(uint64_t rows, uint32_t width, double null_share) {
        const std::vector<uint64_t> keys = drawn_keys(rows, 40, test_seed());
        host.columns.push_back(group_keys_column(keys, 4));
        HostColumn column;
        column.width = width;
        std::vector<uint8_t> valid;
        if (null_share > 0) valid = null_mask(rows, null_share, test_seed() + 5);
        for (uint64_t row = 0; row < rows; ++row) {
            const uint64_t low = random64(test_seed() + 1, row);
            const uint64_t high = random64(test_seed() + 2, row);
            const auto bits = static_cast<__int128>(static_cast<unsigned __int128>(high) << 64 | low);
            const __int128 value = bits >> (width == 16 ? 23 : 128 - 8 * width);
            column.push_bytes(reinterpret_cast<const uint8_t*>(&value));
            if (null_share > 0 && (valid[row / 8] >> (row % 8) & 1) == 0) continue;
            auto& [sum, count] = expected[static_cast<uint32_t>(keys[row])];
            sum += value;
            ++count;
        }
        column.valid_bits = valid;
        host.columns.push_back(std::move(column));
    }

    HostTable host;
    std::map<uint32_t, std::pair<__int128, uint64_t>> expected;
};

constexpr int32_t kScale = 2;

// Columns: key, mean in hundredths, sum.
void check_decimals(const DecimalInput& input, const cuda::DeviceTable& table) {
    const HostTable result = to_host(table);
    CHECK_EQ(result.columns[2].width, 16);
    uint64_t groups = 0;
    for (uint64_t row = 0; row < result.rows(); ++row) {
        const auto found = input.expected.find(result.columns[0].value<uint32_t>(row));
        const bool is_there = found != input.expected.end();
        CHECK_EQ(result.columns[1].is_valid(row), is_there);
        CHECK_EQ(result.columns[2].is_valid(row), is_there);
        if (!is_there) continue;
        ++groups;
        const auto [sum, count] = found->second;
        CHECK(result.columns[2].value<__int128>(row) == sum);
        CHECK_EQ(result.columns[1].value<double>(row), nearest_mean(sum, count, kScale));
    }
    CHECK_EQ(groups, input.expected.size());
}

}  // namespace

GPU_TEST("group table: sums and means of decimals, with and without NULLs") {
    const uint64_t rows = small_or_full(3000, 100000);
    for (const uint32_t width : {4U, 8U, 16U}) {
        for (const double null_share : {0.0, 0.4}) {
            const DecimalInput input(rows, width, null_share);
            const TableValueKind kind = width == 16 ? TableValueKind::kDecimal : TableValueKind::kSigned;
            cuda::OwnedTableGroupBy group;
            group.keys = {{0, KeyPartKind::kUnsigned, 4}};
            group.aggregates = {{TableAggregateKind::kMean, 1, kind, 8, kScale},
                                {TableAggregateKind::kSum, 1, kind, 16}};
            for (const GroupByAlgorithm algorithm : algorithms_to_check()) {
                group.algorithm = algorithm;
                check_decimals(input, cuda::group_table(test_device(), to_device(input.host), group));
            }
        }
    }
}

GPU_TEST("group table: sums of decimals of 38 digits and of 39, of no rows") {
    const __int128 most = __int128{10'000'000'000'000'000'000ULL} * 10'000'000'000'000'000'000ULL - 1;
    const auto sum_of = [](const std::vector<__int128>& values) {
        HostTable host;
        HostColumn column;
        column.width = 16;
        for (const __int128 value : values) column.push_bytes(reinterpret_cast<const uint8_t*>(&value));
        host.columns.push_back(std::move(column));
        cuda::OwnedTableGroupBy group;
        group.aggregates = {{TableAggregateKind::kSum, 0, TableValueKind::kDecimal, 16}};
        return to_host(cuda::group_table(test_device(), to_device(host), group));
    };
    const auto fits = [&](const std::vector<__int128>& values, __int128 expected) {
        const HostTable result = sum_of(values);
        CHECK_EQ(result.rows(), 1);
        CHECK(result.columns[0].is_valid(0) && result.columns[0].value<__int128>(0) == expected);
    };
    fits({most}, most);
    fits({-most}, -most);
    fits({most, most, -most, 5, -5}, most);
    fits(std::vector<__int128>(300, -1), -300);
    for (const __int128 sign : {__int128{1}, __int128{-1}}) {
        const cuda::Error error = error_of([&] { sum_of({sign * most, sign}); });
        CHECK_EQ(error.code(), cuda::ErrorCode::kOverflow);
        CHECK(std::string(error.what()).find("38 decimal digits") != std::string::npos);
    }
    // Far beyond 128 bits, and what wraps around to a small number in them.
    CHECK_EQ(error_of([&] { sum_of(std::vector<__int128>(8000, most)); }).code(), cuda::ErrorCode::kOverflow);
    const __int128 quarter = __int128{1} << 125;
    CHECK_EQ(error_of([&] { sum_of(std::vector<__int128>(8, quarter)); }).code(), cuda::ErrorCode::kOverflow);
    const HostTable none = sum_of({});
    CHECK_EQ(none.rows(), 1);
    CHECK(!none.columns[0].is_valid(0));
}

}  // namespace spillway::gpu_test
