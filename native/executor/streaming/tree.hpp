// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/job_control.hpp"
#include "executor/device_job.hpp"
#include "executor/kept_pinned.hpp"
#include "executor/streaming/chunk_input.hpp"
#include "executor/streaming/tree_spec.hpp"
#include "memory/memory_budget.hpp"
#include "memory/spill_space.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

struct OutOfCoreTreeReport {
    uint64_t rows = 0;                          // of the result
    std::vector<cuda::StreamReport> operators;  // when they were done
};

// Runs operators on the GPU that take each other's rows, all of them larger than its memory, as join_out_of_core runs
// one: the caller has the GPU to itself, chunks, blocks of result rows and what all operators together may spill count
// in the budget, and an error for lack of memory has the detail "delivered" = "nothing" where the sink was given no
// rows. An operator takes GPU memory from the first flow that it is in until its last. Columns that are gathered are
// read while the last flow begins. sink: nullptr where rows are only counted, as they always are where the root is a
// join that counts. space: as there, for all of them.
OutOfCoreTreeReport tree_out_of_core(const std::vector<ChunkInput>& inputs, const OutOfCoreTree& tree,
                                     KeptPinned& pinned, const DevicePause& pause, BatchSink* sink, JobControl& control,
                                     const std::shared_ptr<SpillSpace>& space = nullptr);

}  // namespace spillway
