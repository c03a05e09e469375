// SPDX-License-Identifier: Apache-2.0
#include "far_partition/far_sizes.hpp"

#include <algorithm>

#include "api/error.hpp"
#include "far_partition/far_policy.hpp"
#include "primitive/warp_threads.hpp"

namespace spillway::cuda { inline namespace far_partitioning {

namespace {

constexpr uint32_t kWordBytes = 16;  // buffers are read and stored in words of this size

bool is_power_of_two(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}
uint32_t power_of_two_below(uint32_t value) {
    uint32_t power = 1;
    while (power <= value / 2) power *= 2;
    return power;
}

FarSizes linear_sizes(uint32_t shared_bytes, uint32_t partitions, uint32_t tuple_bytes) {
    FarSizes sizes;
    for (sizes.buffer_rows = kLinearRows; sizes.buffer_rows > 0; sizes.buffer_rows -= kLinearThreads) {
        sizes.shared_bytes = linear_shared_bytes(sizes.buffer_rows, partitions, tuple_bytes);
        if (sizes.shared_bytes <= shared_bytes) break;
    }
    sizes.fits = sizes.buffer_rows > 0;
    return sizes;
}

FarSizes combining_sizes(uint32_t shared_bytes, uint32_t partitions, const FarBufferOptions& options,
                         uint32_t tuple_bytes, uint64_t page_bytes) {
    const bool hierarchical = options.partitioner == FarPartitioner::kHierarchical;
    const uint64_t longest = page_bytes == 0 ? kSecondLevelBytesMax : page_bytes;
    const uint64_t wanted = options.second_level_bytes == 0 ? kSecondLevelBytes : options.second_level_bytes;
    const auto second_bytes = static_cast<uint32_t>(std::min(wanted, longest));
    FarSizes sizes;
    const uint32_t state_bytes = combining_state_bytes(hierarchical);
    const uint32_t each_bytes = shared_bytes / partitions;
    if (each_bytes < state_bytes + std::max(kWordBytes, tuple_bytes)) return sizes;
    uint64_t most = std::min<uint64_t>(kBufferBytesMax, hierarchical ? second_bytes : longest);
    if (options.buffer_bytes != 0) most = std::min<uint64_t>(most, options.buffer_bytes);
    const uint32_t bytes =
        power_of_two_below(static_cast<uint32_t>(std::min<uint64_t>(most, each_bytes - state_bytes)));
    sizes.fits = true;
    sizes.buffer_rows = bytes / tuple_bytes;
    sizes.shared_bytes = partitions * (bytes + state_bytes);
    sizes.memory_rows = hierarchical ? second_bytes / tuple_bytes : sizes.buffer_rows;
    sizes.memory_buffers = partitions + (hierarchical ? kFarThreads / kWarpThreads : 0);
    return sizes;
}

}  // namespace

FarSizes far_sizes(const GpuFacts& gpu, const FarBufferOptions& options, uint32_t tuple_bytes, uint64_t page_bytes) {
    for (const uint32_t bytes : {options.second_level_bytes, options.buffer_bytes}) {
        if (bytes != 0 && (!is_power_of_two(bytes) || bytes < kWordBytes || bytes > kSecondLevelBytesMax)) {
            throw Error(ErrorCode::kInvalid, "buffers of partitioners have a power of two of bytes, 16 to 65,536");
        }
    }
    const uint32_t partitions = 1U << options.radix_bits;
    const auto shared_bytes = static_cast<uint32_t>(gpu.shared_bytes_per_block_optin) - kFarReservedBytes;
    switch (options.partitioner) {
        case FarPartitioner::kStandard: {
            FarSizes sizes;
            sizes.fits = true;
            return sizes;
        }
        case FarPartitioner::kLinear:
            return linear_sizes(shared_bytes, partitions, tuple_bytes);
        default:
            return combining_sizes(shared_bytes, partitions, options, tuple_bytes, page_bytes);
    }
}

int far_bits_max(const GpuFacts& gpu, FarPartitioner partitioner, uint32_t column_bytes) {
    FarBufferOptions options;
    options.partitioner = partitioner;
    for (options.radix_bits = kFirstPassBitsMax; options.radix_bits > 0; --options.radix_bits) {
        if (far_sizes(gpu, options, 2 * column_bytes, 0).fits) break;
    }
    return options.radix_bits;
}

FarPartitioner best_far_partitioner(const GpuFacts& gpu, uint32_t column_bytes, int radix_bits) {
    for (const auto partitioner : {FarPartitioner::kBulk, FarPartitioner::kHierarchical}) {
        if (partitioner == FarPartitioner::kBulk && gpu.compute_major < kBulkCopiesMajor) continue;
        if (radix_bits <= far_bits_max(gpu, partitioner, column_bytes)) return partitioner;
    }
    return FarPartitioner::kLinear;
}

uint64_t far_buffer_bytes(const GpuFacts& gpu, const FarBufferOptions& options, uint32_t column_bytes) {
    const FarSizes sizes = far_sizes(gpu, options, 2 * column_bytes, 0);
    if (sizes.memory_rows == 0) return 0;
    const uint64_t grid = options.grid == 0 ? static_cast<uint64_t>(gpu.multiprocessors) : options.grid;
    const uint64_t leftover_bytes = (1ULL << options.radix_bits) * sizeof(Leftover);
    return grid * (sizes.block_memory_bytes(2 * column_bytes) + leftover_bytes);
}

}}  // namespace spillway::cuda::far_partitioning
