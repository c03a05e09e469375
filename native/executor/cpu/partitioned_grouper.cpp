// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/partitioned_grouper.hpp"

#include <algorithm>
#include <numeric>

#include "base/parallel.hpp"
#include "executor/cpu/group_collector.hpp"
#include "executor/cpu/shared_groups.hpp"

namespace spillway {

namespace {

// Fewer rows are aggregated by one worker before the others' threads have started.
constexpr uint64_t kSharedRowsMin = 64 << 10;

std::vector<int32_t> schedule_of(const GroupBySpec& spec, const PartitionedRows& rows) {
    if (!spec.schedule.empty()) return spec.schedule;
    std::vector<int32_t> schedule(static_cast<size_t>(rows.partition_count()));
    std::iota(schedule.begin(), schedule.end(), 0);
    return schedule;
}

}  // namespace

uint64_t finish_writers(const std::vector<std::unique_ptr<GroupWriter>>& writers, JobControl& control) {
    parallel_run(
        static_cast<int>(writers.size()), [&](int worker) { writers[static_cast<size_t>(worker)]->flush(); },
        [&] { control.cancelled.store(true, std::memory_order_relaxed); });
    uint64_t groups = 0;
    for (const auto& writer : writers) groups += writer->groups();
    return groups;
}

// One worker's memory and table while run_tasks() lasts.
struct PartitionedGrouper::Worker {
    GroupCollector collector;
    GroupWriter& writer;
};

PartitionedGrouper::PartitionedGrouper(PartitionedRows& rows, const GroupBySpec& spec, BatchSink& sink,
                                       JobControl& control)
    : rows_(rows), spec_(spec), sink_(sink), control_(control), workers_(std::max(spec.workers, 1)) {}

uint64_t PartitionedGrouper::run() {
    plan_ = GroupPlan::make(rows_.layout(), spec_, rows_.budget(), sink_.wants_columns());
    for (int i = 0; i < workers_; ++i) {
        writers_.push_back(std::make_unique<GroupWriter>(*plan_, sink_, rows_.budget(), i));
    }
    tasks_left_ = std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(rows_.partition_count()));
    rows_counted_ = std::make_unique<std::atomic<uint64_t>[]>(static_cast<size_t>(rows_.partition_count()));
    total_rows_ = rows_.total_rows();
    std::vector<Task> tasks;
    std::vector<Task> whole;
    const auto parts = static_cast<uint64_t>(workers_) * 2;
    for (int32_t p : schedule_of(spec_, rows_)) {
        if (!is_shared(p)) {
            tasks_left_[static_cast<size_t>(p)] = 1;
            whole.push_back({p, HashRange{}});
            continue;
        }
        if (run_shared(p)) {
            tasks_left_[static_cast<size_t>(p)] = 1;
            task_done(p);
            continue;
        }
        // Too many groups for a table per worker: each worker takes ranges of the keys instead.
        tasks_left_[static_cast<size_t>(p)] = static_cast<int32_t>(parts);
        const uint64_t step = ~0ULL / parts;
        for (uint64_t i = 0; i < parts; ++i) {
            tasks.push_back({p, {step * i, i + 1 == parts ? ~0ULL : step * (i + 1) - 1}});
        }
    }
    tasks.insert(tasks.end(), whole.begin(), whole.end());  // long ones first
    run_tasks(tasks);
    run_deferred();
    if (total_rows_ == 0 && plan_->layout.keys.empty()) writers_[0]->append_empty_group();
    return finish_writers(writers_, control_);
}

// More than 5/4 of a worker's fair share of all rows: less would not shorten the stage enough to pay for the merge.
bool PartitionedGrouper::is_shared(int32_t partition) const {
    const uint64_t rows = rows_.partition(partition).rows;
    return workers_ > 1 && rows >= kSharedRowsMin && rows * static_cast<uint64_t>(workers_) / 5 > total_rows_ / 4;
}

bool PartitionedGrouper::run_shared(int32_t partition) {
    control_.check();
    const size_t pages = rows_.page_count(partition);
    // Enough pieces to balance the workers, few enough that page buffers are used again.
    const size_t piece = std::max<size_t>(1, pages / (static_cast<size_t>(workers_) * 8));
    SharedGroups groups(*plan_, rows_.budget(), control_, spec_.table_bytes, workers_, rows_.spec().radix_bits);
    std::atomic<size_t> next{0};
    std::atomic<uint64_t> counted{0};
    const auto rows = static_cast<double>(rows_.partition(partition).rows);
    const double read_share = plan_->has_distinct ? GroupCollector::kReadShare : 1;
    const auto progress = [&](double share) { count_progress(partition, share); };
    rows_.prefetch(partition);
    const bool fits = groups.aggregate([&](int, GroupAggregator& aggregator) {
        for (size_t begin = next.fetch_add(piece); begin < pages; begin = next.fetch_add(piece)) {
            PageCursor cursor(rows_, partition, begin, std::min(pages, begin + piece));
            for (RowSpan span; !groups.stopped() && cursor.next(span);) {
                control_.check();
                aggregator.cutter().cut(span, HashRange{}, [&](RowBlock& block) { aggregator.add_states(block); });
                const uint64_t read = counted.fetch_add(span.count, std::memory_order_relaxed) + span.count;
                progress(static_cast<double>(read) / rows * read_share);
            }
        }
    });
    if (!fits || !groups.merge() || (plan_->has_distinct && !groups.count_distinct(rows_, partition, progress))) {
        // They will be read again.
        control_.rows_in.fetch_sub(rows_counted_[static_cast<size_t>(partition)].exchange(0));
        return false;
    }
    progress(1);
    groups.write(writers_);
    return true;
}

