// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "far_partition/far_partition.hpp"

namespace spillway::cuda {

// How large a partitioner's buffers are.
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
FarSizes far_sizes(const DeviceProperties& properties, const FarPartitionOptions& options, uint32_t tuple_bytes,
                   uint64_t page_bytes);

}  // namespace spillway::cuda
