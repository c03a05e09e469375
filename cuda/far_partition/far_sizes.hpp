// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/gpu_facts.hpp"
#include "api/stream_spec.hpp"

// How large the buffers of partitioners are. Without any CUDA.
namespace spillway::cuda { inline namespace far_partitioning {

struct FarBufferOptions {
    FarPartitioner partitioner = FarPartitioner::kHierarchical;  // not kBest
    int radix_bits = 0;               // 0 to kFirstPassBitsMax: the top bits of the mixed key
    uint32_t grid = 0;                // blocks; 0: one for each multiprocessor
    uint32_t second_level_bytes = 0;  // of kHierarchical, per block and partition, a power of two; 0: the policy's
    uint32_t buffer_bytes = 0;        // in shared memory per partition, at most; 0: what there is room for
};

// What a block leaves of a partition: rows in one of its buffers.
struct Leftover {
    uint32_t buffer;
    uint32_t rows;
};

// Shared memory of a block, per partition: its buffer, a word for slots, one for rows that are there, and with a second
// level one for its state.
constexpr uint32_t combining_state_bytes(bool has_second_level) {
    return has_second_level ? 12 : 8;
}

// The dynamic shared memory of a block holds the sorted batch, where the runs of partitions go and where they begin
// in the batch.
constexpr uint32_t linear_shared_bytes(uint32_t batch_rows, uint32_t partitions, uint32_t tuple_bytes) {
    return batch_rows * tuple_bytes + partitions * (sizeof(uint64_t) + sizeof(uint32_t));
}

struct FarSizes {
    bool fits = false;            // into the shared memory of a block
    uint32_t buffer_rows = 0;     // per partition, in shared memory; kLinear: of a batch
    uint32_t memory_rows = 0;     // of a buffer in GPU memory; 0: there are none
    uint32_t memory_buffers = 0;  // of a block
    uint32_t shared_bytes = 0;    // of a block

    uint64_t block_memory_bytes(uint32_t tuple_bytes) const {
        return uint64_t{memory_buffers} * memory_rows * tuple_bytes;
    }
};

// page_bytes: what flushes must divide, 0 = nothing. Throws kInvalid for options that are no powers of two.
FarSizes far_sizes(const GpuFacts& gpu, const FarBufferOptions& options, uint32_t tuple_bytes, uint64_t page_bytes);

// The fastest that the device has for so many bits: kBulk from compute capability 9.0 on, where it was so end to end
// over PCIe and NVLink (docs/out-of-core-measured.md), else kHierarchical.
FarPartitioner best_far_partitioner(const GpuFacts& gpu, uint32_t column_bytes, int radix_bits);

// Radix bits that the shared memory of a block allows.
int far_bits_max(const GpuFacts& gpu, FarPartitioner partitioner, uint32_t column_bytes);

// GPU memory that buffers take while a partitioner runs.
uint64_t far_buffer_bytes(const GpuFacts& gpu, const FarBufferOptions& options, uint32_t column_bytes);

}}  // namespace spillway::cuda::far_partitioning
