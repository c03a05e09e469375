// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace device {

// Bytes of a vector in device memory, in order on the device's stream.
template <class Value>
Allocation copy_to_device(Device& device, const std::vector<Value>& values, const char* what) {
    const uint64_t bytes = values.size() * sizeof(Value);
    Allocation copy = device.memory().allocate(bytes, what);
    if (bytes > 0) {
        // The source is pageable: it has been read when the call returns.
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(copy.as(), values.data(), bytes, cudaMemcpyHostToDevice, device.stream()));
    }
    return copy;
}

}}  // namespace spillway::cuda::device
