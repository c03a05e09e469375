// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/error.hpp"
#include "cpu/group_by/column_aggregator.hpp"
#include "cpu/radix_partition/partitioned_rows.hpp"
#include "model/batch_sink.hpp"
#include "model/stage_spec.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Group-by of partitioned rows (NullKeys::kEqual), one hash table per partition; frees each partition as it goes and
// returns the number of groups. Result columns: spec.key_fields in order, then the aggregates.
//  - Every worker takes partitions in turn, with spec.table_bytes / workers for its table.
//  - A partition with far more rows than a worker's fair share (hot key, no keys) is aggregated by all workers into
//    tables of their own, which are merged; aggregation makes a hot key small, so that this needs no more memory.
//  - A partition whose groups do not fit is worked through in ranges of the key hash, its pages being read once per
//    range. Only a group whose byte strings alone exceed spec.table_bytes fails (kBudgetTooSmall).
//  - Values of count distinct that do not fit beside the groups are partitioned and spilled (DistinctPairs): one more
//    pass over the rows for each such aggregate, then one over its values.
uint64_t group_partitions(PartitionedRows& rows, const GroupBySpec& spec, BatchSink& sink, JobControl& control);

// Rows that come to each worker in columns, with nothing written in between.
struct ColumnFeed {
    // These are the rows' types: nullable where a value may be NULL, dictionaries loaded. PartitionSpec has their
    // indices.
    std::vector<TypePtr> columns;
    int workers = 1;
    // The rows come in so many turns of all workers, one after the other.
    size_t passes = 1;
    // Called before each of them; may be empty.
    std::function<void(size_t pass)> begin_pass;
    // Adds that worker's rows; their views are those of columns_read(partition). Ends early where stopped().
    std::function<void(int worker, ColumnAggregator& groups, const std::function<bool()>& stopped)> run;
};

// Group-by without a partition pass: a table per worker, merged at the end. Returns the number of groups. Throws
// kBudgetTooSmall with the detail reason = "tableFull", before anything was sent to the sink, when the groups exceed
// spec.table_bytes: the plan should then be made again with GroupByAlgorithm::kPartitioned. No count distinct.
uint64_t group_columns(const ColumnFeed& feed, const PartitionSpec& partition, const GroupBySpec& spec,
                       MemoryBudget& budget, JobControl& control, BatchSink& sink);

// Is that the error with that reason?
bool is_table_full(const Error& error);

// group_columns() of a source's rows.
uint64_t group_source(Source& source, const PartitionSpec& partition, const GroupBySpec& spec, MemoryBudget& budget,
                      JobControl& control, BatchSink& sink);

}  // namespace spillway
