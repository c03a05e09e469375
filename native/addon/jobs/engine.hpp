// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "addon/jobs/opened_gpu.hpp"
#include "base/job_control.hpp"
#include "executor/kept_pinned.hpp"
#include "memory/memory_budget.hpp"
#include "memory/spill_space.hpp"

namespace spillway::addon {

// What the handles of one runtime share.
struct Engine {
    Engine(uint64_t memory_bytes, std::string directory, int thread_count)
        : budget(memory_bytes),
          spill_space(std::make_shared<SpillSpace>(std::move(directory))),
          threads(thread_count) {}

    MemoryBudget budget;
    // Blocks of dropped results are kept for the next ones; not while the runtime is idle and has given its memory
    // back. Written on the JS thread: a job of the caller raises it, a trim lowers it.
    std::atomic<bool> keeps_dropped{true};
    // What open relations of files hold of the budget, which no query can have.
    std::atomic<uint64_t> relation_bytes{0};
    const std::shared_ptr<SpillSpace> spill_space;
    const int threads;
    int64_t running_jobs = 0;                 // JS thread only
    std::shared_ptr<OpenedGpu> gpu;           // set once, on the JS thread; jobs keep it by their tables and captures
    std::unique_ptr<KeptPinned> kept_pinned;  // of gpu, set with it

    // Closed handles give their memory back on a background thread; a stage that starts meanwhile must not find the
    // budget still taken by them. Their files go afterwards: the system needs 50 ms for 1 GB of a spill file.
    void disposal_begins() {
        std::lock_guard<std::mutex> lock(mutex_);
        ++memory_disposals_;
        ++disposals_;
    }
    void memory_disposed() {
        std::lock_guard<std::mutex> lock(mutex_);
        --memory_disposals_;
        disposed_.notify_all();
    }
    void disposal_ended() {
        std::lock_guard<std::mutex> lock(mutex_);
        --disposals_;
        disposed_.notify_all();
    }
    void wait_for_memory() {
        std::unique_lock<std::mutex> lock(mutex_);
        disposed_.wait(lock, [this] { return memory_disposals_ == 0; });
    }
    void wait_for_disposals() {
        std::unique_lock<std::mutex> lock(mutex_);
        disposed_.wait(lock, [this] { return disposals_ == 0; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable disposed_;
    int64_t memory_disposals_ = 0;
    int64_t disposals_ = 0;
};

struct Job {
    explicit Job(std::shared_ptr<Engine> of_engine) : engine(std::move(of_engine)) {}
    const std::shared_ptr<Engine> engine;
    JobControl control;

    // JS thread. Stages set control.cancelled too, to stop their own workers after a failure; that flag is lowered
    // again when they have ended, so that a failed stage (a full table, say) can be replaced by another one.
    void cancel() {
        cancelled_by_user_ = true;
        control.cancelled.store(true, std::memory_order_relaxed);
        if (engine->gpu) engine->gpu->cancel(control);
    }
    void stage_begins() {
        ++running_;
        ++engine->running_jobs;
    }
    void stage_ended() {
        --engine->running_jobs;
        if (--running_ == 0 && !cancelled_by_user_) control.cancelled.store(false, std::memory_order_relaxed);
    }

    // JS thread: does somebody wait for the stages? While nobody does (a paused reader of results), they do not keep
    // the process alive. Returns how many stages run.
    bool waited_for() const { return waited_for_; }
    int64_t set_waited_for(bool waited_for) {
        waited_for_ = waited_for;
        return running_;
    }

  private:
    bool cancelled_by_user_ = false;
    bool waited_for_ = true;
    int64_t running_ = 0;
};

}  // namespace spillway::addon
