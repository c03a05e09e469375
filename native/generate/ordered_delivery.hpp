// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/job_control.hpp"
#include "memory/memory_budget.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// A generated table cut into batches that can be made independently.
struct BatchRecipe {
    std::vector<TypePtr> columns;
    std::vector<uint32_t> text_bytes_max;  // see generated_batch.hpp
    int64_t batches = 0;
    int32_t workers = 1;
    std::function<int64_t(int64_t batch)> rows;
    std::function<void(int64_t batch, OutputBatch& out)> fill;  // every value; several at once
};

// Makes the batches on several workers and pushes them in order, one at a time; returns the rows delivered. Memory is
// handed out in order too: whoever waits for memory has the lowest batch not begun, and all lower ones have theirs and
// can be delivered, so waiting ends even with a budget of one batch.
int64_t deliver_in_order(const BatchRecipe& recipe, MemoryBudget& budget, JobControl& control, BatchSink& sink);

}  // namespace spillway
