// SPDX-License-Identifier: Apache-2.0
// Perfect hashing whose caller does not know the range of the keys: it is found on the GPU.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "no_partitioning_join/key_range.hpp"
#include "no_partitioning_join/npj_policy.hpp"
#include "support/no_partitioning_join_check.hpp"

namespace spillway::gpu_test {

using cuda::ErrorCode;
using cuda::KeyRange;

namespace {

constexpr uint64_t kTop32 = 1ULL << 31;
constexpr uint64_t kTop64 = 1ULL << 63;

const NpjOptions kUnknownRange = perfect(0, 0);

uint64_t in_width(uint64_t key, uint32_t key_width) {
    return key_width == 4 ? key & 0xffffffffU : key;
}

void check_range(const std::vector<uint64_t>& keys, uint32_t key_width, const KeyRange& expected) {
    const KeyRange found = cuda::find_key_range(test_device(), KeyedRelation(keys, key_width, {}, 1).device());
    CHECK_EQ(found.first, in_width(expected.first, key_width));
    CHECK_EQ(found.keys, expected.keys);
}

// The text of the kInvalid that both ways to run the join throw.
std::string refusal(const KeyedRelation& build, const KeyedRelation& probe) {
    cuda::Device& device = test_device();
    const uint64_t blocks = device.memory().blocks();
    CHECK_THROWS(cuda::no_partitioning_count(device, build.device(), probe.device(), kUnknownRange),
                 ErrorCode::kInvalid);
    std::string text;
    try {
        cuda::no_partitioning_join(device, build.device(), probe.device(), all_columns(build, probe), kUnknownRange);
    } catch (const cuda::Error& error) {
        CHECK(error.code() == ErrorCode::kInvalid);
        text = error.what();
    }
    CHECK_EQ(device.memory().blocks(), blocks);
    return text;
}

void check_refused(const std::vector<uint64_t>& keys, uint32_t key_width, const char* why) {
    const KeyedRelation relation(keys, key_width, {4}, test_seed());
    CHECK(refusal(relation, relation).find(why) != std::string::npos);
}

}  // namespace

GPU_TEST("no-partitioning join: the range of keys is found wherever it begins") {
    const uint64_t rows = small_or_full(1500, 30000);
    // Around 0, from the smallest of the numbers with a sign on, across the largest of them.
    for (const uint64_t first : {uint64_t{0}, uint64_t{1000}, uint64_t{0} - 700, kTop32, kTop64, kTop32 - rows / 2,
                                 kTop64 - rows / 2, ~uint64_t{0} - rows + 1}) {
        std::vector<uint64_t> primary = dense_permutation(rows, test_seed());
        for (uint64_t& key : primary) key += first;
        auto foreign = foreign_keys(primary, rows, 0.7, test_seed());
        for (const uint64_t key : {first - 1, first + rows, first + rows + 5}) foreign.push_back(key);
        for (const uint32_t key_width : {4U, 8U}) {
            check_range(primary, key_width, {first, rows});
            const KeyedRelation build(primary, key_width, {4}, test_seed());
            const KeyedRelation probe(foreign, key_width, {8}, test_seed() + 1);
            check_one(build, probe, kUnknownRange, expected_rows(build, probe), "dense keys");
            if (first == uint64_t{0} - 700) check(build, probe, kUnknownRange, "dense keys around 0");
        }
    }
}

GPU_TEST("no-partitioning join: the range of one key, and of none") {
    for (const uint32_t key_width : {4U, 8U}) {
        for (const uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, kTop32, kTop32 - 1, kTop64, kTop64 - 1}) {
            check_range({key}, key_width, {key, 1});
            const KeyedRelation one({key}, key_width, {4}, test_seed());
            const KeyedRelation around({key, key + 1, key, key - 1}, key_width, {4}, test_seed() + 1);
            check_one(one, around, kUnknownRange, expected_rows(one, around), "one key");
        }
        const KeyedRelation probe(dense_permutation(50, test_seed()), key_width, {4}, test_seed());
        for (const uint64_t rows : {0, 1, 100}) {
            const auto keys = dense_permutation(rows, test_seed());
            const KeyedRelation no_key(keys, key_width, {4}, test_seed(), 1.0);
            CHECK_EQ(cuda::find_key_range(test_device(), no_key.device()).keys, uint64_t{0});
            check(no_key, probe, kUnknownRange, "no keys");
            check(KeyedRelation(keys, key_width, {4}, test_seed()), KeyedRelation({}, key_width, {4}, test_seed()),
                  kUnknownRange, "no probe rows");
        }
    }
}

