// SPDX-License-Identifier: Apache-2.0
// Every partitioner of far memory, from and to every tier, into one piece and into pages: each row exactly once in its
// partition, and not a byte beside. How long runs of pages and buffers end is in far_partition_pages_test.cu.
#include <cstdint>
#include <string>
#include <vector>

#include "device/launch.hpp"
#include "support/far_partition_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::FarPartitionOptions;

// Pages of a line, of the least size that there may be, in the small suite; in the full one also larger ones.
uint64_t line_rows(const FarInput& input) {
    return 128 / (2 * input.column_bytes());
}

void check_both_forms(FarInput& input, FarTier source, FarTier tier, int radix_bits, uint64_t page_rows,
                      const std::string& what) {
    FarPartitionOptions options;
    options.radix_bits = radix_bits;
    FarOutput piece = FarOutput::piece(tier, input, radix_bits);
    check_every_far(input, source, piece, options, what + ", one piece of " + tier_name(tier));
    FarOutput pages = FarOutput::pages({tier}, input, radix_bits, page_rows);
    check_every_far(input, source, pages, options, what + ", pages of " + tier_name(tier));
}

__global__ void read_rows(const cuda::FarRows rows, uint32_t key_words, unsigned long long* key_sums) {
    const uint64_t p = blockIdx.x;
    for (uint64_t i = threadIdx.x; i < rows.counts[p]; i += blockDim.x) {
        const auto* const row = reinterpret_cast<const uint32_t*>(rows.row(p, i));
        const uint64_t key = key_words == 1 ? row[0] : uint64_t{row[1]} << 32 | row[0];
        atomicAdd(&key_sums[p], key);
        // Rows of a run lie behind each other.
        const uint64_t last = rows.run(p, i) - 1;
        if (rows.row(p, i + last) != rows.row(p, i) + last * rows.tuple_bytes) atomicAdd(&key_sums[p], 1ULL << 63 | 1);
    }
}

}  // namespace

GPU_TEST("far partition: every partitioner, width, tier and form") {
    const std::vector<uint64_t> sizes =
        full_suite() ? std::vector<uint64_t>{0, 1, 31, 32, 33, 1000, 70001} : std::vector<uint64_t>{0, 33, 1000};
    const std::vector<int> all_bits = full_suite() ? std::vector<int>{0, 1, 5, 8, 10, 12} : std::vector<int>{0, 5, 10};
    for (const uint32_t column_bytes : {4U, 8U}) {
        for (const uint64_t size : sizes) {
            FarInput input(sparse_keys(size, test_seed() + size), column_bytes, test_seed());
            for (const FarTier tier : far_tiers()) {
                const FarTier source = tier == FarTier::kHost ? FarTier::kDevice : FarTier::kHost;
                for (const int bits : all_bits) {
                    check_both_forms(input, source, tier, bits, line_rows(input) * 4, "sparse keys");
                }
            }
        }
    }
}

GPU_TEST("far partition: every source to every destination") {
    const uint64_t rows = small_or_full(1500, 40000);
    FarInput input(sparse_keys(rows, test_seed()), 8, test_seed());
    for (const FarTier source : far_tiers()) {
        for (const FarTier tier : far_tiers()) {
            check_both_forms(input, source, tier, 6, 64, std::string("all tiers, from ") + tier_name(source));
        }
    }
}

GPU_TEST("far partition: dense, equal, Zipf and special keys") {
    const uint64_t rows = small_or_full(2000, 200003);
    const std::vector<int> all_bits = full_suite() ? std::vector<int>{1, 5, 8, 12} : std::vector<int>{1, 8};
    const std::vector<uint64_t> special = {0, ~0ULL, 1, 0x80000000ULL, 1ULL << 63, 0, ~0ULL, 0x7fffffffULL};
    for (const uint32_t column_bytes : {4U, 8U}) {
        FarInput dense(dense_permutation(rows, test_seed()), column_bytes, test_seed());
        FarInput equal(std::vector<uint64_t>(rows, ~6ULL), column_bytes, test_seed());
        FarInput zipf(zipf_keys(rows, rows, 1.2, test_seed()), column_bytes, test_seed());
        FarInput extremes(special, column_bytes, test_seed());
        for (const int bits : all_bits) {
            const auto check = [&](FarInput& input, const char* what) {
                check_both_forms(input, FarTier::kDevice, FarTier::kHost, bits, line_rows(input) * 2, what);
            };
            check(dense, "dense keys");
            check(equal, "equal keys");
            check(zipf, "Zipf 1.2");
            check(extremes, "extreme keys");
        }
    }
}

GPU_TEST("far partition: millions of rows") {
    const uint64_t rows = small_or_full(4000, 5000011);
    const std::vector<int> all_bits = full_suite() ? std::vector<int>{0, 3, 10, 12} : std::vector<int>{3};
    for (const uint32_t column_bytes : {4U, 8U}) {
        FarInput input(sparse_keys(rows, test_seed()), column_bytes, test_seed());
        for (const int bits : all_bits) {
            check_both_forms(input, FarTier::kHost, FarTier::kHost, bits, small_or_full(32, 4096), "many rows");
        }
    }
}

GPU_TEST("far partition: kernels find rows as the host does") {
    const uint64_t rows = small_or_full(3000, 100000);
    for (const uint32_t column_bytes : {4U, 8U}) {
        FarInput input(sparse_keys(rows, test_seed()), column_bytes, test_seed());
        FarPartitionOptions options;
        options.radix_bits = 4;
        std::vector<unsigned long long> expected(16, 0);
        for (uint64_t row = 0; row < rows; ++row) {
            expected[far_partition_of(input.mixed(row), column_bytes, 4)] += input.mixed(row);
        }
        FarOutput piece = FarOutput::piece(FarTier::kDevice, input, 4);
        FarOutput pages = FarOutput::pages(far_tiers(), input, 4, 32);
        for (FarOutput* output : {&piece, &pages}) {
            const cuda::FarPartitions partitions =
                cuda::far_partition(test_device(), input.in(FarTier::kDevice), output->destination(), options);
            const DeviceArray<unsigned long long> sums = upload(std::vector<unsigned long long>(16, 0));
            cuda::launch(read_rows, dim3(16), dim3(64), 0, test_device().stream(), partitions.device_rows(),
                         column_bytes / 4, sums.data());
            CHECK(download(sums) == expected);
        }
    }
}

}  // namespace spillway::gpu_test
