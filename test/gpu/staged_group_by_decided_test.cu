// SPDX-License-Identifier: Apache-2.0
// Group-bys beyond GPU memory of values that another column decides: extremes of 128 bits, in two words, and the values
// of the rows with the least number.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "memory_model/staged_memory.hpp"
#include "support/staged_group_by_check.hpp"

namespace spillway::gpu_test {

namespace {

uint64_t word_of(uint64_t row, uint64_t salt) {
    return random64(test_seed() + salt, row);
}

HostTable keyed(const std::vector<uint64_t>& keys, uint32_t key_width, double null_share) {
    HostTable table;
    std::vector<uint8_t> valid;
    if (null_share > 0) valid = null_mask(keys.size(), null_share, test_seed());
    table.columns.push_back(group_keys_column(keys, key_width, std::move(valid)));
    return table;
}

// Keys, high words among so few that the low ones decide, and low words of all 64 bits.
HostTable table_of_wide_values(const std::vector<uint64_t>& keys, uint32_t key_width, double null_share = 0) {
    HostTable table = keyed(keys, key_width, null_share);
    HostColumn high;
    HostColumn low;
    for (uint64_t row = 0; row < keys.size(); ++row) {
        high.push(static_cast<int64_t>(word_of(row, 1) % 5) - 2);
        low.push(word_of(row, 2) % 7 == 0 ? ~uint64_t{0} * (row % 2) : word_of(row, 3));
    }
    table.columns.push_back(std::move(high));
    table.columns.push_back(std::move(low));
    return table;
}

std::vector<WantedAggregate> wide_extremes() {
    std::vector<WantedAggregate> wanted = {{Aggregate::kCountRows}};
    for (const Aggregate extreme : {Aggregate::kMin, Aggregate::kMax}) {
        wanted.push_back({extreme, 1, ValueKind::kSigned});
        wanted.push_back({extreme, 2, ValueKind::kUnsigned, 1, ValueKind::kSigned});
    }
    return wanted;
}

// Keys, numbers of rows of 4 or 8 bytes in no order, each of which comes once, and values of every width.
HostTable table_of_numbered_rows(const std::vector<uint64_t>& keys, uint32_t key_width, uint32_t number_width,
                                 double null_share = 0) {
    HostTable table = keyed(keys, key_width, null_share);
    HostColumn numbers;
    numbers.width = number_width;
    for (uint64_t row = 0; row < keys.size(); ++row) {
        // Odd factors are bijections.
        if (number_width == 4) {
            numbers.push(static_cast<uint32_t>(row) * 2654435761U);
        } else {
            numbers.push(row * 0x9e3779b97f4a7c15ULL);
        }
    }
    table.columns.push_back(std::move(numbers));
    for (const uint32_t width : {1U, 2U, 4U, 8U}) {
        table.columns.push_back(value_column(keys.size(), width, ValueKind::kUnsigned, test_seed(), width));
    }
    return table;
}

std::vector<WantedAggregate> first_values() {
    std::vector<WantedAggregate> wanted = {{Aggregate::kMin, 1, ValueKind::kUnsigned}};
    for (size_t column = 2; column <= 5; ++column) {
        wanted.push_back({Aggregate::kFirst, column, ValueKind::kUnsigned, 1, ValueKind::kUnsigned});
    }
    wanted.push_back({Aggregate::kMax, 5, ValueKind::kUnsigned});
    return wanted;
}

// Chunks as they are, too: then all of their rows are aggregated when partial rows are.
void check_all_ways(const StagedGroupByCheck& check, int radix_bits, const std::string& what) {
    const uint64_t rows = check.table().rows();
    check.run(ample_group_sizes(rows, radix_bits), what + ", pages for all");
    check.run(least_group_sizes(radix_bits), what + ", least pages");
    for (const PreAggregation pre_aggregation : {PreAggregation::kNever, PreAggregation::kAlways}) {
        const StreamSizes sizes = with_pre_aggregation(least_group_sizes(radix_bits), pre_aggregation);
        check.run(sizes, what + (pre_aggregation == PreAggregation::kNever ? ", chunks as they are" : ", all grouped"));
    }
}

}  // namespace

GPU_TEST("staged group-by of decided values: extremes of 128 bits") {
    const uint64_t rows = small_or_full(1500, 20000);
    for (const uint64_t groups : {uint64_t{1}, uint64_t{2}, uint64_t{40}, rows}) {
        const std::vector<uint64_t> keys =
            groups == rows ? sparse_keys(rows, test_seed()) : drawn_keys(rows, groups, test_seed());
        const std::string what = std::to_string(groups) + " groups";
        check_all_ways(StagedGroupByCheck(table_of_wide_values(keys, 8), wide_extremes()), 3, what);
        check_all_ways(StagedGroupByCheck(table_of_wide_values(keys, 4, 0.1), wide_extremes(), true), 2,
                       what + " with NULL keys");
    }
}

GPU_TEST("staged group-by of decided values: rows without a key that is no group") {
    const uint64_t rows = small_or_full(900, 9000);
    const StagedGroupByCheck check(table_of_wide_values(drawn_keys(rows, 7, test_seed()), 4, 0.3), wide_extremes());
    check_all_ways(check, 1, "left out");
}

GPU_TEST("staged group-by of decided values: a hot group among many") {
    const uint64_t rows = small_or_full(2000, 60000);
    std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    for (uint64_t row = 0; row < rows; ++row) {
        if (row % 8 != 0) keys[row] = 77;
    }
    check_all_ways(StagedGroupByCheck(table_of_wide_values(keys, 8), wide_extremes()), 4, "wide");
    check_all_ways(StagedGroupByCheck(table_of_numbered_rows(keys, 8, 8), first_values()), 4, "first");
}

GPU_TEST("staged group-by of decided values: those of the first rows, of every width") {
    const uint64_t rows = small_or_full(1200, 15000);
    for (const uint32_t number_width : {4U, 8U}) {
        for (const uint64_t groups : {uint64_t{1}, uint64_t{60}, rows / 2}) {
            const std::vector<uint64_t> keys = drawn_keys(rows, groups, test_seed());
            const std::string what = std::to_string(groups) + " groups, numbers of " + std::to_string(number_width);
            check_all_ways(StagedGroupByCheck(table_of_numbered_rows(keys, 4, number_width), first_values()), 3, what);
            check_all_ways(StagedGroupByCheck(table_of_numbered_rows(keys, 8, number_width, 0.1), first_values(), true),
                           2, what + " with NULL keys");
        }
    }
}

// A group per row, and partial rows as short as they come: what is decided by another column takes most beside them.
GPU_TEST("staged group-by of decided values: in the device memory that sizes say") {
    const uint64_t rows = small_or_full(3000, 1 << 20);
    const HostTable numbered = table_of_numbered_rows(sparse_keys(rows, test_seed()), 4, 4);
    HostTable narrow;
    for (const size_t column : {size_t{0}, size_t{1}, size_t{2}}) narrow.columns.push_back(numbered.columns[column]);
    const StagedGroupByCheck check(narrow, {{Aggregate::kMin, 1, ValueKind::kUnsigned},
                                            {Aggregate::kFirst, 2, ValueKind::kUnsigned, 1, ValueKind::kUnsigned}});
    StreamSizes sizes = ample_group_sizes(rows / 2, 4, small_or_full(1000, 1 << 16), small_or_full(128, 1024));
    sizes.spill_bytes = 1ULL << 30;
    sizes.spill_block_bytes = 4ULL << 20;
    for (const auto pre : {PreAggregation::kAlways, PreAggregation::kNever}) {
        const StagedGroupBySpec spec = check.spec(with_pre_aggregation(sizes, pre));
        cuda::Device device(test_device().ordinal(), 4ULL << 30, 2ULL << 30);
        const uint64_t said_bytes = cuda::staged_group_by_memory(spec).device_bytes;
        check.run(device, spec, "a device of its own");
        CHECK(device.memory().peak_bytes() <= said_bytes + said_bytes / 64 + (16ULL << 20));
        CHECK_EQ(device.memory().blocks(), 0);
    }
}

}  // namespace spillway::gpu_test
