// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/job_control.hpp"
#include "model/batch_sink.hpp"
#include "transfer/arrow_file_writer.hpp"

namespace spillway {

// Result rows straight into an Arrow file, written by the worker that made them.
class FileSink final : public BatchSink {
  public:
    // columns: types of the schema message; a batch of other layouts is refused (kInternal) before it spoils the file.
    FileSink(std::unique_ptr<ArrowFileWriter> writer, std::vector<TypePtr> columns, BatchSize batch_size,
             JobControl& control);

    bool wants_columns() const override { return true; }
    void add_rows(int worker, uint64_t rows) override;
    void push(int worker, OutputBatch&& batch) override;
    BatchSize batch_size() const override { return batch_size_; }

    ArrowFileWriter& writer() { return *writer_; }  // dictionaries, blocks, finish

  private:
    std::unique_ptr<ArrowFileWriter> writer_;
    const std::vector<TypePtr> columns_;
    const BatchSize batch_size_;
    JobControl& control_;
};

}  // namespace spillway
