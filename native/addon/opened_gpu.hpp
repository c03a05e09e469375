// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include "base/job_control.hpp"
#include "device/gpu_device.hpp"

namespace spillway::addon {

// The GPU of a runtime. Operations of its jobs take turns, and an abort reaches the one that runs: the device has one
// flag for all.
class OpenedGpu {
  public:
    explicit OpenedGpu(GpuDevice opened) : device(std::move(opened)) {}

    template <class Operation>
    auto operate(const JobControl& control, Operation operation) {
        const std::lock_guard<std::mutex> turn(turn_);
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
    struct Pause {
        explicit Pause(std::mutex& turn) : turn_(turn) { turn_.unlock(); }
        ~Pause() { turn_.lock(); }
        Pause(const Pause&) = delete;
        std::mutex& turn_;
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

    std::mutex turn_;
    std::mutex mutex_;
    const JobControl* running_ = nullptr;
};

}  // namespace spillway::addon
