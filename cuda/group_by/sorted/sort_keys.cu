// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "group_by/sorted/sort_keys.hpp"
#include "group_by/sorted/sort_pairs.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

constexpr unsigned kThreads = 256;

// Bytes: 4 written per row.
__global__ void number_rows(uint64_t rows, uint32_t* numbers) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        numbers[row] = static_cast<uint32_t>(row);
    }
}

}  // namespace

SortedRows sort_keys(Device& device, const DeviceColumn& key, uint64_t rows) {
    if (rows > 1ULL << 32) throw Error(ErrorCode::kInvalid, "row numbers of 4 bytes for more than 2^32 rows");
    const PhaseScope transform(device, Phase::kTransform);
    const Allocation numbers = device.memory().allocate(rows * sizeof(uint32_t), "row numbers");
    count_moved(device, numbers.bytes());
    const uint64_t blocks = (rows + kThreads - 1) / kThreads;
    const uint64_t most = 16ULL * static_cast<uint64_t>(device.properties().multiprocessors);
    launch(number_rows, dim3(static_cast<unsigned>(std::min(blocks, most))), dim3(kThreads), 0, device.stream(), rows,
           numbers.as<uint32_t>());
    SortedPairs sorted = sort_pairs(device, key, {numbers.as(), 4}, rows, differing_bits(device, key, rows));
    return {std::move(sorted.keys), std::move(sorted.values)};
}

}}  // namespace spillway::cuda::grouping
