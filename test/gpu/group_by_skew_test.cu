// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "support/group_by_check.hpp"

// Keys that are not equally frequent: sums of hot slots in registers (hot_sums.cuh), expected groups that are asked of
// a sample (estimate_groups.hpp), attempts that are given up.
namespace spillway::gpu_test {

namespace {

// Columns 1 to 4: signed, unsigned and floats of 4 bytes or of 8.
GroupInput four_columns(const std::vector<uint64_t>& keys, uint32_t key_width, uint32_t width) {
    HostTable table;
    table.columns.push_back(group_keys_column(keys, key_width));
    for (const ValueKind kind : {ValueKind::kSigned, ValueKind::kUnsigned, ValueKind::kFloat, ValueKind::kSigned}) {
        table.columns.push_back(value_column(keys.size(), width, kind, test_seed(), table.columns.size()));
    }
    return GroupInput(std::move(table));
}

const std::vector<std::vector<WantedAggregate>> kWanted = {
    {{Aggregate::kSum, 1}},
    {{Aggregate::kSum, 1}, {Aggregate::kSum, 2, ValueKind::kUnsigned}},
    {{Aggregate::kSum, 1}, {Aggregate::kMax, 2, ValueKind::kUnsigned}},
    {{Aggregate::kSum, 3, ValueKind::kFloat}, {Aggregate::kCountRows}},
    {{Aggregate::kMean, 1}, {Aggregate::kSum, 3, ValueKind::kFloat}, {Aggregate::kSum, 2, ValueKind::kUnsigned}},
    {{Aggregate::kSum, 1},
     {Aggregate::kSum, 2, ValueKind::kUnsigned},
     {Aggregate::kMin, 3, ValueKind::kFloat},
     {Aggregate::kSum, 4}}};

const std::vector<GroupByAlgorithm> kInTables = {GroupByAlgorithm::kHash, GroupByAlgorithm::kHashGlobal,
                                                 GroupByAlgorithm::kPartitioned};

void check_all(const std::vector<uint64_t>& keys, uint64_t expected_groups, const std::string& what) {
    const std::string seed = ", seed " + std::to_string(test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        for (const uint32_t width : {4U, 8U}) {
            if (!full_suite() && key_width != width) continue;
            const GroupInput input = four_columns(keys, key_width, width);
            for (const std::vector<WantedAggregate>& wanted : kWanted) {
                check_group_by(input, wanted, expected_groups, what + seed, kInTables);
            }
        }
    }
}

}  // namespace

GPU_TEST("group by skew: Zipf keys") {
    const uint64_t rows = small_or_full(3001, 12001);
    for (const double exponent : {0.5, 0.75, 1.0, 1.5, 2.0}) {
        if (!full_suite() && exponent != 1.0) continue;
        check_all(zipf_keys(rows, rows / 8, exponent, test_seed()), rows / 8, "Zipf " + std::to_string(exponent));
    }
}

GPU_TEST("group by skew: one hot key of any share") {
    const uint64_t rows = small_or_full(3001, 12001);
    for (const double share : {0.01, 0.1, 0.25, 0.5, 0.9, 1.0}) {
        if (!full_suite() && share != 0.5 && share != 1.0) continue;
        check_all(one_hot_key(rows, share, test_seed()), 0, "hot key of " + std::to_string(share));
    }
}

GPU_TEST("group by skew: keys that are hot one after the other") {
    const uint64_t rows = small_or_full(3001, 12001);
    std::vector<uint64_t> keys;
    for (uint64_t row = 0; row < rows; ++row) {
        keys.push_back(random64(test_seed(), row) % 3 == 0 ? random64(test_seed() + 1, row) % 2000 : row / 1000);
    }
    check_all(keys, 0, "in turns");
}

GPU_TEST("group by skew: so many rows that a sample is asked, and the caller expects far too few groups") {
    need_full_suite();
    const uint64_t rows = 2500000;
    for (const double exponent : {0.0, 1.0}) {
        const std::vector<uint64_t> keys =
            exponent == 0 ? drawn_keys(rows, rows / 4, test_seed()) : zipf_keys(rows, rows / 2, exponent, test_seed());
        const GroupInput input = four_columns(keys, 4, 4);
        for (const uint64_t expected : {uint64_t{1}, rows / 64, rows / 4, rows}) {
            check_group_by(input, kWanted[1], expected, std::to_string(expected) + " groups expected", kInTables);
        }
    }
}

}  // namespace spillway::gpu_test
