// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "api/packed_block.hpp"

namespace spillway::cuda { inline namespace link {

// A stretch of bytes, or of values that are packed on the host's side, between memory of the device and memory of the
// host that the device reaches.
struct LinkCopy {
    uint8_t* device = nullptr;
    // Plain copies: at the same place in 16 bytes as `device`. Packed ones: line 0 of the blocks, 64-byte aligned.
    uint8_t* host = nullptr;
    PackedBlock* blocks = nullptr;  // packed_planes(width) for each kPackedValues values; nullptr: a plain copy
    uint64_t bytes = 0;             // in memory of the device
    uint32_t width = 1;             // of a value, where they are packed
};

// All of them by one kernel (or a few, where they are many), which reads the host's memory itself: a copy engine would
// take a call of the driver for each of them, and these take turns (link_policy.hpp).
void send_to_device(const std::vector<LinkCopy>& copies, cudaStream_t stream);

// The other way round. Each block begins where its values would if they were copied as they are, and has no more lines
// than it needs: what lies between the blocks does not cross the link.
void fetch_to_host(const std::vector<LinkCopy>& copies, cudaStream_t stream);

}}  // namespace spillway::cuda::link
