// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cub/device/device_scan.cuh>

#include "device/launch.hpp"
#include "radix_partition/plan_regions.hpp"
#include "radix_partition/radix_policy.hpp"

// Bytes: a few words per partition and nothing of the rows. Of counters, 8 bytes each: sum_groups reads those of the
// histogram once and writes one per partition; round_up reads those and writes as many; the sum reads them and writes
// as many once more; open_regions reads two arrays and writes three. So Regions::open() moves 72 bytes per partition:
// 2^8 of them 18 KiB, 2^16 4.5 MiB.
namespace spillway::cuda { inline namespace radix_partitioning {

namespace {

constexpr int kThreads = 256;

// sums[i] = sum of counts of group i, of 2^group_bits neighbours.
__global__ void sum_groups(const uint64_t* counts, uint64_t groups, int group_bits, uint64_t* sums) {
    const uint64_t group = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (group >= groups) return;
    uint64_t sum = 0;
    for (uint64_t i = group << group_bits; i < (group + 1) << group_bits; ++i) sum += counts[i];
    sums[group] = sum;
}

// items + 1 entries, the last one 0, so that the exclusive sum ends in the total.
__global__ void round_up(const uint64_t* counts, uint64_t items, uint64_t unit, bool in_units, uint64_t* rounded) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i > items) return;
    const uint64_t units = i < items ? (counts[i] + unit - 1) / unit : 0;
    rounded[i] = in_units ? units : units * unit;
}

__global__ void open_regions(const uint64_t* counts, const uint64_t* begin, uint64_t regions, uint64_t* end,
                             uint64_t* front, uint64_t* back) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= regions) return;
    end[i] = begin[i] + counts[i];
    front[i] = begin[i];
    back[i] = end[i];
}

// first[i] = units of all counts before i, first[items] = of all.
void sum_units(Device& device, const uint64_t* counts, uint64_t items, uint64_t unit, bool in_units, uint64_t* first) {
    const cudaStream_t stream = device.stream();
    const Allocation rounded = device.memory().allocate((items + 1) * sizeof(uint64_t), "region sizes");
    launch(round_up, grid_of_threads(items + 1, kThreads), dim3(kThreads), 0, stream, counts, items, unit, in_units,
           rounded.as<uint64_t>());
    size_t bytes = 0;
    const auto count = static_cast<int64_t>(items + 1);
    SPILLWAY_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(nullptr, bytes, rounded.as<uint64_t>(), first, count, stream));
    const Allocation scratch = device.memory().allocate(bytes, "prefix sum");
    SPILLWAY_CUDA_CHECK(
        cub::DeviceScan::ExclusiveSum(scratch.as(), bytes, rounded.as<uint64_t>(), first, count, stream));
}

}  // namespace

Regions Regions::open(Device& device, const uint64_t* counts, uint64_t regions) {
    MemoryPool& memory = device.memory();
    Regions opened;
    opened.count = regions;
    opened.begin = memory.allocate((regions + 1) * sizeof(uint64_t), "partition offsets");
    opened.end = memory.allocate(regions * sizeof(uint64_t), "partition offsets");
    opened.front = memory.allocate(regions * sizeof(uint64_t), "partition cursors");
    opened.back = memory.allocate(regions * sizeof(uint64_t), "partition cursors");
    sum_units(device, counts, regions, kRegionAlignRows, false, opened.begin.as<uint64_t>());
    launch(open_regions, grid_of_threads(regions, kThreads), dim3(kThreads), 0, device.stream(), counts,
           opened.begin.as<uint64_t>(), regions, opened.end.as<uint64_t>(), opened.front.as<uint64_t>(),
           opened.back.as<uint64_t>());
    return opened;
}

Allocation count_groups(Device& device, const uint64_t* counts, uint64_t groups, int group_bits, uint64_t room) {
    Allocation sums = device.memory().allocate(std::max(groups, room) * sizeof(uint64_t), "partition sizes");
    launch(sum_groups, grid_of_threads(groups, kThreads), dim3(kThreads), 0, device.stream(), counts, groups,
           group_bits, sums.as<uint64_t>());
    return sums;
}

Allocation first_tiles(Device& device, const uint64_t* counts, uint64_t regions, uint64_t tile_rows) {
    Allocation first = device.memory().allocate((regions + 1) * sizeof(uint64_t), "tiles of partitions");
    sum_units(device, counts, regions, tile_rows, true, first.as<uint64_t>());
    return first;
}

}}  // namespace spillway::cuda::radix_partitioning
