// SPDX-License-Identifier: Apache-2.0
// What partitioners of far memory count on their way, for a second pass of more radix bits.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/device_array.hpp"
#include "support/far_partition_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::FarPartitionOptions;

// Each row has a key, or every third one has none.
std::vector<uint32_t> keys_there(uint64_t rows, bool has_all) {
    std::vector<uint32_t> words((rows + 31) / 32, 0);
    for (uint64_t row = 0; row < rows; ++row) {
        if (has_all || row % 3 != 0) words[row / 32] |= 1U << (row % 32);
    }
    return words;
}

std::vector<uint64_t> expected_counts(const FarInput& input, const std::vector<uint32_t>& there, int bits) {
    std::vector<uint64_t> counts(1ULL << bits, 0);
    for (uint64_t row = 0; row < input.rows(); ++row) {
        if ((there[row / 32] >> (row % 32) & 1) == 0) continue;
        ++counts[far_partition_of(input.mixed(row), input.column_bytes(), bits)];
    }
    return counts;
}

// The same rows twice: the second time what was there is added to.
void check_counts(FarInput& input, FarPartitionOptions options, bool has_all, const std::string& what) {
    const int bits = options.radix_bits + options.split_bits;
    const std::vector<uint32_t> there = keys_there(input.rows(), has_all);
    const DeviceArray<uint32_t> key_valid = upload(there);
    cuda::FarRelation relation = input.in(FarTier::kHost);
    if (!has_all) relation.key_valid = key_valid.data();
    std::vector<uint64_t> expected = expected_counts(input, there, bits);
    const DeviceArray<uint64_t> counts = upload(std::vector<uint64_t>(expected.size(), 0));
    options.split_counts = counts.data();
    FarOutput output = FarOutput::pages({FarTier::kDevice, FarTier::kHost}, input, options.radix_bits, 64);
    for (int time = 1; time <= 2; ++time) {
        cuda::far_partition(test_device(), relation, output.destination(), options);
        std::vector<uint64_t> wanted = expected;
        for (uint64_t& count : wanted) count *= static_cast<uint64_t>(time);
        if (download(counts) != wanted) fail(what + ": rows were counted wrong", __FILE__, __LINE__);
    }
}

}  // namespace

GPU_TEST("far partition: rows are counted for a second pass") {
    const uint64_t rows = small_or_full(2003, 200'003);
    const std::pair<int, int> all_bits[] = {{0, 0}, {0, 8}, {5, 3}, {8, 8}, {12, 4}};
    size_t turn = test_seed();
    for (const uint32_t column_bytes : {4U, 8U}) {
        FarInput sparse(sparse_keys(rows, test_seed()), column_bytes, test_seed());
        FarInput zipf(zipf_keys(rows, rows, 1.0, test_seed()), column_bytes, test_seed());
        FarInput equal(std::vector<uint64_t>(rows, 12345), column_bytes, test_seed());
        FarInput none({}, column_bytes, test_seed());
        for (FarInput* input : {&sparse, &zipf, &equal, &none}) {
            for (const auto& [name, partitioner] : far_partitioners()) {
                const int most = cuda::far_bits_max(test_device().properties(), partitioner, column_bytes);
                for (const auto& [radix_bits, split_bits] : all_bits) {
                    if (radix_bits > most || (!full_suite() && ++turn % 4 != 0)) continue;
                    FarPartitionOptions options;
                    options.partitioner = partitioner;
                    options.radix_bits = radix_bits;
                    options.split_bits = split_bits;
                    const std::string what = std::string(name) + ", " + std::to_string(radix_bits) + " and " +
                                             std::to_string(split_bits) + " bits";
                    check_counts(*input, options, true, what);
                    check_counts(*input, options, false, what + ", rows without a key");
                }
            }
        }
    }
}

}  // namespace spillway::gpu_test
