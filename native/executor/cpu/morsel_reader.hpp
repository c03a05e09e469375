// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "executor/cpu/interval_filter.hpp"
#include "transfer/source.hpp"

namespace spillway {

// One worker's loop over its share of a source: takes morsels from the shared queue and reads them in pieces that stay
// small in bytes too (rows with long strings). Checks for cancellation and counts rows read. filter: may be nullptr;
// leaves out whole morsels.
class MorselReader {
  public:
    MorselReader(Source& source, const std::vector<int32_t>& columns, MorselQueue& queue, MemoryBudget& budget,
                 JobControl& control, IntervalFilter* filter = nullptr)
        : source_(source),
          queue_(queue),
          control_(control),
          reader_(source, columns, budget, control),
          filter_(filter) {}

    bool next() {
        control_.check();
        while (left_ == 0) {
            if (!queue_.next(morsel_)) return false;
            if (filter_ == nullptr || filter_->any(morsel_)) {
                left_ = morsel_.rows;
            } else {
                control_.check();
                control_.rows_in.fetch_add(static_cast<uint64_t>(morsel_.rows), std::memory_order_relaxed);
            }
        }
        const int64_t row = morsel_.row + morsel_.rows - left_;
        rows_ = reader_.rows_within(morsel_.batch, row, left_, kPieceBytesMax);
        first_row_ = static_cast<uint64_t>(source_.first_row(morsel_.batch) + row);
        views_ = &reader_.read(morsel_.batch, row, rows_);
        left_ -= rows_;
        control_.rows_in.fetch_add(static_cast<uint64_t>(rows_), std::memory_order_relaxed);
        return true;
    }
    const std::vector<ColumnView>& views() const { return *views_; }
    int64_t rows() const { return rows_; }
    uint64_t first_row() const { return first_row_; }  // source row number of view row 0

  private:
    // Read buffers of a worker stay below this unless a single row is larger.
    static constexpr uint64_t kPieceBytesMax = 4ULL << 20;

    Source& source_;
    MorselQueue& queue_;
    JobControl& control_;
    SourceReader reader_;
    IntervalFilter* const filter_;
    Morsel morsel_;
    int64_t left_ = 0;
    int64_t rows_ = 0;
    uint64_t first_row_ = 0;
    const std::vector<ColumnView>* views_ = nullptr;
};

// Never more workers than morsels: small inputs should not pay for threads.
inline int workers_for(int32_t workers, const Source& source, int64_t morsel_rows) {
    const int64_t morsels = source.rows() / std::max<int64_t>(morsel_rows, 1) + 1;
    return static_cast<int>(std::min<int64_t>(std::max(workers, 1), morsels));
}

}  // namespace spillway
