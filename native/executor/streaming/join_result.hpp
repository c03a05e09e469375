// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "executor/streaming/join_spec.hpp"
#include "executor/streaming/result_blocks.hpp"
#include "executor/streaming/text_codes.hpp"
#include "memory/batch_memory.hpp"
#include "memory/memory_budget.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// Result rows of a join on the GPU.
struct JoinedRows {
    const cuda::StagedJoinSpec& join;
    int32_t presence = -1;  // output column with the presence byte; -1: all bits are always set
    // Text columns whose parts are on the GPU have numbers there, which these stand for.
    const TextCodes* texts = nullptr;
    bool packed = false;  // they cross the link packed
};

// Bytes of a value in a row of a batch: of a text what it usually takes, of nested values only an offset.
uint64_t result_width(const ColumnType& type);

// Makes a column of a result batch of so many rows, whose buffers are in `memory` as far as there is room.
OutputColumn result_column(const JoinedRows& rows, const ResultColumn& column, const GpuOutputs& outputs,
                           uint64_t count, BatchMemory& memory, MemoryBudget& budget);

// Batches of these columns, none of which is gathered from a source. Join, columns and budget must outlive the form.
ResultForm join_result_form(const JoinedRows& rows, const std::vector<ResultColumn>& columns, MemoryBudget& budget);

}  // namespace spillway
