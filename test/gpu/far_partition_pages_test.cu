// SPDX-License-Identifier: Apache-2.0
// Pages and buffers that are just full, pools that are just too small.
#include <cstdint>
#include <string>
#include <vector>

#include "support/error_of.hpp"
#include "support/far_partition_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::FarPartitioner;
using cuda::FarPartitionOptions;

FarPartitionOptions with_bits(int radix_bits) {
    FarPartitionOptions options;
    options.radix_bits = radix_bits;
    return options;
}

}  // namespace

GPU_TEST("far partition: partitions that just fill their pages") {
    const std::vector<uint32_t> grids = full_suite() ? std::vector<uint32_t>{1, 2, 7} : std::vector<uint32_t>{2};
    for (const uint32_t column_bytes : {4U, 8U}) {
        for (const uint64_t page_rows : {uint64_t{16}, small_or_full(64, 512)}) {
            for (const uint64_t pages : {1U, 3U}) {
                for (const uint64_t rows : {pages * page_rows - 1, pages * page_rows, pages * page_rows + 1}) {
                    // One partition has all rows, the others none.
                    FarInput input(std::vector<uint64_t>(rows, 12345), column_bytes, test_seed());
                    FarOutput output = FarOutput::pages({FarTier::kDevice}, input, 3, page_rows);
                    for (const uint32_t grid : grids) {
                        FarPartitionOptions options = with_bits(3);
                        options.grid = grid;
                        check_every_far(input, FarTier::kDevice, output, options,
                                        "pages of " + std::to_string(page_rows) + " rows");
                    }
                }
            }
        }
    }
}

GPU_TEST("far partition: small buffers, which are flushed all the time") {
    const uint64_t rows = small_or_full(3001, 300001);
    for (const uint32_t column_bytes : {4U, 8U}) {
        FarInput sparse(sparse_keys(rows, test_seed()), column_bytes, test_seed());
        FarInput zipf(zipf_keys(rows, rows, 1.0, test_seed()), column_bytes, test_seed());
        for (FarInput* input : {&sparse, &zipf}) {
            FarOutput pages = FarOutput::pages({FarTier::kHost, FarTier::kDevice}, *input, 4, 32);
            FarOutput piece = FarOutput::piece(FarTier::kHost, *input, 4);
            for (const uint32_t buffer_bytes : {16U, 32U, 128U}) {
                for (const uint32_t second_level_bytes : {buffer_bytes, 256U}) {
                    FarPartitionOptions options = with_bits(4);
                    options.buffer_bytes = buffer_bytes;
                    options.second_level_bytes = second_level_bytes;
                    options.grid = 3;
                    const std::string what = "buffers of " + std::to_string(buffer_bytes) + " and " +
                                             std::to_string(second_level_bytes) + " bytes";
                    check_every_far(*input, FarTier::kDevice, pages, options, what + ", pages");
                    check_every_far(*input, FarTier::kDevice, piece, options, what + ", one piece");
                }
            }
        }
    }
}

GPU_TEST("far partition: pages of every tier in one pool") {
    FarInput input(sparse_keys(small_or_full(3000, 500000), test_seed()), 8, test_seed());
    FarOutput output = FarOutput::pages(far_tiers(), input, 6, 64);
    check_every_far(input, FarTier::kHost, output, with_bits(6), "pages of all tiers");
}

GPU_TEST("far partition: a pool that lacks a page") {
    const uint64_t rows = small_or_full(2500, 100000);
    FarInput input(sparse_keys(rows, test_seed()), 8, test_seed());
    constexpr uint64_t kPageRows = 32;
    uint64_t needed = 0;
    for (const uint64_t count : input.counts(5)) needed += (count + kPageRows - 1) / kPageRows;
    FarOutput enough = FarOutput::pages({FarTier::kHost}, input, 5, kPageRows, needed);
    for (const auto& [name, partitioner] : far_partitioners()) {
        FarPartitionOptions options = with_bits(5);
        options.partitioner = partitioner;
        const uint64_t used_bytes = test_device().memory().used_bytes();
        for (const uint64_t pages : {needed - 1, uint64_t{1}}) {
            enough.clear();
            cuda::FarDestination fewer = enough.destination();
            fewer.pages.pages = pages;
            const cuda::Error error =
                error_of([&] { cuda::far_partition(test_device(), input.in(FarTier::kHost), fewer, options); });
            CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
            CHECK_EQ(error.tier, cuda::Tier::kHost);
            CHECK_EQ(error.wanted_bytes, needed * kPageRows * 16);
            CHECK_EQ(error.free_bytes, pages * kPageRows * 16);
            CHECK_EQ(test_device().memory().used_bytes(), used_bytes);
            enough.look();
            enough.forget_pages(pages);
            CHECK(enough.is_untouched());
        }
        check_far(input, FarTier::kHost, enough, options, std::string(name) + " after a refusal");
    }
}

GPU_TEST("far partition: counts of the CPU") {
    const uint64_t rows = small_or_full(2000, 50000);
    for (const uint32_t column_bytes : {4U, 8U}) {
        FarInput input(zipf_keys(rows, rows, 0.8, test_seed()), column_bytes, test_seed());
        FarOutput output = FarOutput::piece(FarTier::kHost, input, 7);
        std::vector<uint64_t> counts = input.counts(7);
        output.destination().piece.counts = counts.data();
        check_every_far(input, FarTier::kHost, output, with_bits(7), "counts of the CPU");
        // The sum is right, two partitions are not.
        size_t from = 0;
        while (counts[from] == 0) ++from;
        --counts[from];
        ++counts[from == 0 ? 1 : 0];
        for (const auto& [name, partitioner] : far_partitioners()) {
            FarPartitionOptions options = with_bits(7);
            options.partitioner = partitioner;
            CHECK_THROWS(cuda::far_partition(test_device(), input.in(FarTier::kHost), output.destination(), options),
                         cuda::ErrorCode::kInvalid);
        }
        ++counts[0];
        CHECK_THROWS(cuda::far_partition(test_device(), input.in(FarTier::kHost), output.destination(), with_bits(7)),
                     cuda::ErrorCode::kInvalid);
    }
}

}  // namespace spillway::gpu_test
