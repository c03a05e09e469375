// SPDX-License-Identifier: Apache-2.0
#include "executor/sinks/queue_sink.hpp"

#include <utility>

namespace spillway {

namespace {

void leave_budget(OutputColumn& column) {
    column.validity.leave_budget();
    column.offsets.leave_budget();
    column.data.leave_budget();
    for (auto& child : column.children) leave_budget(child);
}

}  // namespace

QueueSink::QueueSink(BatchSize batch_size, size_t max_batches, JobControl& control)
    : batch_size_(batch_size), max_batches_(max_batches), control_(control) {
    SPILLWAY_CHECK(batch_size.rows > 0 && max_batches > 0);
}

void QueueSink::add_rows(int, uint64_t) {
    fail_check("a queue takes batches: add_rows is for sinks without columns", __FILE__, __LINE__);
}

void QueueSink::push(int worker, OutputBatch&& batch) {
    shrink_batch(batch);
    const auto rows = static_cast<uint64_t>(batch.rows);
    const uint64_t bytes = batch.bytes();
    BatchSink* next = nullptr;
    std::deque<OutputBatch> dropped;
    {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            control_.check();
            if (abandoned_) throw Error(ErrorCode::kAborted, "the reader of the result batches has stopped");
            SPILLWAY_CHECK(!producer_closed_);
            next = next_;
            if (next != nullptr || batches_.size() < max_batches_) break;
            if (control_.runs_on_event_loop.load(std::memory_order_relaxed)) {
                // The end of the stage would hand them out, and then the query could not start again.
                dropped.swap(batches_);
                throw Error(ErrorCode::kInternal, "the queue is full, and its reader waits for the end of the stage",
                            {{"reason", "queueFull"}});
            }
            room_.wait_for(lock, kAbortPoll);
        }
        if (next == nullptr) batches_.push_back(std::move(batch));
    }
    if (next != nullptr) {
        next->push(worker, std::move(batch));
        control_.spilled_bytes.fetch_add(bytes, std::memory_order_relaxed);
        return;
    }
    control_.rows_out.fetch_add(rows, std::memory_order_relaxed);
    control_.bytes_out.fetch_add(bytes, std::memory_order_relaxed);
    announce();
}

std::optional<OutputBatch> QueueSink::try_pop() {
    std::optional<OutputBatch> batch;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const bool held = !producer_closed_ && control_.runs_on_event_loop.load(std::memory_order_relaxed);
        if (held || batches_.empty()) return std::nullopt;
        batch.emplace(std::move(batches_.front()));
        batches_.pop_front();
    }
    room_.notify_one();
    batch->memory.leave_budget();
    for (auto& column : batch->columns) leave_budget(column);
    return batch;
}

bool QueueSink::finished() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return abandoned_ || (producer_closed_ && batches_.empty());
}

void QueueSink::divert(BatchSink& next) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        SPILLWAY_CHECK(next_ == nullptr);
        next_ = &next;
    }
    room_.notify_all();
}

void QueueSink::abandon() {
    std::deque<OutputBatch> dropped;  // freed after the lock: unmapping large buffers takes milliseconds
    {
        std::lock_guard<std::mutex> lock(mutex_);
        abandoned_ = true;
        dropped.swap(batches_);
    }
    room_.notify_all();
}

void QueueSink::set_on_ready(std::function<void()> on_ready) {
    std::lock_guard<std::mutex> lock(ready_mutex_);
    on_ready_ = std::move(on_ready);
}

void QueueSink::close_producer() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (producer_closed_) return;
        producer_closed_ = true;
    }
    announce();
}

void QueueSink::announce() {
    std::lock_guard<std::mutex> lock(ready_mutex_);
    if (on_ready_) on_ready_();
}

}  // namespace spillway
