// SPDX-License-Identifier: Apache-2.0
// Compiled as relocatable device code, alone of all files (cuda/CMakeLists.txt), since kernels launch kernels here. Its
// kernels have names of their own: those of join_tuples.cu would be registered twice.
#include "device/launch.hpp"
#include "pair_join/child_kernels.hpp"

namespace spillway::cuda { inline namespace pair_join {

namespace {

using Parts = SmallParts;

// Units of one partition: a block has every gridDim.x-th of them.
struct PartitionUnits {
    uint64_t partition;
    uint64_t number;

    __device__ void next(const TuplePass& pass, TupleUnit<Parts>& unit) {
        if (number >= pass.first_unit[partition + 1]) {
            if (lane_index() == 0) unit.probe.count = 0;
            return;
        }
        lay_out_unit(pass, partition, number, unit);
        number += gridDim.x;
    }
};

template <class Key, class Row, PairUse kUse>
__global__ void __launch_bounds__(Parts::kThreads, Parts::kBlocksPerMultiprocessor)
    partition_join_kernel(const __grid_constant__ TuplePass pass, uint64_t partition) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ TupleJoinShared<Parts> shared;
    const PartitionUnits units = {partition, pass.first_unit[partition] + blockIdx.x};
    TupleJoin<Key, Row, Parts, kUse, PartitionUnits>(pass, memory, shared, units).run();
}

// Blocks take partitions one by one. Those of few units they join themselves, and for each other one they launch a
// kernel. Where none can be launched, a block joins all units of the partition by itself.
template <class Key, class Row, PairUse kUse>
struct ParentUnits {
    const ChildPass& children;
    uint64_t partition = 0;
    uint64_t number = 0;
    uint64_t end = 0;

    __device__ void next(const TuplePass& pass, TupleUnit<Parts>& unit) {
        while (number == end) {
            if (lane_index() == 0) partition = atomicAdd(pass.next_unit, 1ULL);
            partition = __shfl_sync(kFullWarp, partition, 0);
            if (partition >= pass.partitions) {
                if (lane_index() == 0) unit.probe.count = 0;
                return;
            }
            const uint64_t first = pass.first_unit[partition];
            const uint64_t units = pass.first_unit[partition + 1] - first;
            if (units >= kChildUnitsMin && has_launched(units)) continue;
            number = first;
            end = first + units;
        }
        lay_out_unit(pass, partition, number++, unit);
    }

    __device__ bool has_launched(uint64_t units) const {
        constexpr uint64_t kBytes = TupleTable<Key, Row, Parts>::bytes();
        bool is_launched = false;
        if (lane_index() == 0) {
            const uint64_t wanted = (units + kChildBlockUnits - 1) / kChildBlockUnits;
            const auto blocks = static_cast<unsigned>(min(wanted, children.blocks_max));
            const uint64_t taken = atomicAdd(children.blocks_taken, static_cast<unsigned long long>(blocks));
            if (taken + blocks <= children.blocks_budget) {
                partition_join_kernel<Key, Row, kUse>
                    <<<blocks, Parts::kThreads, kBytes, cudaStreamFireAndForget>>>(children.tuples, partition);
                // The launch fails where more kernels wait than the device keeps.
                is_launched = cudaGetLastError() == cudaSuccess;
            }
        }
        return __shfl_sync(kFullWarp, is_launched ? 1 : 0, 0) != 0;
    }
};

template <class Key, class Row, PairUse kUse>
__global__ void __launch_bounds__(Parts::kThreads, Parts::kBlocksPerMultiprocessor)
    parent_join_kernel(const __grid_constant__ ChildPass pass) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ TupleJoinShared<Parts> shared;
    using Units = ParentUnits<Key, Row, kUse>;
    TupleJoin<Key, Row, Parts, kUse, Units>(pass.tuples, memory, shared, Units{pass}).run();
}

template <class Key, class Row, PairUse kUse>
void start(Device& device, const ChildPass& pass) {
    const dim3 grid(static_cast<unsigned>(device.properties().multiprocessors) * Parts::kBlocksPerMultiprocessor);
    launch(parent_join_kernel<Key, Row, kUse>, grid, dim3(Parts::kThreads), TupleTable<Key, Row, Parts>::bytes(),
           device.stream(), pass);
}

template <class Key, class Row>
void start_for(Device& device, const ChildPass& pass, PairUse use) {
    switch (use) {
        case PairUse::kWrite:
            return start<Key, Row, PairUse::kWrite>(device, pass);
        case PairUse::kWriteByBlock:
            return start<Key, Row, PairUse::kWriteByBlock>(device, pass);
        case PairUse::kWriteByThread:
            return start<Key, Row, PairUse::kWriteByThread>(device, pass);
        case PairUse::kCount:
            return start<Key, Row, PairUse::kCount>(device, pass);
        case PairUse::kMark:
            throw Error(ErrorCode::kInternal, "marks alone need no kernels that kernels launch");
    }
}

}  // namespace

void launch_with_children(Device& device, const ChildPass& pass, uint32_t key_width, uint32_t row_width, PairUse use) {
    if (key_width == 4) {
        row_width == 4 ? start_for<uint32_t, uint32_t>(device, pass, use)
                       : start_for<uint32_t, uint64_t>(device, pass, use);
    } else {
        row_width == 4 ? start_for<uint64_t, uint32_t>(device, pass, use)
                       : start_for<uint64_t, uint64_t>(device, pass, use);
    }
}

}}  // namespace spillway::cuda::pair_join
