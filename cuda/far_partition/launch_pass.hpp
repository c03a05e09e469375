// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "far_partition/far_partition.hpp"
#include "far_partition/far_target.cuh"

// The kernels of the room, enqueued on a stream of the current device.
namespace spillway::cuda { inline namespace far_partitioning {

struct FarPass {
    FarRelation in;
    int radix_bits = 0;
    uint64_t* split_counts = nullptr;  // FarPartitionOptions
    int split_bits = 0;
    bool reversed_keys = false;
    uint32_t grid = 1;
    uint32_t shared_bytes = 0;
    uint32_t batch_rows = 0;  // kLinear
    cudaStream_t stream = nullptr;
    CombiningPass combining;  // of the others its target alone
};

void launch_far_histogram(const FarPass& pass, uint64_t* counts);
void launch_far_partitioner(FarPartitioner partitioner, const FarPass& pass);
void launch_far_drain(const FarPass& pass);
void launch_list_pages(const FarPass& pass, const uint64_t* begin, char** list);

}}  // namespace spillway::cuda::far_partitioning
