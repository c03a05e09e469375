// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/radix_partition/partitioned_rows.hpp"
#include "cpu/row/row_encoder.hpp"

namespace spillway {

inline int32_t radix_of(uint64_t hash, uint64_t hash_mask, int32_t radix_bits) {
    return radix_bits == 0 ? 0 : static_cast<int32_t>((hash & hash_mask) >> (64 - radix_bits));
}

// First partition pass: rows go through software write-combining buffers (one per worker and partition, a multiple of
// the cache line, flushed with non-temporal stores) to open pages of their partition; full pages join the partition's
// list, or the spill file when the pool is exhausted. No histogram: page lists grow as rows come.
// Algorithm: radix partitioning of Balkesen et al., "Main-memory hash joins on multi-core CPUs" (ICDE 2013), section
// 4, as used on the CPU side of the Triton join (SIGMOD 2022); page lists instead of offsets from design.md section 4.
class RadixPartitioner {
  public:
    explicit RadixPartitioner(PartitionedRows& rows);
    ~RadixPartitioner();

    class Worker;
    // One per worker thread (index below PartitionSpec::workers), created on first use, alive until finish().
    Worker& worker(int index);
    // Adds encoded rows (layout of the PartitionedRows).
    void append(int worker, const EncodedRows& encoded);
    // Flushes every worker's buffers and open pages into the partitions, side by side. No append() afterwards.
    void finish();

  private:
    friend class Worker;
    struct Shared;
    PartitionedRows& rows_;
    std::unique_ptr<Shared> shared_;
    std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace spillway
