// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/group_by/group_aggregator.hpp"
#include "cpu/group_by/group_writer.hpp"
#include "model/batch_sink.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// Flushes every writer, in parallel; returns their groups.
uint64_t finish_writers(const std::vector<std::unique_ptr<GroupWriter>>& writers, JobControl& control);

// group_partitions(): see executor/cpu/group_by.hpp.
class PartitionedGrouper {
  public:
    PartitionedGrouper(PartitionedRows& rows, const GroupBySpec& spec, BatchSink& sink, JobControl& control);
    uint64_t run();

  private:
    // The groups of a partition whose hash lies in a range.
    struct Task {
        int32_t partition;
        HashRange keys;
    };
    struct Worker;

    bool is_shared(int32_t partition) const;
    bool run_shared(int32_t partition);
    void run_tasks(const std::vector<Task>& tasks);
    void run_deferred();
    // Groups that do not fit `worker`'s memory one by one are handed to `defer`.
    template <class Defer>
    void run_task(Worker& worker, const Task& task, Defer&& defer);
    void count_progress(int32_t partition, double share);
    void write_groups(Worker& worker);
    void task_done(int32_t partition);
    Error too_small(uint64_t wanted) const;

    PartitionedRows& rows_;
    const GroupBySpec& spec_;
    BatchSink& sink_;
    JobControl& control_;
    const int workers_;
    std::unique_ptr<const GroupPlan> plan_;
    std::vector<std::unique_ptr<GroupWriter>> writers_;
    uint64_t total_rows_ = 0;
    std::unique_ptr<std::atomic<int32_t>[]> tasks_left_;     // per partition
    std::unique_ptr<std::atomic<uint64_t>[]> rows_counted_;  // per partition: rows that JobControl::rows_in has seen
    std::mutex deferred_mutex_;
    std::vector<Task> deferred_;
};

}  // namespace spillway
