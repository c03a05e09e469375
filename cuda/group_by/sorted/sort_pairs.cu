// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_radix_sort.cuh>
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/published.hpp"
#include "group_by/sorted/sort_pairs.hpp"
#include "group_by/sorted/sorted_policy.hpp"
#include "primitive/row_numbers.hpp"
#include "primitive/warp.cuh"

// Bytes of a sort: keys and values read and written once per 8 bits of the key, and the keys once more for histograms,
// as CUB's onesweep sort has it; bound by bandwidth.
namespace spillway::cuda { inline namespace grouping {

namespace {

// Bytes: the keys once.
template <class Key>
__global__ void find_differing_bits(const Key* keys, uint64_t rows, unsigned long long* differing) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const Key first = keys[0];
    Key own = 0;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        own |= keys[row] ^ first;
    }
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        own |= __shfl_xor_sync(kFullWarp, own, distance);
    }
    if (lane_index() == 0 && own != 0) atomicOr(differing, static_cast<unsigned long long>(own));
}

template <class Key, class Value>
SortedPairs sort(Device& device, const void* key, const void* values, uint64_t rows, KeyBits bits) {
    MemoryPool& memory = device.memory();
    SortedPairs sorted;
    sorted.keys = memory.allocate(rows * sizeof(Key), "sorted keys");
    sorted.values = memory.allocate(rows * sizeof(Value), "sorted values");
    Allocation scratch;
    size_t bytes = 0;
    for (int call = 0; call < 2; ++call) {  // the first asks how much memory the second takes
        if (call == 1) scratch = memory.allocate(bytes, "sort");
        SPILLWAY_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(
            scratch.as(), bytes, static_cast<const Key*>(key), sorted.keys.as<Key>(), static_cast<const Value*>(values),
            sorted.values.as<Value>(), static_cast<int64_t>(rows), bits.begin, bits.end, device.stream()));
    }
    return sorted;
}

}  // namespace

KeyBits differing_bits(Device& device, const DeviceColumn& key, uint64_t rows) {
    const cudaStream_t stream = device.stream();
    const Allocation bits = device.memory().allocate(sizeof(unsigned long long), "bits of keys");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(bits.as(), 0, bits.bytes(), stream));
    count_moved(device, rows * key.width);
    const dim3 grid = grid_over(device, rows, kSortedThreads, 16);
    if (key.width == 4) {
        launch(find_differing_bits<uint32_t>, grid, dim3(kSortedThreads), 0, stream,
               static_cast<const uint32_t*>(key.data), rows, bits.as<unsigned long long>());
    } else {
        launch(find_differing_bits<uint64_t>, grid, dim3(kSortedThreads), 0, stream,
               static_cast<const uint64_t*>(key.data), rows, bits.as<unsigned long long>());
    }
    const auto differing = read_published<unsigned long long>(device, bits.as());
    KeyBits found = {0, 1};
    if (differing == 0) return found;
    while ((differing >> found.begin & 1) == 0) ++found.begin;
    found.end = 64;
    while ((differing >> (found.end - 1) & 1) == 0) --found.end;
    return found;
}

SortedPairs sort_pairs(Device& device, const DeviceColumn& key, const DeviceColumn& values, uint64_t rows,
                       KeyBits bits) {
    const PhaseScope transform(device, Phase::kTransform);
    const auto passes = static_cast<uint64_t>((bits.end - bits.begin + kGroupSortPassBits - 1) / kGroupSortPassBits);
    count_moved(device, rows * (key.width + passes * 2 * (key.width + values.width)));
    if (key.width == 4 && values.width == 4) {
        return sort<uint32_t, uint32_t>(device, key.data, values.data, rows, bits);
    }
    if (key.width == 4 && values.width == 8) {
        return sort<uint32_t, uint64_t>(device, key.data, values.data, rows, bits);
    }
    if (key.width == 8 && values.width == 4) {
        return sort<uint64_t, uint32_t>(device, key.data, values.data, rows, bits);
    }
    if (key.width == 8 && values.width == 8) {
        return sort<uint64_t, uint64_t>(device, key.data, values.data, rows, bits);
    }
    throw Error(ErrorCode::kInvalid, "a sort takes keys and values of 4 or 8 bytes");
}

SortedRows sort_keys(Device& device, const DeviceColumn& key, uint64_t rows, bool all_key_bits) {
    if (rows > 1ULL << 32) throw Error(ErrorCode::kInvalid, "row numbers of 4 bytes for more than 2^32 rows");
    const PhaseScope transform(device, Phase::kTransform);
    const Allocation numbers = device.memory().allocate(rows * sizeof(uint32_t), "row numbers");
    number_rows(device, rows, 4, numbers.as());
    const KeyBits bits = all_key_bits ? all_bits(key) : differing_bits(device, key, rows);
    SortedPairs sorted = sort_pairs(device, key, {numbers.as(), 4}, rows, bits);
    return {std::move(sorted.keys), std::move(sorted.values)};
}

}}  // namespace spillway::cuda::grouping
