// SPDX-License-Identifier: Apache-2.0
#include "generate/ordered_delivery.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/parallel.hpp"
#include "generate/generated_batch.hpp"

namespace spillway {

namespace {

class OrderedDelivery {
  public:
    OrderedDelivery(const BatchRecipe& recipe, MemoryBudget& budget, JobControl& control, BatchSink& sink)
        : recipe_(recipe), budget_(budget), control_(control), sink_(sink) {}

    void work(int worker) {
        while (auto ticket = take()) {
            OutputBatch& batch = ticket->second;
            recipe_.fill(ticket->first, batch);
            zero_padding(batch);
            deliver(worker, ticket->first, std::move(batch));
        }
    }
    void count(int worker) {
        for (int64_t number; (number = next_taken_.fetch_add(1)) < recipe_.batches;) {
            check();
            const int64_t rows = recipe_.rows(number);
            sink_.add_rows(worker, static_cast<uint64_t>(rows));
            rows_.fetch_add(rows, std::memory_order_relaxed);
        }
    }
    void fail() {
        failed_.store(true, std::memory_order_relaxed);
        turn_.notify_all();
    }
    int64_t rows() const { return rows_.load(std::memory_order_relaxed); }

  private:
    void check() const {
        control_.check();
        if (failed_.load(std::memory_order_relaxed)) throw Error(ErrorCode::kAborted, "another worker failed");
    }

    std::optional<std::pair<int64_t, OutputBatch>> take() {
        std::lock_guard<std::mutex> lock(take_mutex_);
        check();
        const int64_t number = next_taken_.load(std::memory_order_relaxed);
        if (number >= recipe_.batches) return std::nullopt;
        const int64_t rows = recipe_.rows(number);
        const uint64_t bytes = generated_batch_bytes(recipe_.columns, recipe_.text_bytes_max, rows);
        Reservation memory = budget_.wait_reserve(bytes, "generated rows", control_);
        next_taken_.store(number + 1, std::memory_order_relaxed);
        return std::make_pair(number,
                              allocate_generated_batch(recipe_.columns, recipe_.text_bytes_max, rows, budget_, memory));
    }

    void deliver(int worker, int64_t number, OutputBatch&& batch) {
        {
            std::unique_lock<std::mutex> lock(turn_mutex_);
            while (next_delivered_ != number) {
                check();
                turn_.wait_for(lock, kAbortPoll);
            }
        }
        // Nobody else's turn comes before next_delivered_ moves, so the push runs without the lock.
        const int64_t rows = batch.rows;
        sink_.push(worker, std::move(batch));
        rows_.fetch_add(rows, std::memory_order_relaxed);
        {
            std::lock_guard<std::mutex> lock(turn_mutex_);
            ++next_delivered_;
        }
        turn_.notify_all();
    }

    const BatchRecipe& recipe_;
    MemoryBudget& budget_;
    JobControl& control_;
    BatchSink& sink_;
    std::mutex take_mutex_;
    std::atomic<int64_t> next_taken_{0};
    std::mutex turn_mutex_;
    std::condition_variable turn_;
    int64_t next_delivered_ = 0;
    std::atomic<bool> failed_{false};
    std::atomic<int64_t> rows_{0};
};

}  // namespace

int64_t deliver_in_order(const BatchRecipe& recipe, MemoryBudget& budget, JobControl& control, BatchSink& sink) {
    control.check();
    const auto workers = static_cast<int>(std::clamp<int64_t>(recipe.batches, 1, recipe.workers));
    OrderedDelivery delivery(recipe, budget, control, sink);
    const bool columns = sink.wants_columns();
    parallel_run(
        workers, [&](int worker) { columns ? delivery.work(worker) : delivery.count(worker); },
        [&] { delivery.fail(); });
    return delivery.rows();
}

}  // namespace spillway
