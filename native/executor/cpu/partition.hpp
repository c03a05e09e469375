// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cpu/radix_partition/radix_partitioner.hpp"
#include "model/batch_sink.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Columns of the input that a partition pass reads: keys, then carried columns, each once.
std::vector<int32_t> columns_read(const PartitionSpec& spec);

// Sends every row of the source through the partitioner (rows.spec().workers workers). May be called for several
// sources of equal columns in turn; RadixPartitioner::finish() ends the pass. first_row: number of the source's row 0.
// kept: only rows whose key is in it (RowEncoder::keep_only).
void partition_source(RadixPartitioner& partitioner, PartitionedRows& rows, Source& source, JobControl& control,
                      uint64_t first_row = 0, const KeyInterval* kept = nullptr);

// The batches of one stage become the rows of the next stage's partitioner, inside the same process and threads.
class PartitionSink final : public BatchSink {
  public:
    // columns: of every batch, as planned.
    PartitionSink(RadixPartitioner& partitioner, PartitionedRows& rows, std::vector<TypePtr> columns,
                  BatchSize batch_size);
    ~PartitionSink() override;
    bool wants_columns() const override { return true; }
    void add_rows(int, uint64_t) override {}
    void push(int worker, OutputBatch&& batch) override;
    BatchSize batch_size() const override { return batch_size_; }

  private:
    RowEncoder& encoder(int worker, const OutputBatch& batch);
    void learn_types(const OutputBatch& batch);

    RadixPartitioner& partitioner_;
    PartitionedRows& rows_;
    const std::vector<TypePtr> columns_;
    const BatchSize batch_size_;
    std::mutex mutex_;
    bool types_known_ = false;
    std::atomic<uint64_t> next_row_number_{0};
    std::vector<std::unique_ptr<RowEncoder>> encoders_;
};

}  // namespace spillway
