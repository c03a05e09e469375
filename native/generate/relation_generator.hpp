// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/job_control.hpp"
#include "generate/generate_spec.hpp"
#include "memory/memory_budget.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// Generates a relation in batches of spec.batch_rows rows, delivered to the sink in row order (one push at a time) by
// spec.workers workers; memory: one batch per worker, fewer workers when the budget has no room for that. A foreign
// relation refers to the primary relation with rows = domain_rows * duplicates and equal stride, offset, width and
// sparse; seeds may differ. Returns the rows delivered.
// Sorted foreign keys are stratified (row r draws from the r-th of `rows` equal slices of the distribution), which
// sorts without a sort; rows without a partner come last; with Zipf the hottest keys are then the smallest.
int64_t generate_relation(const GenerateSpec& spec, MemoryBudget& budget, JobControl& control, BatchSink& sink);

}  // namespace spillway
