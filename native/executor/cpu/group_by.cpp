// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/group_by.hpp"

#include <algorithm>
#include <atomic>

#include "executor/cpu/morsel_reader.hpp"
#include "executor/cpu/partition.hpp"
#include "executor/cpu/partitioned_grouper.hpp"
#include "executor/cpu/shared_groups.hpp"

namespace spillway {

namespace {

Error table_full(const GroupBySpec& spec, uint64_t wanted) {
    return Error(ErrorCode::kBudgetTooSmall,
                 "the groups do not fit the " + std::to_string(spec.table_bytes) +
                     " bytes that the plan gives to hash tables (at least " + std::to_string(wanted) +
                     " are needed); group with the algorithm 'partitioned' or raise 'memory.host'",
                 {{"reason", "tableFull"},
                  {"tier", "host"},
                  {"wantedBytes", std::to_string(wanted)},
                  {"freeBytes", std::to_string(spec.table_bytes)},
                  {"option", "memory.host"}});
}

}  // namespace

uint64_t group_partitions(PartitionedRows& rows, const GroupBySpec& spec, BatchSink& sink, JobControl& control) {
    return PartitionedGrouper(rows, spec, sink, control).run();
}

uint64_t group_columns(const ColumnFeed& feed, const PartitionSpec& partition, const GroupBySpec& spec,
                       MemoryBudget& budget, JobControl& control, BatchSink& sink) {
    const std::vector<int32_t> columns = columns_read(partition);
    // Keys that are never NULL need no NULL mask beside them: then 8 bytes of keys still fit one word.
    const bool nullable = std::any_of(partition.keys.begin(), partition.keys.end(), [&](const KeySpec& key) {
        return feed.columns[static_cast<size_t>(key.column)]->nullable;
    });
    const NullKeys null_keys = nullable ? partition.null_keys : NullKeys::kDrop;
    const auto plan =
        GroupPlan::of_columns({feed.columns, partition, null_keys, columns}, spec, budget, sink.wants_columns());
    SPILLWAY_CHECK(!plan->has_distinct);
    SharedGroups groups(*plan, budget, control, spec.table_bytes, feed.workers, 0);
    const std::function<bool()> stopped = [&] { return groups.stopped(); };
    bool fits = true;
    for (size_t pass = 0; fits && pass < feed.passes; ++pass) {
        if (feed.begin_pass) feed.begin_pass(pass);
        fits = groups.aggregate([&](int worker, GroupAggregator& aggregator) {
            ColumnAggregator rows(*plan, columns, aggregator, budget);
            feed.run(worker, rows, stopped);
            rows.finish();
        });
    }
    if (!fits || !groups.merge()) throw table_full(spec, groups.wanted_bytes());
    std::vector<std::unique_ptr<GroupWriter>> writers;
    for (int i = 0; i < feed.workers; ++i) writers.push_back(std::make_unique<GroupWriter>(*plan, sink, budget, i));
    groups.write(writers);
    const bool any = std::any_of(writers.begin(), writers.end(), [](const auto& w) { return w->groups() > 0; });
    if (plan->layout.keys.empty() && !any) writers[0]->append_empty_group();
    return finish_writers(writers, control);
}

bool is_table_full(const Error& error) {
    const auto& details = error.details();
    return std::any_of(details.begin(), details.end(), [](const auto& detail) { return detail.second == "tableFull"; });
}

uint64_t group_source(Source& source, const PartitionSpec& partition, const GroupBySpec& spec, MemoryBudget& budget,
                      JobControl& control, BatchSink& sink) {
    const std::vector<int32_t> columns = columns_read(partition);
    source.load_dictionaries(columns, budget, control);
    MorselQueue queue(source, partition.morsel_rows);
    std::atomic<uint64_t> counted{0};
    ColumnFeed feed;
    feed.columns = source.columns();
    feed.workers = workers_for(spec.workers, source, partition.morsel_rows);
    feed.run = [&](int, ColumnAggregator& groups, const std::function<bool()>& stopped) {
        MorselReader reader(source, columns, queue, budget, control);
        while (!stopped() && reader.next()) {
            counted.fetch_add(static_cast<uint64_t>(reader.rows()), std::memory_order_relaxed);
            groups.add(reader.views(), 0, reader.rows(), reader.first_row());
        }
    };
    try {
        return group_columns(feed, partition, spec, budget, control, sink);
    } catch (const Error& error) {
        // Another plan will read them again.
        if (is_table_full(error)) control.rows_in.fetch_sub(counted.load(), std::memory_order_relaxed);
        throw;
    }
}

}  // namespace spillway
