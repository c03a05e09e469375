// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "primitive/mix.cuh"

// What the generated rows hold, for the kernels that write them and for those that check a result.
namespace spillway::gpu_bench {

constexpr unsigned kBlockThreads = 256;
constexpr unsigned kBlocksPerMultiprocessor = 8;

enum class Side : uint32_t { kBuild, kProbe };

// The n-th random number of a stream (SplitMix64).
__host__ __device__ inline uint64_t random64(uint64_t stream, uint64_t n) {
    return cuda::mix64(stream + (n + 1) * 0x9e3779b97f4a7c15ULL);
}

__device__ inline uint64_t load(const void* column, uint32_t width, uint64_t row) {
    switch (width) {
        case 1:
            return static_cast<const uint8_t*>(column)[row];
        case 2:
            return static_cast<const uint16_t*>(column)[row];
        case 4:
            return static_cast<const uint32_t*>(column)[row];
        default:
            return static_cast<const uint64_t*>(column)[row];
    }
}
__device__ inline void store(void* column, uint32_t width, uint64_t row, uint64_t value) {
    switch (width) {
        case 1:
            static_cast<uint8_t*>(column)[row] = static_cast<uint8_t>(value);
            return;
        case 2:
            static_cast<uint16_t*>(column)[row] = static_cast<uint16_t>(value);
            return;
        case 4:
            static_cast<uint32_t*>(column)[row] = static_cast<uint32_t>(value);
            return;
        default:
            static_cast<uint64_t*>(column)[row] = value;
    }
}

// Column 0 is a bijection of the row number, so that a result row tells which rows it is made of; the others follow
// from it. Never 0 for a whole column, and no function of the key.
__device__ inline uint64_t payload_value(Side side, uint32_t column, uint32_t width, uint64_t row) {
    if (column == 0) return width == 4 ? cuda::mix32(static_cast<uint32_t>(row)) : cuda::mix64(row);
    const uint64_t value = random64(static_cast<uint64_t>(side) * 64 + column, row);
    return width == 8 ? value : value & ((1ULL << (width * 8)) - 1);
}
__device__ inline uint64_t row_of_payload(uint32_t width, uint64_t value) {
    return width == 4 ? cuda::unmix32(static_cast<uint32_t>(value)) : cuda::unmix64(value);
}

template <class Body>
__global__ void for_each_row_kernel(uint64_t rows, Body body) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        body(row);
    }
}

inline dim3 grid_of(cuda::Device& device) {
    return dim3(static_cast<unsigned>(device.properties().multiprocessors) * kBlocksPerMultiprocessor);
}

template <class Body>
void for_each_row(cuda::Device& device, uint64_t rows, Body body) {
    cuda::launch(for_each_row_kernel<Body>, grid_of(device), dim3(kBlockThreads), 0, device.stream(), rows, body);
}

}  // namespace spillway::gpu_bench
