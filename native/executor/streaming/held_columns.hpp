// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "base/job_control.hpp"
#include "memory/memory_budget.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Columns of a source whose values are read by row number, in any order: rows of memory where they lie (dictionaries:
// 4 bytes per row for their unified indices), rows of files in a copy that counts in the budget. So does the reader of
// each batch where there are many: a file can have a million of a row each.
class HeldColumns {
  public:
    // columns: of the source, each once; their dictionaries must be loaded.
    HeldColumns(Source& source, std::vector<int32_t> columns, MemoryBudget& budget, JobControl& control);

    // Reads the batches, with all who call it; returns when all are there.
    void load();
    // Those who wait look at the job again: it was cancelled.
    void wake();

    struct Place {
        int64_t batch = 0;  // -1: there is no row
        int64_t row = 0;    // inside the batch
    };
    // Finds a row of the source by one look at a directory of the rows, and at the first rows of a batch or two.
    Place place(uint64_t row) const {
        SPILLWAY_CHECK(row < rows_);
        auto batch = static_cast<size_t>(directory_[row >> shift_]);
        while (row >= first_rows_[batch + 1]) ++batch;
        return {static_cast<int64_t>(batch), static_cast<int64_t>(row - first_rows_[batch])};
    }
    // Types of all columns of the source.
    const std::vector<TypePtr>& source_columns() const { return source_.columns(); }
    // By batch; after load(). column: of the source.
    const std::vector<ColumnView>& views(int32_t column) const;

  private:
    void read(int64_t batch);

    Source& source_;
    const std::vector<int32_t> columns_;
    MemoryBudget& budget_;
    JobControl& control_;
    const Reservation places_;  // what is kept for each batch, beyond the first thousands of them
    const uint64_t rows_;
    std::vector<uint64_t> first_rows_;  // of each batch, and the number of rows
    std::vector<int64_t> directory_;    // batch with row i << shift_
    uint32_t shift_ = 0;
    std::vector<std::unique_ptr<SourceReader>> readers_;  // of each batch: its views live as long
    std::vector<std::vector<ColumnView>> views_;          // [column][batch]

    std::mutex mutex_;
    std::condition_variable changed_;
    int64_t next_ = 0;
    int64_t loaded_ = 0;
};

}  // namespace spillway
