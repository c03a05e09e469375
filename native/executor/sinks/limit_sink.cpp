// SPDX-License-Identifier: Apache-2.0
#include "executor/sinks/limit_sink.hpp"

#include <algorithm>
#include <utility>

namespace spillway {

LimitSink::LimitSink(std::unique_ptr<BatchSink> sink, uint64_t rows_max, bool all_or_none, JobControl& control)
    : sink_(std::move(sink)), control_(control), rows_max_(rows_max), all_or_none_(all_or_none) {}

void LimitSink::begin(uint64_t rows_max, bool all_or_none) {
    std::lock_guard<std::mutex> lock(mutex_);
    rows_max_ = rows_max;
    all_or_none_ = all_or_none;
    claimed_ = 0;
    delivered_ = 0;
    held_rows_ = 0;
    held_.clear();
}

BatchSize LimitSink::batch_size() const {
    BatchSize size = sink_->batch_size();
    const auto most = static_cast<int64_t>(std::min<uint64_t>(rows_max_, INT64_MAX));
    size.rows = std::max<int64_t>(1, std::min(size.rows, most));
    return size;
}

bool LimitSink::ended_well() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return delivered_ >= rows_max_;
}

void LimitSink::add_rows(int worker, uint64_t rows) {
    const uint64_t taken = claim(rows);
    uint64_t given = taken;
    if (all_or_none_ && taken > 0) {
        std::lock_guard<std::mutex> lock(mutex_);
        held_rows_ += taken;
        if (held_rows_ < rows_max_) return;
        given = std::exchange(held_rows_, 0);
    }
    if (given > 0) sink_->add_rows(worker, given);
    delivered(given);
}

void LimitSink::push(int worker, OutputBatch&& batch) {
    const uint64_t taken = claim(static_cast<uint64_t>(batch.rows));
    if (taken == 0) return delivered(0);
    cut_batch(batch, static_cast<int64_t>(taken));
    if (!all_or_none_) {
        sink_->push(worker, std::move(batch));
        return delivered(taken);
    }
    std::vector<OutputBatch> all;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        held_.push_back(std::move(batch));
        uint64_t held = 0;
        for (const OutputBatch& one : held_) held += static_cast<uint64_t>(one.rows);
        if (held < rows_max_) return;
        all.swap(held_);
    }
    for (OutputBatch& one : all) sink_->push(worker, std::move(one));
    delivered(rows_max_);
}

// How many of the rows are wanted. They are the caller's to deliver.
uint64_t LimitSink::claim(uint64_t rows) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t taken = std::min(rows, rows_max_ - claimed_);
    claimed_ += taken;
    return taken;
}

// Returns where more rows are wanted. Rows that others have claimed may wait for a reader: a worker that ends before
// these are through would take them with it.
void LimitSink::delivered(uint64_t rows) {
    std::unique_lock<std::mutex> lock(mutex_);
    delivered_ += rows;
    if (claimed_ < rows_max_) return;
    changed_.notify_all();
    while (delivered_ < rows_max_) {
        control_.check();
        changed_.wait_for(lock, kAbortPoll);
    }
    throw Error(ErrorCode::kAborted, "the result has as many rows as were asked for");
}

}  // namespace spillway
