// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cpu/materialize/vector_gather.hpp"
#include "executor/cpu/resident_tables.hpp"
#include "model/batch_sink.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Where the rows that come out of the last join of a pipeline go. One per worker.
class PipelineEnd {
  public:
    virtual ~PipelineEnd() = default;
    // source: views of the rows that the vector names.
    virtual void add(const RowVector& rows, const std::vector<ColumnView>& source) = 0;
    // Is only the number of rows wanted? Then count() is called where the last join need not name them.
    virtual bool counts() const { return false; }
    virtual void count(uint64_t) {}
};

// Joins behind each other whose tables stay in memory. A morsel of the source goes through all of them in vectors of
// some rows, whose values are looked at where they lie: nothing is written between two joins. G. Graefe, "Query
// evaluation techniques for large databases" (ACM Computing Surveys 25, 1993), section 5; vectors as in P. Boncz et
// al., "MonetDB/X100: Hyper-pipelining query execution" (CIDR 2005).
class Pipeline {
  public:
    // builds: of each join, finished. counting: the end wants nothing but the number of rows.
    // pass: which of those of `spec`, if it has any.
    Pipeline(const std::vector<PartitionedRows*>& builds, Source& source, const PipelineSpec& spec, bool counting,
             MemoryBudget& budget, JobControl& control, size_t pass = 0);
    ~Pipeline();

    // Types of the outputs, dictionaries of the source included.
    const std::vector<VectorColumn>& outputs() const { return outputs_; }
    // Makes the tables of all joins.
    void make_tables();
    int workers() const;
    // Sends every row that one worker gets hold of through the joins to `end`, until stopped() says so.
    void stream(MorselQueue& queue, PipelineEnd& end, const std::function<bool()>& stopped);

  private:
    class Worker;
    struct Join;
    VectorColumn resolve(const PipelineColumn& column);
    size_t view_of_column(int32_t column);

    Source& source_;
    const PipelineSpec& spec_;
    const bool counting_;
    const KeyInterval* const interval_;  // of the pass
    MemoryBudget& budget_;
    JobControl& control_;
    std::vector<int32_t> source_columns_;  // that are read
    std::vector<std::unique_ptr<Join>> joins_;
    std::vector<VectorColumn> outputs_;
};

// The build sides of a pipeline, finished, in each of its passes over the source.
struct PipelineBuilds {
    size_t passes = 1;
    std::function<std::vector<PartitionedRows*>(size_t pass)> begin_pass;
};

// A pipeline whose rows are result rows. Returns their number.
uint64_t join_pipeline(const PipelineBuilds& builds, Source& source, const PipelineSpec& spec, BatchSink& sink,
                       MemoryBudget& budget, JobControl& control);

// A pipeline whose rows are grouped as they come: partition and group as those of group_source, with the pipeline's
// outputs as columns. Returns the number of groups; throws as group_source does where they do not fit.
uint64_t group_pipeline(const PipelineBuilds& builds, Source& source, const PipelineSpec& spec,
                        const PartitionSpec& partition, const GroupBySpec& group, BatchSink& sink, MemoryBudget& budget,
                        JobControl& control);

}  // namespace spillway
