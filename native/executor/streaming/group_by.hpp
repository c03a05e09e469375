// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/job_control.hpp"
#include "executor/device_job.hpp"
#include "executor/kept_pinned.hpp"
#include "executor/streaming/chunk_input.hpp"
#include "executor/streaming/group_by_spec.hpp"
#include "memory/memory_budget.hpp"
#include "memory/spill_space.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// Groups the rows of a source on the GPU that is larger than its memory, as join_out_of_core joins two: the caller has
// the GPU to itself, chunks, blocks of groups and what may be spilled count in the budget, and an error for lack of
// memory has the detail "delivered" = "nothing" where the sink was given no groups. sink: nullptr where groups are only
// counted. space: where rows go that find no room in what is reserved for them; nullptr: nowhere.
cuda::StreamReport group_out_of_core(const ChunkInput& input, const OutOfCoreGroupStage& stage, KeptPinned& pinned,
                                     const DevicePause& pause, BatchSink* sink, JobControl& control,
                                     const std::shared_ptr<SpillSpace>& space = nullptr);

}  // namespace spillway
