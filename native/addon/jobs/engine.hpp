// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/job_control.hpp"
#include "device/gpu_device.hpp"
#include "executor/kept_pinned.hpp"
#include "memory/memory_budget.hpp"
#include "memory/spill_space.hpp"

namespace spillway::addon {

// Operations that have to follow each other take the turn one by one. An abort ends the wait for it.
class Turn {
  public:
    void take(const JobControl& control) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (holder_ != nullptr) {
            control.check();
            // Nobody wakes those whose job is cancelled.
            free_.wait_for(lock, kPoll);
        }
        holder_ = &control;
    }
    // Nothing where the job does not have it: an operation that ends while it pauses.
    void give(const JobControl& control) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (holder_ != &control) return;
            holder_ = nullptr;
        }
        free_.notify_all();
    }

  private:
    static constexpr std::chrono::milliseconds kPoll{20};
    std::mutex mutex_;
    std::condition_variable free_;
    const JobControl* holder_ = nullptr;
};

// The GPU of a runtime. Operations of its jobs take turns, and an abort reaches the one that runs: the device has one
// flag for all.
class OpenedGpu {
  public:
    explicit OpenedGpu(GpuDevice opened) : device(std::move(opened)) {}

    template <class Operation>
    auto operate(const JobControl& control, Operation operation) {
        const Held turn(turn_, control);
        const Running running(*this, control);
        return operation();
    }

    // Inside of an operation, on its thread: lets operations of other jobs run while `wait` does. What it throws, or an
    // abort before the turn has come again, ends the operation without a turn: all that it does to the device then is
    // to give its memory back, for which the plugin has a lock of its own.
    void pause(const JobControl& control, const std::function<void()>& wait) {
        stop(control);
        turn_.give(control);
        wait();
        turn_.take(control);
        start(control);
    }

    // Any thread; control.cancelled is set before.
    void cancel(const JobControl& control) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (running_ == &control) device.set_cancelled(true);
    }

    GpuDevice device;

  private:
    struct Held {
        Held(Turn& turn, const JobControl& by) : held(turn), control(by) { held.take(control); }
        ~Held() { held.give(control); }
        Held(const Held&) = delete;
        Turn& held;
        const JobControl& control;
    };
    struct Running {
        Running(OpenedGpu& opened, const JobControl& of) : gpu(opened), control(of) { gpu.start(control); }
        ~Running() { gpu.stop(control); }
        Running(const Running&) = delete;
        OpenedGpu& gpu;
        const JobControl& control;
    };
    void start(const JobControl& control) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            running_ = &control;
        }
        try {
            control.check();
        } catch (...) {
            stop(control);
            throw;
        }
    }
    // Nothing where another job's operation runs: the flag is that one's.
    void stop(const JobControl& control) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (running_ != &control) return;
        running_ = nullptr;
        device.set_cancelled(false);
    }

    Turn turn_;
    std::mutex mutex_;
    const JobControl* running_ = nullptr;
};

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
    // Memory of batches that readers have been given and JS has not dropped, without those of tables. JS thread only.
    int64_t read_bytes = 0;
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
    bool has_memory_disposals() {
        std::lock_guard<std::mutex> lock(mutex_);
        return memory_disposals_ > 0;
    }
    bool has_disposals() {
        std::lock_guard<std::mutex> lock(mutex_);
        return disposals_ > 0;
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

    // JS thread: do stages run there? Not one that would have to wait for memory first.
    bool runs_here() const {
        return control.runs_on_event_loop.load(std::memory_order_relaxed) && !engine->has_memory_disposals();
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
