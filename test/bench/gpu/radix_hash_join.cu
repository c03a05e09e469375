// SPDX-License-Identifier: Apache-2.0
#include "algorithm.hpp"
#include "equi_join/radix_hash_join.hpp"

namespace spillway::gpu_bench {

namespace {

cuda::JoinResult run(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    using cuda::OutputSide;
    cuda::RadixJoinWish wish;
    wish.row_words_max = workload.row_words_max;
    wish.radix_bits = workload.radix_bits;
    wish.output = {{OutputSide::kKey, 0}};
    for (uint32_t c = 0; c < workload.build_payload.size(); ++c) wish.output.push_back({OutputSide::kBuild, c});
    for (uint32_t c = 0; c < workload.probe_payload.size(); ++c) wish.output.push_back({OutputSide::kProbe, c});
    timer.begin(kTransformPhase);
    cuda::RadixHashJoin join(device, inputs.build.columns, inputs.probe.columns, wish);
    timer.begin(kJoinPhase);
    cuda::JoinResult result = join.materialize(workload.result_rows_estimate(), cuda::OutputPlan::kOnePass);
    timer.end();
    return result;
}

}  // namespace

const Algorithm kRadixHashJoin = {"phj-tr", true, run};

}  // namespace spillway::gpu_bench
