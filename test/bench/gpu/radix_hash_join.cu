// SPDX-License-Identifier: Apache-2.0
#include "algorithm.hpp"

namespace spillway::gpu_bench {

namespace {

int radix_bits_for(cuda::Device& device, const Workload& workload) {
    const uint32_t row_words = cuda::RowLayout::words_for(workload.key_bytes, workload.build_payload);
    return cuda::join_radix_bits(device, workload.build_rows, workload.key_bytes / 4, row_words);
}

cuda::JoinResult run(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    using cuda::OutputSide;
    const int bits = radix_bits_for(device, workload);
    std::vector<cuda::JoinOutputColumn> output = {{OutputSide::kKey, 0}};
    for (uint32_t c = 0; c < workload.build_payload.size(); ++c) output.push_back({OutputSide::kBuild, c});
    for (uint32_t c = 0; c < workload.probe_payload.size(); ++c) output.push_back({OutputSide::kProbe, c});
    timer.begin(kTransformPhase);
    const cuda::PartitionedRows build = cuda::radix_partition(device, inputs.build.columns, bits);
    const cuda::PartitionedRows probe = cuda::radix_partition(device, inputs.probe.columns, bits);
    timer.begin(kJoinPhase);
    cuda::JoinResult result = cuda::join_partitions(device, build, probe, output, workload.result_rows_estimate());
    timer.end();
    return result;
}

}  // namespace

const Algorithm kRadixHashJoin = {"phj-tr", true, run};

}  // namespace spillway::gpu_bench
