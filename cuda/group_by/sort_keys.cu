// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "device/launch.hpp"
#include "group_by/sort_keys.hpp"

namespace spillway::cuda {

namespace {

constexpr unsigned kThreads = 256;

__global__ void number_rows(uint64_t rows, uint32_t* numbers) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        numbers[row] = static_cast<uint32_t>(row);
    }
}

template <class Key>
SortedRows sort(Device& device, const void* key, uint64_t rows) {
    const cudaStream_t stream = device.stream();
    MemoryPool& memory = device.memory();
    const Allocation numbers = memory.allocate(rows * sizeof(uint32_t), "row numbers");
    const uint64_t blocks = (rows + kThreads - 1) / kThreads;
    const uint64_t most = 16ULL * static_cast<uint64_t>(device.properties().multiprocessors);
    launch(number_rows, dim3(static_cast<unsigned>(std::min(blocks, most))), dim3(kThreads), 0, stream, rows,
           numbers.as<uint32_t>());
    SortedRows sorted;
    sorted.keys = memory.allocate(rows * sizeof(Key), "sorted keys");
    sorted.row_numbers = memory.allocate(rows * sizeof(uint32_t), "sorted row numbers");
    Allocation scratch;
    size_t bytes = 0;
    for (int call = 0; call < 2; ++call) {  // the first asks how much memory the second takes
        if (call == 1) scratch = memory.allocate(bytes, "sort");
        SPILLWAY_CUDA_CHECK(
            cub::DeviceRadixSort::SortPairs(scratch.as(), bytes, static_cast<const Key*>(key), sorted.keys.as<Key>(),
                                            numbers.as<const uint32_t>(), sorted.row_numbers.as<uint32_t>(),
                                            static_cast<int64_t>(rows), 0, static_cast<int>(8 * sizeof(Key)), stream));
    }
    return sorted;
}

}  // namespace

SortedRows sort_keys(Device& device, const DeviceColumn& key, uint64_t rows) {
    if (rows > 1ULL << 32) throw Error(ErrorCode::kInvalid, "row numbers of 4 bytes for more than 2^32 rows");
    return key.width == 4 ? sort<uint32_t>(device, key.data, rows) : sort<uint64_t>(device, key.data, rows);
}

}  // namespace spillway::cuda
