// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "base/job_control.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// Result batches on their way to JS: workers push and wait while max_batches are there, one consumer pops without
// blocking. Waiting batches count in the memory budget; a popped one belongs to the consumer.
class QueueSink final : public BatchSink {
  public:
    QueueSink(BatchSize batch_size, size_t max_batches, JobControl& control);

    bool wants_columns() const override { return true; }
    void add_rows(int worker, uint64_t rows) override;
    // Throws kAborted when the job is cancelled or the consumer has stopped; notices either within 50 ms. Where stages
    // run on the event loop's thread, it does not wait: kInternal, with the reason "queueFull". The consumer gets
    // nothing before their end then, so that all of them can run again on a thread.
    void push(int worker, OutputBatch&& batch) override;
    BatchSize batch_size() const override { return batch_size_; }

    // Consumer side. An empty result with finished() false means: wait for on_ready.
    std::optional<OutputBatch> try_pop();
    // The producer has ended (or the consumer has abandoned) and nothing is left to pop.
    bool finished() const;
    // Batches that do not wait yet, those of blocked pushes included, go to `next` instead; it must live until the
    // producer has ended. What waits is still to be popped.
    void divert(BatchSink& next);
    // Drops what waits; later and blocked pushes throw kAborted. Idempotent.
    void abandon();
    // Called, from any thread and with no queue lock held, when a batch arrives and when the producer closes. Set it
    // first, then look with try_pop(): what came before is not announced again. Returns only when no call of the
    // former callback is running, so the callback itself must not call set_on_ready.
    void set_on_ready(std::function<void()> on_ready);

    // Producer side: the stage has ended, with or without an error. Idempotent.
    void close_producer();

  private:
    void announce();

    const BatchSize batch_size_;
    const size_t max_batches_;
    JobControl& control_;
    mutable std::mutex mutex_;
    std::condition_variable room_;
    std::deque<OutputBatch> batches_;
    BatchSink* next_ = nullptr;
    bool producer_closed_ = false;
    bool abandoned_ = false;
    std::mutex ready_mutex_;
    std::function<void()> on_ready_;
};

}  // namespace spillway
