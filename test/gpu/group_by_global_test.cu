// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "device/phase_times.hpp"
#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "support/group_by_check.hpp"

// The table in GPU memory that numbers groups, the arrays by these numbers, and the algorithm that a group-by ends
// with.
namespace spillway::gpu_test {

namespace {

const std::vector<GroupByAlgorithm> kGlobal = {GroupByAlgorithm::kHashGlobal};

const std::vector<WantedAggregate> kAllKinds = {{Aggregate::kCountRows},
                                                {Aggregate::kCount, 2},
                                                {Aggregate::kSum, 1},
                                                {Aggregate::kMean, 1},
                                                {Aggregate::kMin, 1},
                                                {Aggregate::kMax, 2, ValueKind::kFloat},
                                                {Aggregate::kSum, 2, ValueKind::kFloat},
                                                {Aggregate::kFirst, 2, ValueKind::kFloat},
                                                {Aggregate::kSum, 3},
                                                {Aggregate::kMin, 3}};

// Signed integers of 4 bytes, doubles with NULLs, signed integers of 8 bytes.
GroupInput all_kinds(const std::vector<uint64_t>& keys, uint32_t key_width, bool has_null_keys = false) {
    HostTable table;
    std::vector<uint8_t> valid;
    if (has_null_keys) valid = null_mask(keys.size(), 0.3, test_seed());
    table.columns.push_back(group_keys_column(keys, key_width, valid));
    table.columns.push_back(value_column(keys.size(), 4, ValueKind::kSigned, test_seed(), 1));
    table.columns.push_back(value_column(keys.size(), 8, ValueKind::kFloat, test_seed(), 2, 0.2));
    table.columns.push_back(value_column(keys.size(), 8, ValueKind::kSigned, test_seed(), 3));
    return GroupInput(std::move(table));
}

// Keys that all begin at the first slot of the table, whatever its size.
std::vector<uint64_t> keys_of_first_slot(uint64_t count, uint32_t key_width) {
    // The inverses of what global_slot() multiplies mixed keys by: Newton's iteration doubles the right bits.
    uint32_t narrow = 0x9e3779b1U;
    uint64_t wide = 0x9e3779b97f4a7c15ULL;
    for (int i = 0; i < 6; ++i) {
        narrow *= 2 - 0x9e3779b1U * narrow;
        wide *= 2 - 0x9e3779b97f4a7c15ULL * wide;
    }
    std::vector<uint64_t> keys;
    for (uint64_t i = 1; i <= count; ++i) {
        keys.push_back(key_width == 4 ? cuda::unmix32(narrow * static_cast<uint32_t>(i)) : cuda::unmix64(wide * i));
    }
    return keys;
}

GroupByAlgorithm algorithm_that_ran(const cuda::GroupByRequest& request) {
    const cuda::PhaseTimes times(test_device());
    cuda::group_by(test_device(), request);
    return static_cast<GroupByAlgorithm>(times.algorithm());
}

}  // namespace

GPU_TEST("group by global: arrays in shared memory, in both memories, NULL keys") {
    // 100 bytes of accumulators or so: blocks have room for some 2,000 groups.
    const uint64_t rows = small_or_full(4000, 100000);
    for (const uint64_t distinct : {uint64_t{1}, uint64_t{40}, small_or_full(1000, 2000), small_or_full(3500, 40000)}) {
        for (const uint32_t key_width : {4U, 8U}) {
            const std::string what = std::to_string(distinct) + " groups, keys of " + std::to_string(key_width);
            const std::vector<uint64_t> keys = drawn_keys(rows, distinct, test_seed());
            check_group_by(all_kinds(keys, key_width, distinct == 40), kAllKinds, distinct, what, kGlobal);
        }
    }
}

GPU_TEST("group by global: one aggregate, none, and NULL keys alone") {
    const uint64_t rows = small_or_full(3000, 200000);
    const GroupInput input = all_kinds(drawn_keys(rows, rows / 3, test_seed()), 8);
    for (const WantedAggregate& wanted : kAllKinds) check_group_by(input, {wanted}, 0, "one aggregate", kGlobal);
    check_group_by(input, {}, 0, "keys alone", kGlobal);
    HostTable nulls;
    nulls.columns.push_back(group_keys_column({5, 6, 7}, 4, {0}));
    nulls.columns.push_back(value_column(3, 4, ValueKind::kSigned, test_seed(), 1));
    check_group_by(GroupInput(std::move(nulls)), {{Aggregate::kSum, 1}}, 0, "NULL keys alone", kGlobal);
}

GPU_TEST("group by global: more groups than expected, and keys that begin at one slot") {
    // One expected group has 65,538 slots.
    const uint64_t rows = small_or_full(3000, 300000);
    check_group_by(all_kinds(dense_permutation(rows, test_seed()), 4), kAllKinds, 1, "one expected", kGlobal);
    for (const uint32_t key_width : {4U, 8U}) {
        // Searches that go on for more slots than an attempt allows for.
        const std::vector<uint64_t> keys = keys_of_first_slot(600, key_width);
        check_group_by(all_kinds(keys, key_width), kAllKinds, 600, "one first slot", kGlobal);
        const uint64_t marker = key_width == 4 ? cuda::unmix32(~0U) : cuda::unmix64(~0ULL);
        const std::vector<uint64_t> marked = {marker, 1, marker, 0, marker};
        check_group_by(all_kinds(marked, key_width), kAllKinds, 0, "the marker", kGlobal);
    }
}

GPU_TEST("group by global: hot keys that come first, and last") {
    const uint64_t rows = small_or_full(4000, 200000);
    std::vector<uint64_t> keys;
    for (uint64_t row = 0; row < rows; ++row) keys.push_back(row < rows / 2 ? row : 77'777'777);
    check_group_by(all_kinds(keys, 8), kAllKinds, rows, "hot key last", kGlobal);
    check_group_by(all_kinds(one_hot_key(rows, 0.99, test_seed()), 4), kAllKinds, rows, "one of 99 %", kGlobal);
    check_group_by(all_kinds(zipf_keys(rows, rows, 1, test_seed()), 4), kAllKinds, rows, "Zipf", kGlobal);
}

GPU_TEST("group by global: tables in shared memory give way to it where the user named them") {
    const uint64_t rows = 100000;
    const std::vector<WantedAggregate> sums = {{Aggregate::kSum, 1}};
    const GroupInput few = all_kinds(drawn_keys(rows, 30, test_seed()), 4);
    const GroupInput many = all_kinds(dense_permutation(rows, test_seed()), 4);
    const auto ran = [&](const GroupInput& input, uint64_t expected, bool is_named, bool in_parts) {
        const std::vector<WantedAggregate>& aggregates = in_parts ? kAllKinds : sums;
        cuda::GroupByRequest request = input.request(GroupByAlgorithm::kHash, aggregates, expected, in_parts);
        request.is_named = is_named;
        return algorithm_that_ran(request);
    };
    for (const bool in_parts : {false, true}) {
        CHECK_EQ(ran(few, 30, true, in_parts), GroupByAlgorithm::kHash);
        CHECK_EQ(ran(many, rows, true, in_parts), GroupByAlgorithm::kHashGlobal);
        CHECK_EQ(ran(many, rows, false, in_parts), GroupByAlgorithm::kPartitioned);
    }
    // An attempt finds out what nobody expected.
    const GroupInput more = all_kinds(dense_permutation(5'000'000, test_seed()), 4);
    CHECK_EQ(ran(more, 5, true, false), GroupByAlgorithm::kHashGlobal);
    CHECK_EQ(ran(more, 5, false, false), GroupByAlgorithm::kPartitioned);
}

GPU_TEST("group by global: sorted rows stay so where a tile has more groups than a table takes") {
    // 100 bytes of accumulators or so, and a group per row: tiles of 4,096 rows are too large, and too many of their
    // groups go to the table in GPU memory, but in the small suite.
    const uint64_t rows = small_or_full(9000, 300000);
    const GroupInput input = all_kinds(dense_permutation(rows, test_seed()), 4);
    for (const uint64_t expected : {uint64_t{30}, rows}) {
        CHECK_EQ(algorithm_that_ran(input.request(GroupByAlgorithm::kSorted, kAllKinds, expected)),
                 GroupByAlgorithm::kSorted);
        check_group_by(input, kAllKinds, expected, std::to_string(expected) + " expected", {GroupByAlgorithm::kSorted});
    }
}

GPU_TEST("group by global: sorts by all bits of the keys make the same groups") {
    const uint64_t rows = small_or_full(3000, 100000);
    std::vector<uint64_t> keys = drawn_keys(rows, 500, test_seed());
    for (uint64_t& key : keys) key = key % 4096 + 8192;
    const HostTable expected = reference_group_by(all_kinds(keys, 4).host(), {0}, {{Aggregate::kSum, 3}});
    const GroupInput input = all_kinds(keys, 4);
    for (const GroupByAlgorithm algorithm : {GroupByAlgorithm::kSorted, GroupByAlgorithm::kSortedColumns}) {
        uint64_t moved[2] = {};
        for (const bool all_bits : {false, true}) {
            cuda::GroupByRequest request = input.request(algorithm, {{Aggregate::kSum, 3}}, 0);
            request.all_key_bits = all_bits;
            const cuda::PhaseTimes times(test_device());
            const cuda::GroupByResult result = cuda::group_by(test_device(), request);
            CHECK_EQ(row_difference(download_groups(result, 4, {8}), expected), "");
            moved[all_bits] = times.moved_bytes();
        }
        CHECK(moved[1] > moved[0]);  // four passes, not two
    }
}

}  // namespace spillway::gpu_test
