// SPDX-License-Identifier: Apache-2.0
#include "algorithm.hpp"
#include "no_partitioning_join/no_partitioning_join.hpp"

namespace spillway::gpu_bench {

namespace {

// All of it is the join's phase: the table is built and looked into by one call. So is the search for the range of the
// keys, which the planner does not know when it chooses perfect hashing.
template <cuda::HashingScheme kScheme>
cuda::JoinResult run(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    cuda::NpjOptions options;
    options.scheme = kScheme;
    options.expected_rows = workload.result_rows_estimate();
    const std::vector<cuda::JoinOutputColumn> output = all_payloads(workload);
    timer.begin(kTransformPhase);
    timer.begin(kJoinPhase);
    cuda::JoinResult result =
        cuda::no_partitioning_join(device, inputs.build.columns, inputs.probe.columns, output, options);
    timer.end();
    return result;
}

}  // namespace

const Algorithm kNoPartitioningJoin = {"npj", true, run<cuda::HashingScheme::kLinearProbing>};
const Algorithm kPerfectHashJoin = {"npj-perfect", false, run<cuda::HashingScheme::kPerfect>};

}  // namespace spillway::gpu_bench