GPU_TEST("no-partitioning join: a range is of all rows that have a key, and of no others") {
    // More than one round of all blocks in the full suite.
    const uint64_t rows = small_or_full(10'000, 4'000'000);
    std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    for (uint64_t& key : keys) key = 5000 + key % 1000;
    for (const uint32_t key_width : {4U, 8U}) {
        // The ends, wherever they stand; by signed order the smallest key is -9.
        for (const auto& [low, high] : {std::pair<uint64_t, uint64_t>{0, rows - 1}, {rows - 1, 0}, {rows / 3, 77}}) {
            auto ends = keys;
            ends[low] = 4000;
            ends[high] = 7000;
            check_range(ends, key_width, {4000, 3001});
            ends[low] = ~uint64_t{8};
            check_range(ends, key_width, {~uint64_t{8}, 7010});
        }
    }
}

GPU_TEST("no-partitioning join: what stands under a NULL is no key of the range") {
    const uint64_t rows = small_or_full(5000, 60'000);
    const std::vector<uint8_t> valid = null_mask(rows, 0.3, test_seed());
    const auto dense = dense_permutation(rows, test_seed());
    auto keys = sparse_keys(rows, test_seed());
    for (uint64_t row = 0; row < rows; ++row) {
        if (get_bit(valid.data(), static_cast<int64_t>(row))) keys[row] = dense[row] + 100;
    }
    for (const uint32_t key_width : {4U, 8U}) {
        const KeyedRelation build(keys, key_width, {4}, test_seed(), 0.3);
        const KeyRange range = cuda::find_key_range(test_device(), build.device());
        CHECK(range.first >= 100 && range.first + range.keys <= 100 + rows);
        const KeyedRelation probe(dense_permutation(2000, test_seed() + 1), key_width, {4}, test_seed());
        check_one(build, probe, kUnknownRange, expected_rows(build, probe), "values under NULLs");
    }
}

GPU_TEST("no-partitioning join: keys that are not dense, or repeat, are refused when their range is found") {
    const uint64_t rows = cuda::kRangeSlotsFree / cuda::kRangeSlotsPerRow + small_or_full(900, 40000);
    for (const uint32_t key_width : {4U, 8U}) {
        auto keys = dense_permutation(rows, test_seed());
        // The last range that is dense enough, and the first that is not.
        const uint64_t slots = rows * cuda::kRangeSlotsPerRow;
        for (uint64_t& key : keys) key = key == rows - 1 ? slots - 1 : key;
        check_range(keys, key_width, {0, slots});
        check(KeyedRelation(keys, key_width, {4}, test_seed()),
              KeyedRelation({slots - 1, slots, 0, 5, 5}, key_width, {4}, test_seed()), kUnknownRange, "just dense");
        for (uint64_t& key : keys) key = key == slots - 1 ? slots : key;
        check_refused(keys, key_width, "not dense");
        check_refused(sparse_keys(rows, test_seed()), key_width, "not dense");
        // A small array is fine for the fewest rows.
        const KeyedRelation few({3, cuda::kRangeSlotsFree + 2}, key_width, {4}, test_seed());
        check(few, few, kUnknownRange, "few rows");
        check_refused({3, cuda::kRangeSlotsFree + 3}, key_width, "not dense");
        // As many values as there are, by either order.
        const uint64_t top = key_width == 4 ? kTop32 : kTop64;
        check_range({0, top, ~uint64_t{0}, top - 1}, key_width, {0, key_width == 4 ? 1ULL << 32 : ~uint64_t{0}});
        check_refused({0, top, ~uint64_t{0}, top - 1}, key_width, "not dense");
        auto repeated = dense_permutation(rows, test_seed());
        repeated[rows / 2] = repeated[rows / 3];
        check_refused(repeated, key_width, "comes twice");
        check_refused(std::vector<uint64_t>(rows, kTop32 + 7), key_width, "comes twice");
    }
}

GPU_TEST("no-partitioning join: a range that is found and has no memory is refused, not an end of the query") {
    cuda::Device& device = test_device();
    const KeyedRelation relation(dense_permutation(1000, test_seed()), 4, {4}, test_seed());
    // The first block is for the range itself.
    for (const auto& [block, code] : {std::pair{1, ErrorCode::kOutOfMemory}, {2, ErrorCode::kInvalid}}) {
        device.memory().fail_after(static_cast<uint64_t>(block));
        CHECK_THROWS(cuda::no_partitioning_count(device, relation.device(), relation.device(), kUnknownRange), code);
    }
    device.memory().fail_after(2);
    CHECK_THROWS(cuda::no_partitioning_count(device, relation.device(), relation.device(), perfect(0, 1000)),
                 ErrorCode::kOutOfMemory);
    device.memory().fail_after(0);
}

}  // namespace spillway::gpu_test
