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

uint32_t probe_unit_rows(uint64_t probe_rows, uint64_t partitions, uint64_t multiprocessors) {
    const uint64_t parts = partitions == 0 ? 0 : multiprocessors / partitions;
    if (parts < 2) return kProbeUnitRowsMax;
    const double share = static_cast<double>(probe_rows) / static_cast<double>(partitions * parts) * kProbeUnitSlack;
    const auto rows = static_cast<uint64_t>(std::min<double>(share, kProbeUnitRowsMax)) / kRegionAlignRows;
    return std::max(static_cast<uint32_t>(rows * kRegionAlignRows), kProbeUnitRowsMin);
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
