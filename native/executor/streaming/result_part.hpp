// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "executor/streaming/join_spec.hpp"
#include "memory/memory_budget.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// Makes a column of a result batch. outputs: where the rows begin in each output column of the GPU.
OutputColumn result_column(const OutOfCoreStage& stage, const ResultColumn& column,
                           const std::vector<const uint8_t*>& outputs, uint64_t rows, MemoryBudget& budget);

}  // namespace spillway
