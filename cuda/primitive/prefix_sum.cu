// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_scan.cuh>

#include "primitive/prefix_sum.hpp"

// Bytes: values read and written once.
namespace spillway::cuda { inline namespace primitive {

void exclusive_sum(Device& device, uint64_t* values, uint64_t count) {
    if (count == 0) return;
    const cudaStream_t stream = device.stream();
    const auto items = static_cast<int64_t>(count);
    size_t scratch_bytes = 0;
    SPILLWAY_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(nullptr, scratch_bytes, values, values, items, stream));
    const Allocation scratch = device.memory().allocate(scratch_bytes, "prefix sum");
    SPILLWAY_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(scratch.as(), scratch_bytes, values, values, items, stream));
}

}}  // namespace spillway::cuda::primitive
