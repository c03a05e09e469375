// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/tables/emit_group.cuh"
#include "group_by/tables/merge_table.cuh"
#include "primitive/warp.cuh"

// The groups of a block's table become rows of the result, for units whose keys no other unit has.
namespace spillway::cuda { inline namespace grouping {

struct EmitShared {
    uint32_t warp_groups[kWarpThreads];  // a block has as many warps at most
    unsigned long long first_group;
};

// Places in the result for each warp's groups, with one reservation for the block.
__device__ inline uint64_t reserve_groups(const GroupSink& sink, EmitShared& shared, uint32_t groups) {
    const uint32_t warps = blockDim.x / kWarpThreads;
    if (lane_index() == 0) shared.warp_groups[warp_index()] = groups;
    __syncthreads();
    if (warp_index() == 0) {
        const uint32_t own = lane_index() < warps ? shared.warp_groups[lane_index()] : 0;
        const uint32_t inclusive = warp_inclusive_sum(own);
        if (lane_index() < warps) shared.warp_groups[lane_index()] = inclusive - own;
        if (lane_index() == kWarpThreads - 1) {
            shared.first_group = atomicAdd(sink.reserved, static_cast<unsigned long long>(inclusive));
        }
    }
    __syncthreads();
    return shared.first_group + shared.warp_groups[warp_index()];
}

// By all threads, with a barrier before it; ends with one. A warp has a range of slots; the ranges' groups lie one
// behind the other. merges(mixed key): the group goes to the table in GPU memory instead.
template <int kKeyWords, class Merges>
__device__ inline void emit_table(const AggregatePass& pass, const BlockSlots<kKeyWords>& table, EmitShared& shared,
                                  const Merges& merges) {
    using Key = typename MixedKey<kKeyWords>::Key;
    const uint32_t all = table.slots + 1;
    const uint32_t steps = (all + blockDim.x - 1) / blockDim.x;
    const uint32_t begin = warp_index() * steps * kWarpThreads;
    uint32_t groups = 0;
    for (uint32_t step = 0; step < steps; ++step) {
        const uint32_t slot = begin + step * kWarpThreads + lane_index();
        const bool is_taken = slot < all && table.is_taken(slot);
        const Key mixed = is_taken ? table.key_of(slot) : 0;
        const bool leaves = is_taken && merges(mixed);
        if (leaves) merge_group(pass, table, mixed, slot);
        groups += __popc(__ballot_sync(kFullWarp, is_taken && !leaves));
    }
    uint64_t place = reserve_groups(pass.sink, shared, groups);
    for (uint32_t step = 0; step < steps; ++step) {
        const uint32_t slot = begin + step * kWarpThreads + lane_index();
        const bool stays = slot < all && table.is_taken(slot) && !merges(table.key_of(slot));
        const uint32_t lanes = __ballot_sync(kFullWarp, stays);
        if (stays) emit_group<kKeyWords>(pass.sink, table, slot, place + __popc(lanes & lanes_below()));
        place += __popc(lanes);
    }
    __syncthreads();
}

}}  // namespace spillway::cuda::grouping
