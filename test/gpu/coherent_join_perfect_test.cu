// SPDX-License-Identifier: Apache-2.0
// Counts and sums of the join by kernels alone with perfect hashing in shared memory: dense keys of either width and
// sign, gaps, strides, partitions of several arrays and in parts, and what it refuses.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "support/coherent_check.hpp"
#include "support/error_of.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;

BaselineSpec perfect_spec(const CoherentCheck& check, JoinResultKind result, int radix_bits, uint64_t group_rows) {
    BaselineSpec spec = check.spec(result, radix_bits, group_rows, kMixed);
    spec.coherent.page_rows = 256;
    spec.coherent.perfect_hash = true;
    return spec;
}

// Every key of the range, in no order, times a stride.
std::vector<uint64_t> strided_keys(uint64_t rows, uint64_t first, uint64_t stride) {
    std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    for (uint64_t& key : keys) key = first + key * stride;
    return keys;
}

// About one of so many keys of a range.
std::vector<uint64_t> keys_with_gaps(uint64_t rows, uint64_t one_of) {
    std::vector<uint64_t> keys;
    for (const uint64_t key : dense_permutation(rows * one_of, test_seed())) {
        if (random64(test_seed() + 7, key) % one_of == 0) keys.push_back(key);
    }
    return keys;
}

// Keys that are there, their neighbours in the range and on both sides of it, and keys that are far away.
std::vector<uint64_t> looked_up(const std::vector<uint64_t>& keys, uint64_t rows) {
    std::vector<uint64_t> wanted = foreign_keys(keys, rows, 0.7, test_seed());
    for (uint64_t row = 0; row < wanted.size(); row += 5) wanted[row] = keys[row % keys.size()] + row % 3 - 1;
    return wanted;
}

}  // namespace

GPU_TEST("coherent join: perfect hashing of dense keys") {
    const uint64_t rows = small_or_full(20'000, 300'000);
    const std::pair<const char*, std::vector<uint64_t>> all_keys[] = {
        {"from 0", strided_keys(rows, 0, 1)},
        {"around 0", strided_keys(rows, 0 - rows / 2, 1)},
        {"far away", strided_keys(rows, (1ULL << 63) - rows / 3, 1)},
        {"around the largest of 4 bytes", strided_keys(rows, (1ULL << 31) - rows / 2, 1)},
        {"one of three", keys_with_gaps(rows, 3)},
        {"one of twelve", keys_with_gaps(rows / 4, 12)},
        {"every 64th", strided_keys(rows, 3, 64)}};
    size_t turn = test_seed();
    for (const auto& [what, keys] : all_keys) {
        for (const uint32_t width : {4U, 8U}) {
            const CoherentCheck check(keys, looked_up(keys, 2 * rows), width);
            for (const int split_bits : {0, 1, 7}) {
                for (const int radix_bits : {0, 3}) {
                    if (!full_suite() && ++turn % 3 != 0) continue;
                    const auto result = turn % 2 == 0 ? JoinResultKind::kSums : JoinResultKind::kCount;
                    BaselineSpec spec = perfect_spec(check, result, radix_bits, 4 * rows);
                    spec.coherent.split_bits = split_bits;
                    check.expect(spec, std::string(what) + ", " + std::to_string(width) + " bytes, " +
                                           std::to_string(radix_bits) + " and " + std::to_string(split_bits) + " bits");
                }
            }
        }
    }
}

GPU_TEST("coherent join: perfect hashing by every partitioner") {
    const uint64_t rows = small_or_full(5000, 50'000);
    const std::vector<uint64_t> keys = strided_keys(rows, 1000, 1);
    for (const uint32_t width : {4U, 8U}) {
        const CoherentCheck check(keys, looked_up(keys, rows), width);
        for (int p = 0; p < cuda::kFarPartitioners; ++p) {
            BaselineSpec spec = perfect_spec(check, JoinResultKind::kSums, 4, 2 * rows);
            spec.coherent.partitioner = static_cast<cuda::FarPartitioner>(p);
            check.expect(spec, std::string(cuda::kFarPartitionerNames[p]) + ", " + std::to_string(width) + " bytes");
        }
    }
}

GPU_TEST("coherent join: perfect hashing of few rows, and of partitions in parts") {
    for (const uint64_t build_rows : {0, 1, 2, 33}) {
        for (const uint64_t probe_rows : {0, 1, 700}) {
            const std::vector<uint64_t> keys = strided_keys(build_rows, 40, 1);
            const CoherentCheck check(keys, foreign_keys(keys, probe_rows, 0.8, test_seed()));
            check.expect(perfect_spec(check, JoinResultKind::kSums, 2, 4096),
                         std::to_string(build_rows) + " x " + std::to_string(probe_rows) + " rows");
        }
    }
    const uint64_t rows = small_or_full(20'000, 200'000);
    const std::vector<uint64_t> keys = strided_keys(rows, 5, 1);
    const CoherentCheck check(keys, looked_up(keys, 2 * rows));
    check.expect(perfect_spec(check, JoinResultKind::kSums, 1, rows / 10), "parts of a partition");
}

GPU_TEST("coherent join: perfect hashing refuses keys that repeat, or are sparse") {
    const uint64_t rows = small_or_full(10'000, 100'000);
    std::vector<uint64_t> keys = strided_keys(rows, 0, 1);
    const auto refused = [&](const std::vector<uint64_t>& build, const char* why) {
        for (const uint32_t width : {4U, 8U}) {
            const CoherentCheck check(build, keys, width);
            const auto error = error_of([&] { check.run(perfect_spec(check, JoinResultKind::kCount, 2, 2 * rows)); });
            CHECK_EQ(error.code(), ErrorCode::kInvalid);
            CHECK_EQ(std::string(error.what()), std::string(why));
        }
    };
    refused(sparse_keys(rows, test_seed()), "perfect hashing: the keys of the build side are not dense");
    std::vector<uint64_t> repeated = keys;
    repeated[rows / 3] = repeated[rows / 2];
    refused(repeated, "perfect hashing: a key of the build side comes twice");
    refused(std::vector<uint64_t>(rows, 17), "perfect hashing: a key of the build side comes twice");
    const CoherentCheck check(keys, keys);
    const auto run_rows = [&] { check.run(perfect_spec(check, JoinResultKind::kRows, 2, 2 * rows)); };
    CHECK_EQ(error_of(run_rows).code(), ErrorCode::kInvalid);
}

}  // namespace spillway::gpu_test
