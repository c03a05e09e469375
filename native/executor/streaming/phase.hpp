// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/job_control.hpp"
#include "executor/streaming/chunk_feeder.hpp"
#include "executor/streaming/result_blocks.hpp"

namespace spillway {

// Chunks that are filled while the GPU's copy engines read the others.
constexpr uint64_t kSpareChunks = 2;

// What those do who deliver rows, before they begin, and who wakes others than the phase's own when a job ends early.
struct PhaseHooks {
    std::function<void()> before_delivery;
    std::function<void()> wake;
};

// A source is read: by `use` on this thread, with chunks that workers fill, whose rows, if there are blocks for them,
// others deliver. Returns when all of them have been.
void run_phase(ChunkFeeder& feeder, ResultBlocks* blocks, int workers, JobControl& control, const PhaseHooks& hooks,
               const std::function<void()>& use);

}  // namespace spillway
