// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "group_by/plan/group_policy.hpp"
#include "group_by/tables/emit_groups.cuh"
#include "group_by/tables/global_table.hpp"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace grouping {

namespace {

// Appends the groups of the table in GPU memory to the result: a warp looks at some slots, then reserves places for all
// that are taken. Bytes: the keys of all slots once, words and values of groups once;
// a random sector per group and value that is taken from the row that stands for a group.
template <int kKeyWords>
__global__ void __launch_bounds__(kEmitThreads)
    emit_table_kernel(const __grid_constant__ GlobalGroups groups, const __grid_constant__ GroupSink sink) {
    const GlobalSlots<kKeyWords> table = groups.table<kKeyWords>();
    constexpr uint32_t kWarpSlots = kWarpThreads * kEmitSlotsPerThread;
    const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (kEmitThreads / kWarpThreads);
    const uint64_t warp = static_cast<uint64_t>(blockIdx.x) * (kEmitThreads / kWarpThreads) + warp_index();
    for (uint64_t first = warp * kWarpSlots; first <= groups.slots; first += warps * kWarpSlots) {
        uint32_t taken[kEmitSlotsPerThread];
        uint32_t count = 0;
#pragma unroll
        for (int i = 0; i < kEmitSlotsPerThread; ++i) {
            const uint64_t slot = first + i * kWarpThreads + lane_index();
            taken[i] = __ballot_sync(kFullWarp, slot <= groups.slots && table.is_taken(slot));
            count += __popc(taken[i]);
        }
        if (count == 0) continue;
        unsigned long long place = 0;
        if (lane_index() == 0) place = atomicAdd(sink.reserved, static_cast<unsigned long long>(count));
        place = __shfl_sync(kFullWarp, place, 0);
#pragma unroll 1
        for (int i = 0; i < kEmitSlotsPerThread; ++i) {
            uint32_t lanes = taken[0];
#pragma unroll
            for (int other = 1; other < kEmitSlotsPerThread; ++other) {
                if (i == other) lanes = taken[other];
            }
            const uint64_t slot = first + i * kWarpThreads + lane_index();
            if ((lanes >> lane_index() & 1) != 0) {
                emit_group<kKeyWords>(sink, table, slot, place + __popc(lanes & lanes_below()));
            }
            place += __popc(lanes);
        }
    }
}

}  // namespace

void emit_groups(Device& device, uint32_t key_words, const GlobalGroups& groups, const GroupSink& sink) {
    const PhaseScope materialize(device, Phase::kMaterialize);
    const uint64_t per_block = static_cast<uint64_t>(kEmitThreads) * kEmitSlotsPerThread;
    const auto kernel = key_words == 1 ? emit_table_kernel<1> : emit_table_kernel<2>;
    launch(kernel, grid_over(device, groups.slots + 1, per_block, 8), dim3(kEmitThreads), 0, device.stream(), groups,
           sink);
}

}}  // namespace spillway::cuda::grouping
