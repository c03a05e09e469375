// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/job_control.hpp"
#include "generate/generate_spec.hpp"
#include "generate/vocabularies.hpp"
#include "memory/memory_budget.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// Generates one part of a table of a benchmark, delivered in order of the rows; batches hold whole units (TableRecipe),
// so that those of lineitem vary around spec.batch_rows. Part i of n has the units [U (i - 1) / n, U i / n) of U: its
// rows follow those of part i - 1, and orders and their lines fall into parts of one number. Returns the rows
// delivered.
int64_t generate_table(const TableSpec& spec, MemoryBudget& budget, JobControl& control, BatchSink& sink);

// The columns that have dictionaries where a table is asked for with them, by what each dictionary holds.
std::vector<const Vocabulary*> table_dictionaries(BenchmarkTable table);

// A dictionary as a batch of one column.
OutputBatch vocabulary_batch(const Vocabulary& words, MemoryBudget& budget);

}  // namespace spillway
