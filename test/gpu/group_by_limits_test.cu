// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "support/group_by_check.hpp"

// Group-bys whose tables overflow, whose numbers are special, and those that are refused.
namespace spillway::gpu_test {

namespace {

// With the first value, for which there is no kernel but the one for all.
const std::vector<WantedAggregate> kSomeAggregates = {
    {Aggregate::kCountRows}, {Aggregate::kSum, 1}, {Aggregate::kMin, 1}, {Aggregate::kMax, 1}, {Aggregate::kFirst, 1}};

GroupInput one_column(const std::vector<uint64_t>& keys, uint32_t key_width) {
    HostTable table;
    table.columns.push_back(group_keys_column(keys, key_width));
    table.columns.push_back(value_column(keys.size(), 4, ValueKind::kSigned, test_seed(), 1));
    return GroupInput(std::move(table));
}

}  // namespace

GPU_TEST("group by: far more groups than expected") {
    // More than a block's table holds: rows go to the table in GPU memory, or all is begun again.
    const uint64_t rows = small_or_full(15000, 600000);
    for (const uint32_t key_width : {4U, 8U}) {
        check_group_by(one_column(dense_permutation(rows, test_seed()), key_width), kSomeAggregates, 1, "one expected");
    }
    check_group_by(one_column(drawn_keys(rows, 10, test_seed()), 4), kSomeAggregates, rows, "all rows expected");
}

GPU_TEST("group by: groups in two slices of the hash range, and more") {
    const uint64_t rows = small_or_full(15000, 300000);
    for (const uint64_t distinct : {12000, 24000, 40000}) {
        check_group_by(one_column(drawn_keys(rows, distinct, test_seed()), 4),
                       {{Aggregate::kFirst, 1}, {Aggregate::kMax, 1}}, distinct, std::to_string(distinct) + " groups");
    }
}

GPU_TEST("group by: all keys in one partition") {
    const uint64_t rows = small_or_full(6000, 400000);
    std::vector<uint64_t> narrow;
    std::vector<uint64_t> wide;
    for (uint64_t row = 0; row < rows; ++row) {
        const uint64_t place = random64(test_seed(), row) % rows;
        narrow.push_back(cuda::unmix32(static_cast<uint32_t>(place)));
        wide.push_back(cuda::unmix64(place));
    }
    check_group_by(one_column(narrow, 4), kSomeAggregates, 0, "4-byte keys with equal top bits");
    check_group_by(one_column(wide, 8), kSomeAggregates, 0, "8-byte keys with equal top bits");
}

GPU_TEST("group by: NaN is the largest value, zeros are equal") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float inf = std::numeric_limits<float>::infinity();
    HostTable table;
    table.columns.push_back(group_keys_column({1, 1, 1, 2, 2, 3, 3, 4, 5, 5}, 4));
    table.columns.push_back(column_of(std::vector<float>{1, nan, -inf, inf, -nan, -0.0F, -0.0F, -nan, -2, -3}));
    table.columns.push_back(column_of(std::vector<double>{1, nan, -inf, inf, -nan, -0.0, -0.0, -nan, -2, -3}));
    const GroupInput input(std::move(table));
    HostTable expected;
    const std::vector<double> least = {-inf, inf, 0, nan, -3};
    const std::vector<double> most = {nan, nan, 0, nan, -2};
    expected.columns.push_back(column_of(std::vector<uint32_t>{1, 2, 3, 4, 5}));
    expected.columns.push_back(column_of(std::vector<float>(least.begin(), least.end())));
    expected.columns.push_back(column_of(std::vector<float>(most.begin(), most.end())));
    expected.columns.push_back(column_of(least));
    expected.columns.push_back(column_of(most));
    const std::vector<WantedAggregate> aggregates = {{Aggregate::kMin, 1, ValueKind::kFloat},
                                                     {Aggregate::kMax, 1, ValueKind::kFloat},
                                                     {Aggregate::kMin, 2, ValueKind::kFloat},
                                                     {Aggregate::kMax, 2, ValueKind::kFloat}};
    for (const GroupByAlgorithm algorithm : kGroupByAlgorithms) {
        const cuda::GroupByResult result = cuda::group_by(test_device(), input.request(algorithm, aggregates, 0));
        CHECK_EQ(row_difference(download_groups(result, 4, {4, 4, 8, 8}), expected), "");
    }
}

GPU_TEST("group by: sums beyond 64 bits are told apart from those that come back") {
    const int64_t low = std::numeric_limits<int64_t>::min();
    const int64_t high = std::numeric_limits<int64_t>::max();
    const auto overflows = [](const std::vector<int64_t>& values, ValueKind kind) {
        HostTable table;
        table.columns.push_back(group_keys_column(std::vector<uint64_t>(values.size(), 9), 4));
        table.columns.push_back(column_of(values));
        const GroupInput input(std::move(table));
        std::vector<bool> found;
        for (const GroupByAlgorithm algorithm : kGroupByAlgorithms) {
            const auto request = input.request(algorithm, {{Aggregate::kCountRows}, {Aggregate::kSum, 1, kind}}, 0);
            const cuda::GroupByResult result = cuda::group_by(test_device(), request);
            uint64_t wanted = 0;
            for (const int64_t value : values) wanted += static_cast<uint64_t>(value);
            CHECK_EQ(download(result.values[1].as<uint64_t>(), 1)[0], wanted);
            CHECK(algorithm == GroupByAlgorithm::kHash || result.sum_overflows == found);
            found = result.sum_overflows;
        }
        return found[0] ? 3 : found[1] ? 2 : 0;
    };
    CHECK_EQ(overflows({high, high, low, low}, ValueKind::kSigned), 0);
    CHECK_EQ(overflows({high, 1}, ValueKind::kSigned), 2);
    CHECK_EQ(overflows({low, -1}, ValueKind::kSigned), 2);
    CHECK_EQ(overflows(std::vector<int64_t>(200, -1), ValueKind::kSigned), 0);
    CHECK_EQ(overflows({high, high, 1}, ValueKind::kUnsigned), 0);
    CHECK_EQ(overflows({-1, 1}, ValueKind::kUnsigned), 2);
    CHECK_EQ(overflows(std::vector<int64_t>(200, high), ValueKind::kSigned), 2);
}

