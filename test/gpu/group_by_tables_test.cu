// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "support/group_by_check.hpp"

// Tables of blocks that are nearly full and those that overflow, and keys that compete for the same buckets. A table of
// kPartitioned has 1,024 slots where few groups are expected, whatever the key.
namespace spillway::gpu_test {

namespace {

constexpr uint64_t kFewSlots = 1024;
constexpr uint64_t kOneExpected = 1;

const std::vector<WantedAggregate> kExtremes = {{Aggregate::kMax, 1, ValueKind::kSigned},
                                                {Aggregate::kMin, 2, ValueKind::kUnsigned}};
const std::vector<WantedAggregate> kSums = {{Aggregate::kSum, 1, ValueKind::kSigned}, {Aggregate::kCountRows}};

GroupInput two_columns(const std::vector<uint64_t>& keys, uint32_t key_width) {
    HostTable table;
    table.columns.push_back(group_keys_column(keys, key_width));
    table.columns.push_back(value_column(keys.size(), 4, ValueKind::kSigned, test_seed(), 1));
    table.columns.push_back(value_column(keys.size(), 4, ValueKind::kUnsigned, test_seed(), 2));
    return GroupInput(std::move(table));
}

// Every key at least once, the first `distinct` rows all different.
std::vector<uint64_t> all_of(uint64_t distinct, uint64_t rows) {
    std::vector<uint64_t> keys = dense_permutation(distinct, test_seed());
    for (uint64_t row = distinct; row < rows; ++row) keys.push_back(keys[random64(test_seed(), row) % distinct]);
    return keys;
}

// Keys that begin in the first bucket and go on by the shortest step, in tables of up to 2^14 slots, with the one whose
// mixed key is 0 and the one that marks an empty slot.
std::vector<uint64_t> rivals(uint64_t count, uint32_t key_width) {
    std::vector<uint64_t> keys;
    for (uint32_t low = 0; keys.size() < count; ++low) {
        if ((low * 0x9e3779b1U) >> 25 != 0) continue;
        keys.push_back(key_width == 4 ? cuda::unmix32(low) : cuda::unmix64(low));
    }
    keys.push_back(key_width == 4 ? cuda::unmix32(~0U) : cuda::unmix64(~0ULL));
    return keys;
}

std::vector<uint64_t> drawn_from(const std::vector<uint64_t>& domain, uint64_t rows) {
    std::vector<uint64_t> keys(rows);
    for (uint64_t row = 0; row < rows; ++row) keys[row] = domain[random64(test_seed() + 3, row) % domain.size()];
    return keys;
}

}  // namespace

GPU_TEST("group by tables: nearly full, full and overflowing") {
    const std::vector<GroupByAlgorithm> partitioned = {GroupByAlgorithm::kPartitioned};
    for (const uint64_t distinct : {kFewSlots * 80 / 100, kFewSlots * 90 / 100, kFewSlots, kFewSlots * 5 / 4}) {
        const std::vector<uint64_t> keys = all_of(distinct, small_or_full(distinct + 501, 8000));
        for (const uint32_t key_width : {4U, 8U}) {
            const std::string what = std::to_string(distinct) + " groups, keys of " + std::to_string(key_width);
            check_group_by(two_columns(keys, key_width), kExtremes, kOneExpected, what, partitioned);
            if (full_suite()) check_group_by(two_columns(keys, key_width), kSums, kOneExpected, what, partitioned);
        }
    }
}

GPU_TEST("group by tables: all rows are groups of their own") {
    const uint64_t rows = small_or_full(1501, 200003);
    for (const uint32_t key_width : {4U, 8U}) {
        const GroupInput input = two_columns(dense_permutation(rows, test_seed()), key_width);
        check_group_by(input, kExtremes, rows, "expected, keys of " + std::to_string(key_width));
        check_group_by(input, kExtremes, kOneExpected, "not expected, keys of " + std::to_string(key_width));
    }
}

GPU_TEST("group by tables: keys with the same sequence of buckets") {
    // As many as the buckets of a walk hold, and more, which go to the table in GPU memory.
    for (const uint32_t key_width : {4U, 8U}) {
        for (const uint64_t count : {5, 90, 130}) {
            if (!full_suite() && count == 90) continue;
            const std::vector<uint64_t> keys = drawn_from(rivals(count, key_width), small_or_full(1203, 50003));
            const std::string what = std::to_string(count) + " rivals, keys of " + std::to_string(key_width);
            check_group_by(two_columns(keys, key_width), kExtremes, kOneExpected, what,
                           {GroupByAlgorithm::kHash, GroupByAlgorithm::kHashGlobal, GroupByAlgorithm::kPartitioned});
        }
    }
}

GPU_TEST("group by tables: as many groups as a slice of the hash range takes, and some more") {
    // Slots of 12 bytes: 19,344 of a multiprocessor with 227 KiB, of which 0.9 may be expected to be taken.
    const std::vector<GroupByAlgorithm> hashed = {GroupByAlgorithm::kHash};
    for (const uint64_t distinct : {15500, 17000, 17400, 18500, 34000}) {
        if (!full_suite() && distinct != 17000) continue;
        const std::vector<uint64_t> keys = all_of(distinct, small_or_full(distinct, 300001));
        const std::string what = std::to_string(distinct) + " groups";
        check_group_by(two_columns(keys, 4), kExtremes, distinct, what, hashed);
        if (!full_suite()) continue;
        check_group_by(two_columns(keys, 4), kExtremes, distinct * 95 / 100, what + ", 5 % fewer expected", hashed);
        check_group_by(two_columns(keys, 4), kSums, distinct, what + ", sums", hashed);
        check_group_by(two_columns(keys, 8), kExtremes, distinct, what + ", keys of 8", hashed);
    }
}

GPU_TEST("group by tables: partitions of one pass of seven bits, of one of eight, and of two passes") {
    need_full_suite();
    struct Case {
        uint64_t distinct;
        uint64_t expected;
    };
    // A table whose slots have 12 bytes takes 17,000 groups. The first case has 7,800 in each partition of seven bits.
    // The second expects 16,400 there, for which one more bit is taken, and finds twice as many groups as it expects.
    // The third expects 16,400 in each partition of eight bits, and the last 20,500, so that two passes and two blocks
    // are taken.
    const std::vector<Case> cases = {{1000000, 1000000}, {4200000, 2100000}, {4200000, 4200000}, {5250000, 5250000}};
    for (const Case& one : cases) {
        const GroupInput input = two_columns(all_of(one.distinct, one.distinct + 100011), 4);
        const std::string what = std::to_string(one.expected) + " of " + std::to_string(one.distinct) + " expected";
        check_group_by(input, kExtremes, one.expected, what, {GroupByAlgorithm::kPartitioned});
    }
}

}  // namespace spillway::gpu_test
