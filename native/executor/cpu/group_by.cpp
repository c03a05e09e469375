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

uint64_t group_source(Source& source, const PartitionSpec& partition, const GroupBySpec& spec, MemoryBudget& budget,
                      JobControl& control, BatchSink& sink) {
    const std::vector<int32_t> columns = columns_read(partition);
    source.load_dictionaries(columns, budget, control);
    // Keys that are never NULL need no NULL mask beside them: then 8 bytes of keys still fit one word.
    const bool nullable = std::any_of(partition.keys.begin(), partition.keys.end(), [&](const KeySpec& key) {
        return source.columns()[static_cast<size_t>(key.column)]->nullable;
    });
    const NullKeys null_keys = nullable ? partition.null_keys : NullKeys::kDrop;
    const RowLayout layout = RowLayout::make(source.columns(), partition.keys, partition.carry, null_keys);
    const auto plan = GroupPlan::make(layout, spec, budget, sink.wants_columns());
    SPILLWAY_CHECK(!plan->has_distinct);
    const int workers = workers_for(spec.workers, source, partition.morsel_rows);
    SharedGroups groups(*plan, budget, control, spec.table_bytes, workers, 0);
    MorselQueue queue(source, partition.morsel_rows);
    std::atomic<uint64_t> counted{0};
    const bool fits = groups.aggregate([&](int, GroupAggregator& aggregator) {
        MorselReader reader(source, columns, queue, budget, control);
        RowEncoder encoder(layout, columns, budget);
        while (!groups.stopped() && reader.next()) {
            counted.fetch_add(static_cast<uint64_t>(reader.rows()), std::memory_order_relaxed);
            for (int64_t begin = 0; begin < reader.rows(); begin += encoder.rows_max()) {
                const int64_t count = std::min(encoder.rows_max(), reader.rows() - begin);
                const uint64_t row_number = reader.first_row() + static_cast<uint64_t>(begin);
                aggregator.cutter().cut(encoder.encode(reader.views(), begin, count, row_number),
                                        [&](RowBlock& block) { aggregator.add_states(block); });
            }
        }
    });
    if (!fits || !groups.merge()) {
        control.rows_in.fetch_sub(counted.load(), std::memory_order_relaxed);  // another plan will read them again
        throw table_full(spec, groups.wanted_bytes());
    }
    std::vector<std::unique_ptr<GroupWriter>> writers;
    for (int i = 0; i < workers; ++i) writers.push_back(std::make_unique<GroupWriter>(*plan, sink, budget, i));
    groups.write(writers);
    if (layout.keys.empty() && source.rows() == 0) writers[0]->append_empty_group();
    return finish_writers(writers, control);
}

}  // namespace spillway
