// SPDX-License-Identifier: Apache-2.0
#include "algorithm.hpp"
#include "equi_join/radix_hash_join.hpp"

namespace spillway::gpu_bench {

namespace {

cuda::JoinResult run(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    cuda::RadixJoinWish wish;
    wish.kind = workload.kind;
    wish.row_words_max = workload.row_words_max;
    wish.radix_bits = workload.radix_bits;
    wish.output = all_payloads(workload);
    timer.begin(kTransformPhase);
    cuda::RadixHashJoin join(device, inputs.build.columns, inputs.probe.columns, wish);
    timer.begin(kJoinPhase);
    cuda::JoinResult result = join.materialize(workload.result_rows_estimate(), cuda::OutputPlan::kOnePass);
    timer.end();
    return result;
}

// Rows of the result alone, of keys alone.
cuda::JoinResult count(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    cuda::DeviceRelation build = inputs.build.columns;
    cuda::DeviceRelation probe = inputs.probe.columns;
    build.columns.clear();
    probe.columns.clear();
    cuda::RadixJoinWish wish;
    wish.kind = workload.kind;
    timer.begin(kTransformPhase);
    const cuda::RadixHashJoin join(device, build, probe, wish);
    timer.begin(kJoinPhase);
    cuda::JoinResult result;
    result.rows = join.count();
    timer.end();
    return result;
}

}  // namespace

const Algorithm kRadixHashJoin = {"phj-tr", true, run};
const Algorithm kRadixHashCount = {"phj-tr-count", true, count};

}  // namespace spillway::gpu_bench
