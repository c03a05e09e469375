// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/held_columns.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "executor/streaming/join_spec.hpp"

namespace spillway {

namespace {

// Entries of the directory per batch: with batches of about one size, a look at it finds the batch or the one before.
constexpr uint64_t kEntriesPerBatch = 4;
// A reader, its views, the places of the batch and the blocks of the heap that they lie in, at most; a test measures
// them. As many batches as a process has room for beside its budget are free: plans need not know of them.
constexpr uint64_t kBatchBytes = 1024;
constexpr uint64_t kColumnBytes = 1024;
constexpr uint64_t kFreeBytes = 8 << 20;

uint64_t place_bytes(const Source& source, size_t columns) {
    const uint64_t batch = add_or_max(kBatchBytes, multiply_or_max(uint64_t{columns}, kColumnBytes));
    const uint64_t all = multiply_or_max(static_cast<uint64_t>(source.batch_count()), batch);
    return all <= kFreeBytes ? 0 : all - kFreeBytes;
}

}  // namespace

HeldColumns::HeldColumns(Source& source, std::vector<int32_t> columns, MemoryBudget& budget, JobControl& control)
    : source_(source),
      columns_(std::move(columns)),
      budget_(budget),
      control_(control),
      places_(budget.reserve(place_bytes(source, columns_.size()), "the batches of a relation that is gathered from")),
      rows_(static_cast<uint64_t>(source.rows())) {
    const auto batches = static_cast<size_t>(source.batch_count());
    for (size_t i = 0; i < batches; ++i) {
        first_rows_.push_back(static_cast<uint64_t>(source.first_row(static_cast<int64_t>(i))));
    }
    first_rows_.push_back(rows_);
    readers_.resize(batches);
    views_.assign(columns_.size(), std::vector<ColumnView>(batches));
    const uint64_t entries = kEntriesPerBatch * std::max<uint64_t>(batches, 1);
    shift_ = static_cast<uint32_t>(std::bit_width(rows_ / entries));
    for (uint64_t row = 0; row < rows_; row += uint64_t{1} << shift_) {
        directory_.push_back(batch_of(source, static_cast<int64_t>(row)));
    }
}

const std::vector<ColumnView>& HeldColumns::views(int32_t column) const {
    const auto found = std::find(columns_.begin(), columns_.end(), column);
    SPILLWAY_CHECK(found != columns_.end());
    return views_[static_cast<size_t>(found - columns_.begin())];
}

void HeldColumns::read(int64_t batch) {
    const int64_t rows = source_.batch_rows(batch);
    if (rows == 0) return;
    const auto at = static_cast<size_t>(batch);
    readers_[at] = std::make_unique<SourceReader>(source_, columns_, budget_, control_, MemoryStructure::kBorrowed);
    const std::vector<ColumnView>& found = readers_[at]->read(batch, 0, rows);
    for (size_t i = 0; i < found.size(); ++i) views_[i][at] = found[i];
}

void HeldColumns::load() {
    const int64_t batches = source_.batch_count();
    std::unique_lock<std::mutex> lock(mutex_);
    while (next_ < batches) {
        const int64_t batch = next_++;
        lock.unlock();
        control_.check();
        read(batch);
        lock.lock();
        if (++loaded_ == batches) changed_.notify_all();
    }
    while (loaded_ < batches) {
        control_.check();
        changed_.wait_for(lock, kAbortPoll);
    }
}

void HeldColumns::wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
}

}  // namespace spillway
