// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>

#include "base/job_control.hpp"
#include "base/parallel.hpp"
#include "executor/streaming/chunk_feeder.hpp"
#include "executor/streaming/result_blocks.hpp"

namespace spillway {

// What those do who deliver rows, before they begin, and who wakes others than the phase's own when a job ends early.
struct PhaseHooks {
    std::function<void()> before_delivery;
    std::function<void()> wake;
};

// A source is read: by `use` on this thread, with chunks that workers fill, whose rows, if there are blocks for them,
// others deliver. Returns when all of them have been.
inline void run_phase(ChunkFeeder& feeder, ResultBlocks* blocks, int workers, JobControl& control,
                      const PhaseHooks& hooks, const std::function<void()>& use) {
    const int feeders = feeder.workers_max(workers);
    const int deliverers = blocks == nullptr ? 0 : workers;
    if (blocks != nullptr) blocks->begin(deliverers);
    const auto body = [&](int worker) {
        if (worker == 0) {
            use();
            if (blocks == nullptr) return;
            blocks->end();
            blocks->drain();
        } else if (worker <= feeders) {
            feeder.work();
        } else {
            if (hooks.before_delivery) hooks.before_delivery();
            blocks->work(worker - feeders - 1);
        }
    };
    parallel_run(1 + feeders + deliverers, body, [&] {
        control.cancelled.store(true, std::memory_order_relaxed);
        feeder.wake();
        if (blocks != nullptr) blocks->wake();
        if (hooks.wake) hooks.wake();
    });
}

}  // namespace spillway
