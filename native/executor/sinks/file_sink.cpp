// SPDX-License-Identifier: Apache-2.0
#include "executor/sinks/file_sink.hpp"

#include <utility>

namespace spillway {

FileSink::FileSink(std::unique_ptr<ArrowFileWriter> writer, std::vector<TypePtr> columns, BatchSize batch_size,
                   JobControl& control)
    : writer_(std::move(writer)), columns_(std::move(columns)), batch_size_(batch_size), control_(control) {
    SPILLWAY_CHECK(batch_size.rows > 0);
}

void FileSink::add_rows(int, uint64_t) {
    fail_check("a file takes batches: add_rows is for sinks without columns", __FILE__, __LINE__);
}

void FileSink::push(int, OutputBatch&& batch) {
    if (batch.rows == 0) return;  // an empty record batch tells a reader nothing
    const OutputBatch owned = std::move(batch);
    SPILLWAY_CHECK(owned.columns.size() == columns_.size());
    for (size_t i = 0; i < columns_.size(); ++i) {
        SPILLWAY_CHECK(has_planned_layout(*columns_[i], *owned.columns[i].type));
    }
    writer_->write(owned);
    control_.rows_out.fetch_add(static_cast<uint64_t>(owned.rows), std::memory_order_relaxed);
    control_.bytes_out.fetch_add(owned.bytes(), std::memory_order_relaxed);
}

}  // namespace spillway