void PartitionedGrouper::run_tasks(const std::vector<Task>& tasks) {
    const int workers = static_cast<int>(std::min<size_t>(static_cast<size_t>(workers_), tasks.size()));
    if (workers == 0) return;
    const uint64_t share = spec_.table_bytes / static_cast<uint64_t>(workers);
    std::atomic<size_t> next{0};
    parallel_run(
        workers,
        [&](int index) {
            Worker worker{{*plan_, rows_, control_, share}, *writers_[static_cast<size_t>(index)]};
            // The following task is claimed before it is read ahead: its partition cannot be freed meanwhile.
            for (size_t mine = next++; mine < tasks.size();) {
                control_.check();
                const size_t following = next++;
                if (following < tasks.size()) rows_.prefetch(tasks[following].partition);
                run_task(worker, tasks[mine], [&](const Task& rest) {
                    std::lock_guard<std::mutex> lock(deferred_mutex_);
                    ++tasks_left_[static_cast<size_t>(rest.partition)];
                    deferred_.push_back(rest);
                });
                task_done(tasks[mine].partition);
                mine = following;
            }
        },
        [this] { control_.cancelled.store(true, std::memory_order_relaxed); });
}

// Single groups larger than a worker's share, one after the other with all of the memory.
void PartitionedGrouper::run_deferred() {
    if (deferred_.empty()) return;
    Worker worker{{*plan_, rows_, control_, spec_.table_bytes}, *writers_[0]};
    for (const Task& task : deferred_) {
        run_task(worker, task, [&](const Task&) { throw too_small(worker.collector.memory().wanted()); });
        task_done(task.partition);
    }
}

template <class Defer>
void PartitionedGrouper::run_task(Worker& worker, const Task& task, Defer&& defer) {
    const HashRange all = task.keys;
    uint64_t span = all.last - all.first;
    for (uint64_t first = all.first;;) {
        const HashRange keys{first, all.last - first <= span ? all.last : first + span};
        bool done = true;
        try {
            worker.collector.collect(task.partition, keys,
                                     [&](double share) { count_progress(task.partition, share); });
        } catch (const TableFull&) {
            const uint64_t groups = worker.collector.groups().table().groups();
            worker.collector.groups().release();
            done = groups <= 1 || keys.first == keys.last;
            if (done) {
                defer(Task{task.partition, keys});
            } else {
                span = (keys.last - keys.first) / 2;
            }
        }
        if (!done) continue;
        write_groups(worker);
        if (keys.last == all.last) return;
        first = keys.last + 1;
        // One crowded range need not make the others small.
        if (worker.collector.memory().used() < worker.collector.memory().limit() / 4)
            span = span > ~0ULL / 2 ? ~0ULL : span * 2 + 1;
    }
}

// A partition may be read several times, by several workers: its progress is the furthest of them.
void PartitionedGrouper::count_progress(int32_t partition, double share) {
    const auto position = static_cast<uint64_t>(static_cast<double>(rows_.partition(partition).rows) * share);
    std::atomic<uint64_t>& counted = rows_counted_[static_cast<size_t>(partition)];
    uint64_t seen = counted.load(std::memory_order_relaxed);
    while (position > seen) {
        if (!counted.compare_exchange_weak(seen, position, std::memory_order_relaxed)) continue;
        control_.rows_in.fetch_add(position - seen, std::memory_order_relaxed);
        return;
    }
}

void PartitionedGrouper::write_groups(Worker& worker) {
    GroupAggregator& groups = worker.collector.groups();
    groups.table().for_each_chunk([&](const uint8_t* record, uint64_t count) {
        control_.check();
        worker.writer.append_chunk(record, count);
    });
    groups.clear();
}

void PartitionedGrouper::task_done(int32_t partition) {
    if (--tasks_left_[static_cast<size_t>(partition)] > 0) return;
    rows_.free_partition(partition);
    control_.partitions_done.fetch_add(1, std::memory_order_relaxed);
}

Error PartitionedGrouper::too_small(uint64_t wanted) const {
    return Error(ErrorCode::kBudgetTooSmall,
                 "one group needs at least " + std::to_string(wanted) + " bytes, but the plan gives " +
                     std::to_string(spec_.table_bytes) + " bytes to group-by tables; raise 'memory.host'",
                 {{"tier", "host"},
                  {"wantedBytes", std::to_string(wanted)},
                  {"freeBytes", std::to_string(spec_.table_bytes)},
                  {"option", "memory.host"}});
}

}  // namespace spillway
