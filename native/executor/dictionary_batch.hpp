// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/job_control.hpp"
#include "memory/memory_budget.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// The values of a unified dictionary as a batch of one column, copied: results refer to them by index after the
// source is gone.
OutputBatch dictionary_batch(const Dictionary& dictionary, MemoryBudget& budget, const JobControl& control);

}  // namespace spillway
