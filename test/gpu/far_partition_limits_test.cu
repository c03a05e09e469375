// SPDX-License-Identifier: Apache-2.0
// Grids, streams, small devices, refusals.
#include <cstdint>
#include <string>
#include <vector>

#include "far_partition/far_policy.hpp"
#include "far_partition/far_sizes.hpp"
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

GPU_TEST("far partition: any number of blocks, a stream of the caller") {
    const uint64_t rows = small_or_full(2000, 100000);
    FarInput input(sparse_keys(rows, test_seed()), 8, test_seed());
    FarOutput output = FarOutput::pages({FarTier::kHost}, input, 5, 32);
    const cuda::Stream stream;
    const std::vector<uint32_t> grids =
        full_suite() ? std::vector<uint32_t>{1, 3, 33, 66, 500, 100000} : std::vector<uint32_t>{1, 500};
    for (const uint32_t grid : grids) {
        FarPartitionOptions options = with_bits(5);
        options.grid = grid;
        check_every_far(input, FarTier::kHost, output, options, std::to_string(grid) + " blocks");
        options.stream = stream.get();
        check_every_far(input, FarTier::kHost, output, options, std::to_string(grid) + " blocks, own stream");
    }
}

GPU_TEST("far partition: bits and buffers by the shared memory of a block") {
    cuda::DeviceProperties properties = test_device().properties();
    for (const uint64_t kibibytes : {99U, 163U, 227U}) {
        properties.shared_bytes_per_block_optin = kibibytes << 10;
        for (const auto& [name, partitioner] : far_partitioners()) {
            for (const uint32_t column_bytes : {4U, 8U}) {
                FarPartitionOptions options;
                options.partitioner = partitioner;
                const int most = cuda::far_bits_max(properties, partitioner, column_bytes);
                CHECK(most >= 11);
                if (kibibytes == 227) CHECK_EQ(most, cuda::kFirstPassBitsMax);
                for (options.radix_bits = 0; options.radix_bits <= most; ++options.radix_bits) {
                    const cuda::FarSizes sizes = cuda::far_sizes(properties, options, 2 * column_bytes, 0);
                    CHECK(sizes.fits);
                    CHECK(sizes.shared_bytes + cuda::kFarReservedBytes <= properties.shared_bytes_per_block_optin);
                    if (partitioner == FarPartitioner::kStandard || partitioner == FarPartitioner::kLinear) continue;
                    CHECK(sizes.buffer_rows * 2 * column_bytes <= cuda::kBufferBytesMax);
                    CHECK(sizes.buffer_rows * 2 * column_bytes >= 16);
                    CHECK_EQ(sizes.memory_rows % sizes.buffer_rows, 0U);
                }
            }
        }
    }
}

GPU_TEST("far partition: bad arguments") {
    FarInput input(sparse_keys(500, test_seed()), 8, test_seed());
    FarOutput piece = FarOutput::piece(FarTier::kDevice, input, 3);
    FarOutput pages = FarOutput::pages({FarTier::kDevice}, input, 3, 16);
    const cuda::FarRelation good = input.in(FarTier::kDevice);
    const auto refused = [](const cuda::FarRelation& in, const cuda::FarDestination& to,
                            const FarPartitionOptions& options) {
        CHECK_THROWS(cuda::far_partition(test_device(), in, to, options), cuda::ErrorCode::kInvalid);
    };
    for (const int bits : {-1, 13}) refused(good, piece.destination(), with_bits(bits));
    cuda::FarRelation in = good;
    in.column_bytes = 2;
    refused(in, piece.destination(), with_bits(3));
    in = good;
    in.key = static_cast<const char*>(in.key) + 4;
    refused(in, piece.destination(), with_bits(3));
    in = good;
    in.payload = nullptr;
    refused(in, piece.destination(), with_bits(3));
    cuda::FarDestination to = piece.destination();
    to.pages = pages.destination().pages;
    refused(good, to, with_bits(3));
    refused(good, {}, with_bits(3));
    to = piece.destination();
    to.piece.data = static_cast<char*>(to.piece.data) + 64;
    refused(good, to, with_bits(3));
    to = piece.destination();
    to.piece.bytes = 500 * 16 - 1;
    refused(good, to, with_bits(3));
    for (const uint64_t page_rows : {0U, 4U, 24U}) {
        to = pages.destination();
        to.pages.page_rows = page_rows;
        refused(good, to, with_bits(3));
    }
    FarPartitionOptions options = with_bits(3);
    for (const uint32_t bytes : {8U, 48U, 1U << 17}) {
        options.buffer_bytes = bytes;
        refused(good, piece.destination(), options);
        options.buffer_bytes = 0;
        options.second_level_bytes = bytes;
        refused(good, piece.destination(), options);
        options.second_level_bytes = 0;
    }
    check_every_far(input, FarTier::kDevice, pages, with_bits(3), "after refusals");
}

GPU_TEST("far partition: refused GPU memory") {
    FarInput input(sparse_keys(1000, test_seed()), 8, test_seed());
    FarOutput piece = FarOutput::piece(FarTier::kHost, input, 5);
    FarOutput pages = FarOutput::pages({FarTier::kHost}, input, 5, 16);
    cuda::MemoryPool& memory = test_device().memory();
    const uint64_t before = memory.used_bytes();
    for (FarOutput* output : {&piece, &pages}) {
        uint64_t failures = 0;
        for (uint64_t n = 1; n < 50; ++n) {
            memory.fail_after(n);
            try {
                cuda::far_partition(test_device(), input.in(FarTier::kHost), output->destination(), with_bits(5));
                break;
            } catch (const cuda::Error& error) {
                CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
                CHECK_EQ(error.tier, cuda::Tier::kDevice);
                ++failures;
            }
            CHECK_EQ(memory.used_bytes(), before);
        }
        memory.fail_after(0);
        CHECK(failures >= 5);
        check_every_far(input, FarTier::kHost, *output, with_bits(5), "after refusals");
    }
}

}  // namespace spillway::gpu_test
