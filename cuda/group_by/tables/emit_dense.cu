// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "group_by/plan/group_policy.hpp"
#include "group_by/tables/emit_dense.hpp"
#include "group_by/tables/emit_groups.cuh"

namespace spillway::cuda { inline namespace grouping {

namespace {

// The arrays, as emit_group() reads slots of a table.
template <int kKeyWords>
struct DenseTable {
    using Key = typename MixedKey<kKeyWords>::Key;
    DenseGroups groups;

    __device__ Key key_of(uint64_t group) const {
        return MixedKey<kKeyWords>::mix(static_cast<const Key*>(groups.keys)[group]);
    }
    __device__ uint32_t get(int word, uint64_t group) const { return groups.words[word * groups.entries + group]; }
    __device__ unsigned long long get_wide(int word, uint64_t group) const {
        return reinterpret_cast<const unsigned long long*>(groups.words + word * groups.entries)[group];
    }
};

// A group per thread, which writes the key that it has read. Bytes: keys, accumulators and values of each group once.
template <int kKeyWords>
__global__ void __launch_bounds__(kEmitThreads)
    emit_dense_kernel(const __grid_constant__ DenseTable<kKeyWords> table, const __grid_constant__ GroupSink sink) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    uint64_t group = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; group < table.groups.groups; group += step) emit_group<kKeyWords>(sink, table, group, group);
}

template <int kKeyWords>
void launch_dense(Device& device, const DenseGroups& groups, const GroupSink& sink) {
    launch(emit_dense_kernel<kKeyWords>, grid_over(device, groups.groups, kEmitThreads, 16), dim3(kEmitThreads), 0,
           device.stream(), DenseTable<kKeyWords>{groups}, sink);
}

}  // namespace

void emit_dense_groups(Device& device, uint32_t key_words, const DenseGroups& groups, const GroupSink& sink) {
    if (key_words == 1) {
        launch_dense<1>(device, groups, sink);
    } else {
        launch_dense<2>(device, groups, sink);
    }
}

}}  // namespace spillway::cuda::grouping
