// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "hash_join/join_memory.hpp"
#include "hash_join/join_units.cuh"
#include "hash_join/launch_join.hpp"
#include "radix_partition/plan_regions.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda { inline namespace hash_join {

namespace {

constexpr unsigned kPlanThreads = 256;

// Bytes: 40 per partition.
__global__ void count_units(const __grid_constant__ JoinPass pass, uint64_t* units) {
    const uint64_t p = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (p >= pass.partitions) return;
    units[p] = join_units(pass.build.end[p] - pass.build.begin[p], pass.probe.end[p] - pass.probe.begin[p],
                          pass.build_capacity, pass.probe_unit_rows);
}

}  // namespace

uint32_t probe_unit_rows(uint64_t probe_rows, uint64_t partitions, uint64_t multiprocessors, uint64_t pairs) {
    if (partitions == 0 || probe_rows == 0) return kProbeUnitRowsMin;
    const auto rows = static_cast<double>(probe_rows);
    const double mean = rows / static_cast<double>(partitions);
    const uint64_t parts = multiprocessors / partitions;
    const double even = parts < 2 ? mean * kProbeUnitUneven : mean / static_cast<double>(parts) * kProbeUnitSlack;
    double most = std::max(std::min<double>(even, kProbeUnitRowsMax), static_cast<double>(kProbeUnitRowsMin));
    if (pairs > probe_rows) {
        const auto all = static_cast<double>(pairs);
        const double share = all / static_cast<double>(multiprocessors * kPairUnitsPerMultiprocessor);
        const double unit_pairs = std::max<double>(share, kUnitPairsMin);
        most = std::max(std::min(most, rows * unit_pairs / all), static_cast<double>(kProbeUnitRowsOfPairsMin));
    }
    return static_cast<uint32_t>(most) / kRegionAlignRows * kRegionAlignRows;
}

Allocation first_units(Device& device, const JoinPass& pass) {
    const Allocation units = device.memory().allocate(pass.partitions * sizeof(uint64_t), "units of a join");
    launch(count_units, grid_of_threads(pass.partitions, kPlanThreads), dim3(kPlanThreads), 0, device.stream(), pass,
           units.as<uint64_t>());
    return first_tiles(device, units.as<const uint64_t>(), pass.partitions, 1);
}

uint64_t join_blocks(const Device& device, uint64_t rows) {
    return std::min(rows / kRowsPerBlockMin + 1, static_cast<uint64_t>(device.properties().multiprocessors));
}

void launch_join(Device& device, JoinKernel kernel, uint64_t blocks, uint32_t key_words, const JoinPass& pass) {
    const uint64_t shared = JoinMemory::bytes(pass.build_capacity, pass.build.row_words, pass.buckets,
                                              chains_hold_keys(key_words, pass.radix_bits));
    launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kJoinThreads + kWarpThreads), shared, device.stream(),
           pass);
}

}}  // namespace spillway::cuda::hash_join
