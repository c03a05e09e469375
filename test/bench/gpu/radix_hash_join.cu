// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "algorithm.hpp"
#include "radix_partition/radix_policy.hpp"

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

uint64_t sum_of(const std::vector<uint32_t>& widths) {
    return std::accumulate(widths.begin(), widths.end(), uint64_t{0});
}

// The keys once for the histogram, then every pass reads and writes each row, the first from columns.
uint64_t partition_bytes(const Workload& workload, uint64_t rows, const std::vector<uint32_t>& payload, int bits) {
    const auto passes = static_cast<uint64_t>(std::max(1, (bits + cuda::kPassBitsMax - 1) / cuda::kPassBitsMax));
    const uint64_t row_bytes = 4ULL * cuda::RowLayout::words_for(workload.key_bytes, payload);
    const uint64_t column_bytes = workload.key_bytes + sum_of(payload);
    return rows * (workload.key_bytes + column_bytes + row_bytes + (passes - 1) * 2 * row_bytes);
}

Traffic traffic(cuda::Device& device, const Workload& workload, uint64_t result_rows) {
    const int bits = radix_bits_for(device, workload);
    const uint64_t build_row = 4ULL * cuda::RowLayout::words_for(workload.key_bytes, workload.build_payload);
    const uint64_t probe_row = 4ULL * cuda::RowLayout::words_for(workload.key_bytes, workload.probe_payload);
    const uint64_t result_row = workload.key_bytes + sum_of(workload.build_payload) + sum_of(workload.probe_payload);
    Traffic bytes;
    bytes.transform_bytes = partition_bytes(workload, workload.build_rows, workload.build_payload, bits) +
                            partition_bytes(workload, workload.probe_rows, workload.probe_payload, bits);
    bytes.join_bytes = workload.build_rows * build_row + workload.probe_rows * probe_row + result_rows * result_row;
    return bytes;
}

}  // namespace

const Algorithm kRadixHashJoin = {"phj-tr", true, run, traffic};

}  // namespace spillway::gpu_bench
