// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cub/device/device_merge_sort.cuh>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/warp.cuh"
#include "sort_merge_join/radix_sort.cuh"
#include "sort_merge_join/sort_keys.hpp"
#include "sort_merge_join/sort_merge_policy.hpp"

namespace spillway::cuda { inline namespace sort_merge_joins {

namespace {

// These combine the bits of all keys. Where `any` and `all` have the same bit, all keys have it.
struct CommonBits {
    unsigned long long any;  // 1 in some key
    unsigned long long all;  // 1 in every key
};

// Bytes: the keys once, bound by bandwidth.
template <class Key>
__global__ void __launch_bounds__(kRowThreads)
    combine_keys(const Key* __restrict__ keys, uint64_t rows, CommonBits* common) {
    unsigned long long any = 0;
    unsigned long long all = ~0ULL;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        const Key key = __ldg(&keys[row]);
        any |= key;
        all &= key;
    }
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        any |= __shfl_xor_sync(kFullWarp, any, distance);
        all &= __shfl_xor_sync(kFullWarp, all, distance);
    }
    if (lane_index() != 0) return;
    atomicOr(&common->any, any);
    atomicAnd(&common->all, all);
}

void combine(Device& device, const KeysToSort& column, CommonBits* common) {
    const dim3 grid = grid_over(device, column.rows, kRowThreads, kRowBlocksPerMultiprocessor);
    if (column.width == 4) {
        launch(combine_keys<uint32_t>, grid, dim3(kRowThreads), 0, device.stream(),
               static_cast<const uint32_t*>(column.keys), column.rows, common);
    } else {
        launch(combine_keys<uint64_t>, grid, dim3(kRowThreads), 0, device.stream(),
               static_cast<const uint64_t*>(column.keys), column.rows, common);
    }
}

struct Below {
    template <class Key>
    __device__ bool operator()(const Key& a, const Key& b) const {
        return a < b;
    }
};

template <class Key>
void merge_sort_keys(Device& device, const KeysToSort& keys, const uint32_t* values, const SortedColumns& sorted) {
    Allocation scratch;
    size_t bytes = 0;
    for (int call = 0; call < 2; ++call) {  // the first asks how much memory the second takes
        if (call == 1) scratch = device.memory().allocate(std::max<size_t>(bytes, 1), "sort");
        SPILLWAY_CUDA_CHECK(cub::DeviceMergeSort::SortPairsCopy(
            scratch.as(), bytes, static_cast<const Key*>(keys.keys), values, static_cast<Key*>(sorted.keys),
            static_cast<uint32_t*>(sorted.values), static_cast<int64_t>(keys.rows), Below{}, device.stream()));
    }
}

}  // namespace

KeyBits key_bits(Device& device, const KeysToSort& first, const KeysToSort& second) {
    const cudaStream_t stream = device.stream();
    const Allocation memory = device.memory().allocate(sizeof(CommonBits), "bits of the keys");
    auto* const common = memory.as<CommonBits>();
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(&common->any, 0, sizeof common->any, stream));
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(&common->all, 0xff, sizeof common->all, stream));
    count_moved(device, first.rows * first.width + second.rows * second.width);
    combine(device, first, common);
    combine(device, second, common);
    CommonBits bits{};
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&bits, common, sizeof bits, cudaMemcpyDeviceToHost, stream));
    device.synchronize();
    const uint64_t differ = bits.any & ~bits.all;
    if (differ == 0) return {};  // all keys are equal, or there are none
    KeyBits range;
    while ((differ >> range.begin & 1) == 0) ++range.begin;
    range.end = 64;
    while ((differ >> (range.end - 1)) == 0) --range.end;
    return range;
}

void radix_sort(Device& device, const KeysToSort& keys, const KeyBits& bits, const void* values, uint32_t value_width,
                const SortedColumns& sorted) {
    if (keys.rows == 0) return;
    // CUB's onesweep sort reads the keys for the histograms of all digits, then moves all twice per pass.
    const auto passes = static_cast<uint64_t>((bits.end - bits.begin + kSortPassBits - 1) / kSortPassBits);
    count_moved(device, keys.rows * (keys.width + passes * 2 * (keys.width + value_width)));
    const auto sort = keys.width == 4 ? radix_sort_4 : radix_sort_8;
    sort(device, keys, bits, values, value_width, sorted);
}

void merge_sort(Device& device, const KeysToSort& keys, const uint32_t* values, const SortedColumns& sorted) {
    if (keys.rows == 0) return;
    uint64_t passes = 1;  // runs of a tile's rows, which every later pass doubles
    for (uint64_t run = kMergeSortTileBytes / keys.width; run < keys.rows; run *= 2) ++passes;
    count_moved(device, keys.rows * passes * 2 * (keys.width + sizeof(uint32_t)));
    const auto sort = keys.width == 4 ? merge_sort_keys<uint32_t> : merge_sort_keys<uint64_t>;
    sort(device, keys, values, sorted);
}

}}  // namespace spillway::cuda::sort_merge_joins
