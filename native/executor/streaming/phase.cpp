// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/phase.hpp"

#include <atomic>

#include "base/parallel.hpp"

namespace spillway {

void run_phase(ChunkFeeder& feeder, ResultBlocks* blocks, int workers, JobControl& control, const PhaseHooks& hooks,
               const std::function<void()>& use) {
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
