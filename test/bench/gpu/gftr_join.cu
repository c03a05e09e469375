// SPDX-License-Identifier: Apache-2.0
#include "algorithm.hpp"
#include "device/phase_times.hpp"
#include "gftr_join/gftr_join.hpp"

namespace spillway::gpu_bench {

namespace {

template <cuda::PairOutput kOutput>
cuda::JoinResult run_columns(cuda::Device& device, const Workload& workload, const Inputs& inputs,
                             cuda::PhaseTimer& timer) {
    const std::vector<cuda::JoinOutputColumn> output = all_payloads(workload);
    cuda::PairJoinOptions options;
    options.expected_rows = workload.result_rows_estimate();
    options.output = kOutput;
    timer.begin(kJoinPhase);
    cuda::JoinResult result =
        cuda::gftr_join(device, inputs.build.columns, inputs.probe.columns, workload.kind, output, options);
    timer.end();
    return result;
}

}  // namespace

const Algorithm kGftrJoin = {"phj-gftr", true, run_columns<cuda::PairOutput::kWarpChunks>, true};
const Algorithm kGftrJoinByBlock = {"phj-gftr-block-chunks", true, run_columns<cuda::PairOutput::kBlockChunks>, true};

}  // namespace spillway::gpu_bench
