// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/job_control.hpp"
#include "generate/generate_spec.hpp"
#include "memory/memory_budget.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// orders and lineitem after the column rules of the TPC-H specification (clause 4.2.3), from a generator of our own:
// the same seed and scale give matching tables, every line has its order and o_totalprice is the sum over its lines.
// Differences from the original: random numbers, text, and no dictionary columns. Batches arrive in order of
// the keys; lineitem batches hold whole orders, so their rows vary around batch_rows. Returns the rows delivered.
int64_t generate_tpch(const TpchSpec& spec, MemoryBudget& budget, JobControl& control, BatchSink& sink);

}  // namespace spillway
