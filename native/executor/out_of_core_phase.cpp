// SPDX-License-Identifier: Apache-2.0
#include "executor/out_of_core_phase.hpp"

#include <atomic>
#include <utility>

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

void rethrow_undelivered(const Error& error, bool gave_rows) {
    const bool memory = error.code() == ErrorCode::kBudgetTooSmall || error.code() == ErrorCode::kOutOfMemory;
    if (gave_rows || !(memory || error.code() == ErrorCode::kNoDevice)) throw;
    auto details = error.details();
    details.emplace_back("delivered", "nothing");
    throw Error(error.code(), error.message(), std::move(details));
}

}  // namespace spillway
