// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "device/launch.hpp"
#include "far_partition/drain_kernel.cuh"
#include "far_partition/far_source.cuh"
#include "far_partition/far_target.cuh"
#include "far_partition/hierarchical_kernel.cuh"
#include "far_partition/launch_pass.hpp"
#include "far_partition/plain_kernels.cuh"
#include "far_partition/shared_kernel.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

namespace {

// The pages of all partitions one behind the other, out of the directory; begin[p]: of the partition's first one.
// Bytes: the directory once, 16 per page.
__global__ void __launch_bounds__(kListThreads)
    list_pages_kernel(const __grid_constant__ FarTarget target, const uint64_t* begin, char** list) {
    constexpr uint64_t kFieldMask = (1ULL << kPageNumberBits) - 1;
    const uint64_t stride = uint64_t{gridDim.x} * kListThreads;
    const uint64_t thread = uint64_t{blockIdx.x} * kListThreads + threadIdx.x;
    for (uint64_t slot = thread; slot <= target.directory_mask; slot += stride) {
        const uint64_t entry = target.directory[slot];
        if (entry == 0) continue;
        const uint64_t partition = entry >> (2 * kPageNumberBits);
        list[begin[partition] + (entry >> kPageNumberBits & kFieldMask)] = target.pages[(entry & kFieldMask) - 1];
    }
}

template <int kWords>
FarColumns<kWords> columns_of(const FarPass& pass) {
    using Column = typename FarTuple<kWords>::Column;
    const FarRelation& in = pass.in;
    return {static_cast<const Column*>(in.key),
            static_cast<const Column*>(in.payload),
            in.rows,
            in.key_valid,
            reinterpret_cast<unsigned long long*>(pass.split_counts),
            static_cast<uint32_t>(32 - pass.radix_bits - pass.split_bits),
            pass.reversed_keys};
}

uint32_t shift_of(const FarPass& pass) {
    return static_cast<uint32_t>(32 - pass.radix_bits);
}
uint32_t partitions_of(const FarPass& pass) {
    return 1U << pass.radix_bits;
}

template <int kWords>
void launch_histogram(const FarPass& pass, uint64_t* counts) {
    const uint32_t partitions = partitions_of(pass);
    launch(far_histogram_kernel<kWords>, dim3(pass.grid), dim3(kFarHistogramThreads), partitions * sizeof(uint32_t),
           pass.stream, columns_of<kWords>(pass).keys, pass.in.rows, shift_of(pass), partitions, counts);
}

template <int kWords>
void launch_partitioner(FarPartitioner partitioner, const FarPass& pass) {
    const FarColumns<kWords> in = columns_of<kWords>(pass);
    const FarTarget& target = pass.combining.target;
    const dim3 grid(pass.grid);
    switch (partitioner) {
        case FarPartitioner::kStandard:
            launch(standard_kernel<kWords>, grid, dim3(kFarThreads), 0, pass.stream, in, shift_of(pass), target);
            return;
        case FarPartitioner::kLinear:
            launch(linear_kernel<kWords>, grid, dim3(kLinearThreads), pass.shared_bytes, pass.stream, in,
                   pass.batch_rows, shift_of(pass), partitions_of(pass), target);
            return;
        case FarPartitioner::kShared:
            launch(shared_kernel<kWords>, grid, dim3(kFarThreads), pass.shared_bytes, pass.stream, in, pass.combining);
            return;
        case FarPartitioner::kHierarchical:
            launch(hierarchical_kernel<kWords>, grid, dim3(kFarThreads), pass.shared_bytes, pass.stream, in,
                   pass.combining);
            return;
        case FarPartitioner::kBulk:
            launch(bulk_kernel<kWords>, grid, dim3(kFarThreads), pass.shared_bytes, pass.stream, in, pass.combining);
            return;
        case FarPartitioner::kBest:
            break;
    }
    throw Error(ErrorCode::kInternal, "far memory is partitioned by one partitioner");
}

}  // namespace

void launch_far_histogram(const FarPass& pass, uint64_t* counts) {
    pass.in.column_bytes == 4 ? launch_histogram<1>(pass, counts) : launch_histogram<2>(pass, counts);
}

void launch_far_partitioner(FarPartitioner partitioner, const FarPass& pass) {
    pass.in.column_bytes == 4 ? launch_partitioner<1>(partitioner, pass) : launch_partitioner<2>(partitioner, pass);
}

void launch_far_drain(const FarPass& pass) {
    launch(pass.in.column_bytes == 4 ? drain_kernel<1> : drain_kernel<2>, dim3(partitions_of(pass)),
           dim3(kDrainThreads), 0, pass.stream, pass.combining, pass.grid);
}

void launch_list_pages(const FarPass& pass, const uint64_t* begin, char** list) {
    const FarTarget& target = pass.combining.target;
    const uint64_t blocks = target.directory_mask / kListThreads + 1;
    const dim3 grid(static_cast<unsigned>(blocks < kListBlocksMax ? blocks : kListBlocksMax));
    launch(list_pages_kernel, grid, dim3(kListThreads), 0, pass.stream, target, begin, list);
}

}}  // namespace spillway::cuda::far_partitioning
