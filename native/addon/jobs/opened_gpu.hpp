// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "base/job_control.hpp"
#include "device/gpu_device.hpp"

namespace spillway::addon {

// Of operations that have to follow each other. An abort ends the wait for it.
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

}  // namespace spillway::addon
