// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/job_control.hpp"
#include "cpu/hash_join/join_table.hpp"
#include "cpu/radix_partition/partitioned_rows.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// What joining a co-partition takes beyond the pages that are in memory already, in bytes.
class JoinMemory {
  public:
    JoinMemory(const PartitionedRows& build, const PartitionedRows& probe, const JoinSpec& spec, TableUse use)
        : build_(build), probe_(probe), spec_(spec), use_(use) {}

    // Build rows read back, their numbers, the table and the match flags.
    uint64_t table(int32_t p, TableRoom room = {}) const;
    // Would tables with plenty of slots let in fewer workers than there are?
    bool is_tight() const;
    // Is the table of a partition filled from pages that are read one after the other?
    bool streams_build_rows() const { return JoinTable::counts_streamed(spec_.scheme, use_, build_.layout()); }
    // Both sides read back and copied once, and one sub-partition's table (twice the average: they vary).
    uint64_t second_pass(int32_t p) const;
    // Has a sub-partition of that many rows a table within that? Not with a frequent key.
    bool fits_second_pass(int32_t p, uint64_t sub_rows) const { return sub_table(sub_rows) <= sub_table_planned(p); }
    // First page behind those from `begin` on that fit one chunk of the build side, beside flags of probe rows.
    size_t chunk_end(int32_t p, size_t begin, uint64_t probe_flags = 0) const;
    // First page of the probe side behind those from `begin` on whose rows have flags beside a chunk.
    size_t flags_end(int32_t p, size_t begin) const;

    bool takes_second_pass(int32_t p) const;
    // Too large for one worker, or more probe rows than one should work through alone?
    bool needs_all_workers(int32_t p) const;

  private:
    uint64_t mark_bytes(uint64_t numbers) const;
    uint64_t sub_table(uint64_t rows) const;
    uint64_t sub_table_planned(int32_t p) const;

    const PartitionedRows& build_;
    const PartitionedRows& probe_;
    const JoinSpec& spec_;
    const TableUse use_;
};

// Lets workers into co-partitions as long as their tables fit the memory of the stage together: when partitions are
// large for the budget, fewer workers join at a time.
class TableGate {
  public:
    TableGate(uint64_t bytes, JobControl& control) : free_(bytes), bytes_(bytes), control_(control) {}

    class Pass {
      public:
        Pass(TableGate& gate, uint64_t bytes) : gate_(gate), bytes_(gate.enter(bytes)) {}
        ~Pass() { gate_.leave(bytes_); }
        Pass(const Pass&) = delete;
        Pass& operator=(const Pass&) = delete;

      private:
        TableGate& gate_;
        const uint64_t bytes_;
    };

  private:
    uint64_t enter(uint64_t bytes);
    void leave(uint64_t bytes);

    std::mutex mutex_;
    std::condition_variable left_;
    uint64_t free_;
    const uint64_t bytes_;
    JobControl& control_;
};

}  // namespace spillway
