// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "baseline_join/host_runs.hpp"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

// The host's cores would fault on other memory.
void check_on_host(const void* data) {
    cudaPointerAttributes attributes{};
    SPILLWAY_CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
    if (attributes.type == cudaMemoryTypeDevice) {
        throw Error(ErrorCode::kInvalid, "the CPU partitions rows of host memory alone");
    }
}

Error limit_error(uint64_t wanted_bytes, uint64_t used_bytes, uint64_t limit_bytes) {
    Error error(ErrorCode::kOutOfMemory, "rows partitioned by the CPU: " + std::to_string(wanted_bytes) +
                                             " bytes of host memory wanted, but " + std::to_string(used_bytes) +
                                             " of the limit of " + std::to_string(limit_bytes) + " are in use");
    error.tier = Tier::kHost;
    error.limit_reached = true;
    error.wanted_bytes = wanted_bytes;
    error.free_bytes = limit_bytes - used_bytes;
    error.limit_bytes = limit_bytes;
    return error;
}

}  // namespace

HostRuns::HostRuns(Device& device, const RowLayout (&layouts)[2], int radix_bits, uint32_t threads,
                   uint64_t limit_bytes)
    : device_(device),
      layouts_{layouts[0], layouts[1]},
      radix_bits_(radix_bits),
      threads_(threads),
      limit_bytes_(limit_bytes) {
    for (auto& rows : rows_) rows.resize(1ULL << radix_bits);
}

void HostRuns::add(int side, const Chunk& chunk, const CpuPartitioner::Beside& beside) {
    device_.check_cancelled();
    if (chunk.rows == 0) return;
    if (chunk.columns.size() != layouts_[side].widths.size()) {
        throw Error(ErrorCode::kInvalid, "a chunk has other columns than the plan says");
    }
    check_on_host(chunk.key);
    for (const void* column : chunk.columns) check_on_host(column);
    CpuPartitioner partitioner(layouts_[side], radix_bits_, threads_, chunk, device_.cancelled());
    partitioner.count(beside);
    device_.check_cancelled();
    const uint64_t bytes = partitioner.rows() * layouts_[side].row_bytes();
    if (bytes == 0) return;
    if (bytes > limit_bytes_ - used_bytes_) throw limit_error(bytes, used_bytes_, limit_bytes_);
    Run run;
    run.rows = device_.staging().allocate(bytes, "rows partitioned by the CPU");
    used_bytes_ += bytes;
    partitioner.move(run.rows.as<uint8_t>(), beside);
    device_.check_cancelled();
    run.first = partitioner.first();
    for (uint64_t p = 0; p < rows_[side].size(); ++p) rows_[side][p] += run.first[p + 1] - run.first[p];
    runs_[side].push_back(std::move(run));
}

std::vector<HostFragment> HostRuns::find(int side, const std::vector<uint64_t>& partitions) const {
    std::vector<HostFragment> fragments;
    for (const Run& run : runs_[side]) {
        for (const uint64_t partition : partitions) {
            const uint64_t rows = run.first[partition + 1] - run.first[partition];
            if (rows == 0) continue;
            const uint64_t at = run.first[partition] * layouts_[side].row_bytes();
            fragments.push_back({run.rows.as<const uint8_t>() + at, rows, partition});
        }
    }
    return fragments;
}

}}  // namespace spillway::cuda::baseline_join
