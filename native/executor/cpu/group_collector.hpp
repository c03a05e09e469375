// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "cpu/group_by/group_aggregator.hpp"

namespace spillway {

// One worker's groups of partitioned rows: a table with a share of the stage's memory.
class GroupCollector {
  public:
    // The first reading of a partition's rows counts as this share of the work where aggregates count distinct values:
    // what is left then may take as long again.
    static constexpr double kReadShare = 0.5;

    GroupCollector(const GroupPlan& plan, PartitionedRows& rows, JobControl& control, uint64_t table_bytes)
        : rows_(rows),
          control_(control),
          memory_(rows.budget(), table_bytes),
          groups_(plan, memory_, 0, rows.spec().radix_bits) {}

    // The groups of the partition with keys in the range. Throws TableFull.
    using Progress = std::function<void(double share)>;
    void collect(int32_t partition, const HashRange& keys, const Progress& progress);

    TableMemory& memory() { return memory_; }
    GroupAggregator& groups() { return groups_; }

  private:
    // The rows that are collected now.
    struct Input {
        int32_t partition;
        const HashRange& keys;
        const Progress& progress;
    };
    using Sets = std::vector<DistinctSet*>;
    template <class Body>
    void scan(const Input& input, double progress_begin, double progress_end, Body&& body);
    void count_apart(const Input& input, double wanted_bytes);
    bool count_in_ranges(const Input& input, const Sets& sets, uint64_t span_min);
    bool count_pairs(const Input& input, const AggregatePlan& aggregate, double done, double share);
    void forget_counts(const AggregatePlan& aggregate);

    PartitionedRows& rows_;
    JobControl& control_;
    TableMemory memory_;
    GroupAggregator groups_;
    uint64_t rows_read_ = 0;  // by the latest scan
};

}  // namespace spillway
