// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/parallel.hpp"
#include "cpu/materialize/vector_writer.hpp"
#include "executor/cpu/group_by.hpp"
#include "executor/cpu/partition.hpp"
#include "executor/cpu/pipeline.hpp"

namespace spillway {

namespace {

class ResultEnd final : public PipelineEnd {
  public:
    ResultEnd(const std::vector<VectorColumn>& outputs, MemoryBudget& budget, BatchSink& sink, int worker,
              int64_t expected_rows)
        : writer_(outputs, budget, sink, worker, expected_rows) {}
    void add(const RowVector& rows, const std::vector<ColumnView>& source) override { writer_.append(rows, source); }
    void count(uint64_t rows) override { writer_.count(rows); }
    uint64_t finish() { return writer_.finish(); }

  private:
    VectorWriter writer_;
};

}  // namespace

uint64_t join_pipeline(const PipelineBuilds& builds, Source& source, const PipelineSpec& spec, BatchSink& sink,
                       MemoryBudget& budget, JobControl& control) {
    std::atomic<uint64_t> rows{0};
    for (size_t pass = 0; pass < builds.passes; ++pass) {
        Pipeline pipeline(builds.begin_pass(pass), source, spec, !sink.wants_columns(), budget, control, pass);
        pipeline.make_tables();
        MorselQueue queue(source, spec.morsel_rows);
        parallel_run(
            pipeline.workers(),
            [&](int worker) {
                ResultEnd end(pipeline.outputs(), budget, sink, worker, source.rows() / spec.workers + 1);
                pipeline.stream(queue, end, [] { return false; });
                rows += end.finish();
            },
            [&] { control.cancelled.store(true, std::memory_order_relaxed); });
    }
    return rows;
}

namespace {

class GroupEnd final : public PipelineEnd {
  public:
    GroupEnd(std::vector<VectorColumn> columns, ColumnAggregator& groups, MemoryBudget& budget)
        : gather_(std::move(columns), budget), groups_(groups) {}
    // Rows of joins have no order: their numbers mean nothing.
    void add(const RowVector& rows, const std::vector<ColumnView>& source) override {
        groups_.add(gather_.gather(rows, source), 0, rows.rows, 0);
    }

  private:
    VectorGather gather_;
    ColumnAggregator& groups_;
};

// One pass of a pipeline whose rows are grouped.
struct GroupedPass {
    GroupedPass(const PipelineBuilds& builds, size_t pass, Source& source, const PipelineSpec& spec,
                const PartitionSpec& partition, MemoryBudget& budget, JobControl& control)
        : pipeline(builds.begin_pass(pass), source, spec, false, budget, control, pass),
          queue(source, spec.morsel_rows) {
        pipeline.make_tables();
        for (const int32_t column : columns_read(partition)) {
            columns.push_back(pipeline.outputs()[static_cast<size_t>(column)]);
        }
    }

    Pipeline pipeline;
    std::vector<VectorColumn> columns;
    MorselQueue queue;
};

}  // namespace

uint64_t group_pipeline(const PipelineBuilds& builds, Source& source, const PipelineSpec& spec,
                        const PartitionSpec& partition, const GroupBySpec& group, BatchSink& sink, MemoryBudget& budget,
                        JobControl& control) {
    std::optional<GroupedPass> current;
    const auto begin_pass = [&](size_t pass) {
        current.reset();  // before its build sides are filled anew
        current.emplace(builds, pass, source, spec, partition, budget, control);
    };
    begin_pass(0);
    ColumnFeed feed;
    feed.workers = current->pipeline.workers();
    feed.passes = builds.passes;
    for (const VectorColumn& output : current->pipeline.outputs()) feed.columns.push_back(output.type);
    feed.begin_pass = [&](size_t pass) {
        if (pass > 0) begin_pass(pass);
    };
    feed.run = [&](int, ColumnAggregator& groups, const std::function<bool()>& stopped) {
        GroupEnd end(current->columns, groups, budget);
        current->pipeline.stream(current->queue, end, stopped);
    };
    const uint64_t read = control.rows_in.load();
    try {
        return group_columns(feed, partition, group, budget, control, sink);
    } catch (const Error& error) {
        // Another plan will read them again.
        if (is_table_full(error)) control.rows_in.store(read);
        throw;
    }
}

}  // namespace spillway
