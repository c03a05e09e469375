// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "baseline_join/cpu_partition.hpp"
#include "device/device.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace baseline_join {

// Rows of one partition in pinned host memory, one behind the other.
struct HostFragment {
    const uint8_t* data = nullptr;
    uint64_t rows = 0;
    uint64_t partition = 0;
};

// Both sides in partitions of packed rows, in pinned host memory: a run for every chunk of a source.
class HostRuns {
  public:
    // limit_bytes: of all runs of both sides.
    HostRuns(Device& device, const RowLayout (&layouts)[2], int radix_bits, uint32_t threads, uint64_t limit_bytes);

    // Partitions a chunk on the host's cores, and lets the caller's thread do something else meanwhile.
    void add(int side, const Chunk& chunk, const CpuPartitioner::Beside& beside);

    uint64_t rows(int side, uint64_t partition) const { return rows_[side][partition]; }  // that have a key
    // Fragments of these partitions, none without rows: run by run, as far as they follow each other in memory.
    std::vector<HostFragment> find(int side, const std::vector<uint64_t>& partitions) const;

  private:
    struct Run {
        PinnedBlock rows;
        std::vector<uint64_t> first;
    };

    Device& device_;
    const RowLayout layouts_[2];
    const int radix_bits_;
    const uint32_t threads_;
    const uint64_t limit_bytes_;
    uint64_t used_bytes_ = 0;
    std::vector<Run> runs_[2];
    std::vector<uint64_t> rows_[2];
};

}}  // namespace spillway::cuda::baseline_join
