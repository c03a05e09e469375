// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/job_control.hpp"
#include "executor/device_job.hpp"
#include "executor/kept_pinned.hpp"
#include "executor/streaming/chunk_input.hpp"
#include "executor/streaming/join_spec.hpp"
#include "memory/memory_budget.hpp"
#include "memory/spill_space.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// Joins two sources on the GPU that are larger than its memory. The caller has the GPU to itself; `pause` lends it to
// others while the sink's reader is waited for. sink: nullptr where rows are only counted.
//
// Chunks of both sides and blocks of result rows are pinned memory and count in the budget, and so does, for the whole
// join, what it may spill to memory (sizes.spill_bytes) and its way to disk. space: of spill files; nullptr: nothing
// goes to disk. The join runs on the calling thread; others fill chunks and deliver. An
// error for lack of memory has the detail "delivered" = "nothing" where the sink was given no rows.
cuda::StreamReport join_out_of_core(const ChunkInput& build, const ChunkInput& probe, const OutOfCoreStage& stage,
                                    KeptPinned& pinned, const DevicePause& pause, BatchSink* sink, JobControl& control,
                                    const std::shared_ptr<SpillSpace>& space = nullptr);

}  // namespace spillway
