// SPDX-License-Identifier: Apache-2.0
#pragma once

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

    // Any thread; control.cancelled is set before.
    void cancel(const JobControl& control) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (running_ == &control) device.set_cancelled(true);
    }

    GpuDevice device;

  private:
    struct Running {
        Running(OpenedGpu& opened, const JobControl& control) : gpu(opened) {
            {
                const std::lock_guard<std::mutex> lock(gpu.mutex_);
                gpu.running_ = &control;
            }
            try {
                control.check();
            } catch (...) {
                end();
                throw;
            }
        }
        ~Running() { end(); }
        Running(const Running&) = delete;
        void end() {
            const std::lock_guard<std::mutex> lock(gpu.mutex_);
            gpu.running_ = nullptr;
            gpu.device.set_cancelled(false);
        }
        OpenedGpu& gpu;
    };

    std::mutex turn_;
    std::mutex mutex_;
    const JobControl* running_ = nullptr;
};

}  // namespace spillway::addon
