// SPDX-License-Identifier: Apache-2.0
#include "algorithm.hpp"
#include "equi_join/equi_join.hpp"

namespace spillway::gpu_bench {

namespace {

// All of it is the join's phase: the table is built and looked into by one call. So is the search for the range of the
// keys, which the planner does not know when it chooses perfect hashing.
template <cuda::JoinAlgorithm kAlgorithm>
cuda::JoinResult run(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    cuda::EquiJoin join;
    join.algorithm = kAlgorithm;
    join.kind = workload.kind;
    join.output = all_payloads(workload);
    join.expected_rows = workload.result_rows_estimate();
    timer.begin(kTransformPhase);
    timer.begin(kJoinPhase);
    cuda::JoinResult result = cuda::equi_join(device, inputs.build.columns, inputs.probe.columns, join);
    timer.end();
    return result;
}

}  // namespace

const Algorithm kNoPartitioningJoin = {"npj", true, run<cuda::JoinAlgorithm::kNoPartitioning>};
const Algorithm kPerfectHashJoin = {"npj-perfect", false, run<cuda::JoinAlgorithm::kPerfectHash>};

}  // namespace spillway::gpu_bench
