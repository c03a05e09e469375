// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "cpu/group_by/group_aggregator.hpp"
#include "cpu/group_by/group_merge.hpp"
#include "cpu/group_by/group_writer.hpp"

namespace spillway {

// Groups of rows that several workers read at once: a table for each, then a merge of equal keys, in parallel over
// parts of the hash space. Each step returns false when memory does not suffice; nothing has been sent to the sink
// then.
class SharedGroups {
  public:
    SharedGroups(const GroupPlan& plan, MemoryBudget& budget, JobControl& control, uint64_t table_bytes, int workers,
                 int32_t radix_bits);

    // feed(worker, aggregator) adds that worker's rows; it should end early when stopped().
    bool aggregate(const std::function<void(int, GroupAggregator&)>& feed);
    bool stopped() const { return full_.load(std::memory_order_relaxed); }
    bool merge();
    // Counts the distinct values of all rows of the partition: those that were aggregated.
    using Progress = std::function<void(double share)>;
    bool count_distinct(PartitionedRows& rows, int32_t partition, const Progress& progress);
    // Everything that was merged; writers[worker] is used by that worker.
    void write(const std::vector<std::unique_ptr<GroupWriter>>& writers);

    uint64_t wanted_bytes() const;  // lower bound of table_bytes with which it might have worked

  private:
    bool run(const std::function<void(int)>& body);
    struct DistinctInput;
    bool count_in_ranges(const DistinctInput& input);
    void count_range(const DistinctInput& input, const HashRange& range, int worker);
    bool count_pairs(const DistinctInput& input, const AggregatePlan& aggregate, double done, double share);
    void forget_counts(const AggregatePlan& aggregate);
    void find_merged(RowBlock& block) const;

    const GroupPlan& plan_;
    MemoryBudget& budget_;
    JobControl& control_;
    const uint64_t table_bytes_;
    const int workers_;
    const int32_t radix_bits_;
    std::atomic<bool> full_{false};
    std::vector<std::unique_ptr<TableMemory>> memories_;
    std::vector<std::unique_ptr<GroupAggregator>> aggregators_;
    std::vector<std::unique_ptr<TableMemory>> merge_memories_;
    std::vector<std::unique_ptr<GroupMerge>> merges_;
};

}  // namespace spillway