GPU_TEST("group by: row numbers as values") {
    const uint64_t rows = small_or_full(3000, 100000);
    const std::vector<uint64_t> keys = drawn_keys(rows, 50, test_seed());
    HostTable table;
    table.columns.push_back(group_keys_column(keys, 4));
    std::vector<uint64_t> numbers(rows);
    for (uint64_t row = 0; row < rows; ++row) numbers[row] = row;
    table.columns.push_back(column_of(numbers));
    const HostTable expected = reference_group_by(
        table, {0}, {{Aggregate::kMin, 1, ValueKind::kUnsigned}, {Aggregate::kMax, 1, ValueKind::kUnsigned}});
    const GroupInput input(std::move(table));
    for (const GroupByAlgorithm algorithm : kGroupByAlgorithms) {
        cuda::GroupByRequest request = input.request(algorithm, {{Aggregate::kMin, 1}, {Aggregate::kMax, 1}}, 0);
        for (cuda::GroupAggregate& aggregate : request.aggregates) aggregate.values = {nullptr, 8};
        const cuda::GroupByResult result = cuda::group_by(test_device(), request);
        CHECK_EQ(row_difference(download_groups(result, 4, {8, 8}), expected), "");
    }
}

GPU_TEST("group by: means of integers are the doubles nearest to them, also where sums exceed 64 bits") {
    const uint64_t rows = small_or_full(3000, 100000);
    for (const uint64_t groups : {3ULL, 700ULL}) {
        HostTable table;
        table.columns.push_back(group_keys_column(drawn_keys(rows, groups, test_seed()), 4));
        std::vector<uint64_t> any(rows), odd(rows);
        for (uint64_t row = 0; row < rows; ++row) {
            any[row] = random64(test_seed() + 1, row);
            odd[row] = (1ULL << 53) + 1;  // its mean lies half-way between two doubles
        }
        table.columns.push_back(column_of(any));
        table.columns.push_back(column_of(odd, null_mask(rows, 0.3, test_seed() + 2)));
        const GroupInput input(std::move(table));
        const std::vector<WantedAggregate> means = {{Aggregate::kMean, 1, ValueKind::kSigned},
                                                    {Aggregate::kMean, 1, ValueKind::kUnsigned},
                                                    {Aggregate::kMean, 2, ValueKind::kSigned}};
        check_group_by(input, means, 0, "means of " + std::to_string(groups) + " groups");
        // One sum alone has kernels of its own.
        check_group_by(input, {means[0]}, 0, "one mean of " + std::to_string(groups) + " groups");
    }
}

GPU_TEST("group by: bad arguments and refused memory") {
    cuda::Device& device = test_device();
    const GroupInput input = one_column(drawn_keys(3000, 700, test_seed()), 4);
    const cuda::GroupByRequest good = input.request(GroupByAlgorithm::kPartitioned, kSomeAggregates, 0);
    cuda::GroupByRequest bad = good;
    bad.key.width = 2;
    CHECK_THROWS(cuda::group_by(device, bad), cuda::ErrorCode::kInvalid);
    bad = good;
    bad.key.data = nullptr;
    CHECK_THROWS(cuda::group_by(device, bad), cuda::ErrorCode::kInvalid);
    bad = good;
    bad.aggregates[1].values.width = 16;
    CHECK_THROWS(cuda::group_by(device, bad), cuda::ErrorCode::kInvalid);
    bad.aggregates[1].values.width = 2;
    bad.aggregates[1].value_kind = cuda::ValueKind::kFloat;
    CHECK_THROWS(cuda::group_by(device, bad), cuda::ErrorCode::kInvalid);
    cuda::MemoryPool& memory = device.memory();
    for (const GroupByAlgorithm algorithm : kGroupByAlgorithms) {
        cuda::GroupByRequest request = good;
        request.algorithm = algorithm;
        const uint64_t before = memory.used_bytes();
        uint64_t failures = 0;
        for (uint64_t n = 1; n < 100; ++n) {
            memory.fail_after(n);
            try {
                cuda::group_by(device, request);
                break;
            } catch (const cuda::Error& error) {
                CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
                ++failures;
            }
            CHECK_EQ(memory.used_bytes(), before);
        }
        memory.fail_after(0);
        CHECK(failures > 5);
    }
    device.set_cancelled(true);
    const auto run = [&] { cuda::group_by(device, good); };
    CHECK_THROWS(run(), cuda::ErrorCode::kCancelled);
    device.set_cancelled(false);
}

}  // namespace spillway::gpu_test
