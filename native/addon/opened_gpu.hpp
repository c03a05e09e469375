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
        while (taken_) {
            control.check();
            // Nobody wakes those whose job is cancelled.
            free_.wait_for(lock, kPoll);
        }
        taken_ = true;
    }
    // Where it must be had: the operation has begun.
    void take_back() {
        std::unique_lock<std::mutex> lock(mutex_);
        free_.wait(lock, [this] { return !taken_; });
        taken_ = true;
    }
    void give() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            taken_ = false;
        }
        free_.notify_all();
    }

  private:
    static constexpr std::chrono::milliseconds kPoll{20};
    std::mutex mutex_;
    std::condition_variable free_;
    bool taken_ = false;
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

    // Inside of an operation, on its thread: lets operations of other jobs run while `wait` does.
    void pause(const JobControl& control, const std::function<void()>& wait) {
        stop();
        {
            const Pause paused(turn_);
            wait();
        }
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
        Held(Turn& turn, const JobControl& control) : held(turn) { held.take(control); }
        ~Held() { held.give(); }
        Held(const Held&) = delete;
        Turn& held;
    };
    struct Pause {
        explicit Pause(Turn& turn) : paused(turn) { paused.give(); }
        ~Pause() { paused.take_back(); }
        Pause(const Pause&) = delete;
        Turn& paused;
    };
    struct Running {
        Running(OpenedGpu& opened, const JobControl& control) : gpu(opened) { gpu.start(control); }
        ~Running() { gpu.stop(); }
        Running(const Running&) = delete;
        OpenedGpu& gpu;
    };
    void start(const JobControl& control) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            running_ = &control;
        }
        try {
            control.check();
        } catch (...) {
            stop();
            throw;
        }
    }
    void stop() {
        const std::lock_guard<std::mutex> lock(mutex_);
        running_ = nullptr;
        device.set_cancelled(false);
    }

    Turn turn_;
    std::mutex mutex_;
    const JobControl* running_ = nullptr;
};

}  // namespace spillway::addon
